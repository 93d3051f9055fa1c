"""Liger-Kernel.

Its functional entries with the modules' defaults: rmsnorm casts as Llama does (Gemma's way where the weight is
zero-centered), and writes dx over dy, which is put back between samples. Backward: the kernel, and the sum of its
partial gradients with its cast."""

import inspect

from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward
from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward

DISTRIBUTIONS = ("liger-kernel",)
BUILDS = "compiles"


def accepted(f, **arguments):
    """The arguments that this version of f knows."""
    known = inspect.signature(f).parameters
    return {k: v for k, v in arguments.items() if k in known}


def layernorm(x, weight, bias, eps, dy=None):
    if dy is None:
        return lambda: layer_norm_forward(x, weight, bias, eps)[0]
    _, x, mean, rstd = layer_norm_forward(x, weight, bias, eps)[:4]
    return lambda: layer_norm_backward(dy, x, weight, bias, mean, rstd)


def rmsnorm(x, weight, eps, zero_centered=False, dy=None):
    how = dict(eps=eps, offset=float(zero_centered), casting_mode="gemma" if zero_centered else "llama", row_mode=None)
    args = accepted(rms_norm_forward, X=x, W=weight, **how)
    if dy is None:
        def run():
            return rms_norm_forward(**args)[0]
    else:
        _, x, rstd, block, warps, casting = rms_norm_forward(**args)
        over = dy.clone()
        how.update(casting_mode=casting, BLOCK_SIZE=block, num_warps=warps, in_place=True)
        back = accepted(rms_norm_backward, dY=over, X=x, W=weight, RSTD=rstd, **how)

        def run():
            return rms_norm_backward(**back)

        run.before = lambda: over.copy_(dy)
    run.rounds = {} if zero_centered else {"y": 1, "dx": 2, "dw": 2}  # Llama's casts
    return run
