"""TransformerEngine.

The entries that its modules call (version 2); the modules themselves free x after a backward, which could not be run
again. Backward: the kernel and the sum of its partial gradients."""

from transformer_engine.pytorch.constants import TE_DType  # it loads the next one's library

import transformer_engine_torch as tex

DISTRIBUTIONS = ("transformer-engine",)


def layernorm(x, weight, bias, eps, zero_centered=False, dy=None):
    forward = lambda: tex.layernorm_fwd(x, weight, bias, eps, None, None, TE_DType[x.dtype], 0, zero_centered)  # noqa: E731
    if dy is None:
        return lambda: forward()[0]
    _, mean, rstd = forward()
    return lambda: tex.layernorm_bwd(dy, x, mean, rstd, weight, 0, zero_centered)


def rmsnorm(x, weight, eps, zero_centered=False, dy=None):
    forward = lambda: tex.rmsnorm_fwd(x, weight, eps, None, None, TE_DType[x.dtype], 0, zero_centered)  # noqa: E731
    if dy is None:
        return lambda: forward()[0]
    _, _, rstd = forward()
    return lambda: tex.rmsnorm_bwd(dy, x, rstd, weight, 0, zero_centered)
