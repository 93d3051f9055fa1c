"""torch.compile, max-autotune-no-cudagraphs.

As compile.py, but that kernels are chosen by timing them."""

import torch
from libraries import torch as eager

DISTRIBUTIONS = ("torch", "triton")
BUILDS = "tunes"
rmsnorm, layernorm, rmsnormgated, layernormgated = (
    torch.compile(f, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)
    for f in (eager.rmsnorm, eager.layernorm, eager.rmsnormgated, eager.layernormgated)
)
