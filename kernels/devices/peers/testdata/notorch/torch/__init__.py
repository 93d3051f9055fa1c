raise ModuleNotFoundError("No module named 'torch'")  # stands before a torch that may be there
