"""quack.

Its functional entries, untuned. Backward: the kernel, and the sum of its partial gradients with its cast."""

import importlib

q = importlib.import_module("quack.rmsnorm")  # the package has a function of that name, too
DISTRIBUTIONS = ("quack-kernels",)
BUILDS = "compiles"
MIXED = True


def layernorm(x, weight, eps, bias=None, dy=None):
    if weight.dtype.itemsize != 4:
        raise NotImplementedError("quack's layernorm takes weights in fp32 only")
    forward = lambda: q.layernorm_fwd(x, weight, bias, eps=eps, return_rstd=True, return_mean=True)  # noqa: E731
    if dy is None:
        return forward
    _, rstd, mean = forward()
    return lambda: q.layernorm_bwd(x, weight, dy, rstd, mean, has_bias=bias is not None)


def rmsnorm(x, weight, eps, bias=None, residual=None, zero_centered=False, dy=None, dresidual=None):
    offset = {"weight_offset": 1.0} if zero_centered else {}  # a version without it says so
    forward = lambda **also: q.rmsnorm_fwd(x, weight, bias=bias, eps=eps, store_rstd=True, **offset, **also)  # noqa: E731
    if dy is None:
        return lambda: forward(residual=residual)[:2]
    _, _, rstd = forward()
    return lambda: q.rmsnorm_bwd(x, weight, dy, rstd, dresidual, has_bias=bias is not None, **offset)[:3]
