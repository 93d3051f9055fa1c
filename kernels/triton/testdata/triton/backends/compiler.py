GPUTarget = lambda *arguments: arguments
