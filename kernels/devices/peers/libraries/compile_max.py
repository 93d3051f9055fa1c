"""torch.compile, max-autotune-no-cudagraphs.

Backward: the graph that AOTAutograd cuts, whose kernels are chosen by timing them. Else as compile.py."""

import torch
from libraries import torch as eager

DISTRIBUTIONS = ("torch", "triton")
BUILDS = "tunes"
rmsnorm, layernorm, rmsnormgated, layernormgated = (
    torch.compile(f, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)
    for f in (eager.rmsnorm, eager.layernorm, eager.rmsnormgated, eager.layernormgated)
)
