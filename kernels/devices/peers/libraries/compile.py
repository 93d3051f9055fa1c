"""torch.compile.

Backward: the graph that AOTAutograd cuts. Copies of the tensors run the same graph, and so does the problem when it is
opened again."""

import torch
from libraries import torch as eager

DISTRIBUTIONS = ("torch", "triton")
BUILDS = "compiles"
rmsnorm, layernorm, rmsnormgated, layernormgated = (
    torch.compile(f, fullgraph=True, dynamic=False)
    for f in (eager.rmsnorm, eager.layernorm, eager.rmsnormgated, eager.layernormgated)
)
