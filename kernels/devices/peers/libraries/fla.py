"""flash-linear-attention's Triton norms.

Its functional entries, whose tiles and warps Triton has timed. Backward: the kernel, and the sum of its partial gradients
with its cast."""

import os

os.environ["FLA_CACHE_RESULTS"] = "0"  # else the choices of processes that compile ahead would be kept
from fla.modules import fused_norm_gate as g  # noqa: E402
from fla.modules import layernorm as n  # noqa: E402

DISTRIBUTIONS = ("fla-core",)
BUILDS = "tunes"
MIXED = True


def fits(x):
    if x.shape[1] * x.element_size() > 1 << 16:
        raise NotImplementedError("flash-linear-attention's rows have 64 KiB at most")


def norm(x, weight, bias, eps, residual, dy, dresidual, rms):
    fits(x)

    def forward():
        return n.layer_norm_fwd(x, weight, bias, eps, residual=residual, is_rms_norm=rms)

    if dy is None:
        def run():
            y, _, _, total = forward()
            return y, total

        return run
    _, mean, rstd, _ = forward()
    more = {"dres": dresidual, "has_residual": dresidual is not None, "is_rms_norm": rms}
    return lambda: shown(n.layer_norm_bwd(dy, x, weight, bias, mean, rstd, **more)[:3], weight)


def shown(gradients, weight):
    """The gradients that there are: without a weight the bias' comes next."""
    return gradients if weight is not None else (gradients[0], gradients[2])


def layernorm(x, eps, weight=None, bias=None, residual=None, dy=None, dresidual=None):
    return norm(x, weight, bias, eps, residual, dy, dresidual, False)


def rmsnorm(x, eps, weight=None, bias=None, residual=None, dy=None, dresidual=None):
    return norm(x, weight, bias, eps, residual, dy, dresidual, True)


def gated(x, gate, weight, bias, eps, sigmoid, dy, rms):
    fits(x)
    how = {"activation": "sigmoid" if sigmoid else "swish", "eps": eps, "is_rms_norm": rms}

    def forward():
        return g.layer_norm_gated_fwd(x, gate, weight, bias, **how)

    if dy is None:
        return lambda: forward()[0]
    _, mean, rstd, _ = forward()
    return lambda: g.layer_norm_gated_bwd(dy, x, gate, weight, bias, mean=mean, rstd=rstd, **how)[:4]


def layernormgated(x, gate, weight, eps, bias=None, sigmoid=False, dy=None):
    return gated(x, gate, weight, bias, eps, sigmoid, dy, False)


def rmsnormgated(x, gate, weight, eps, bias=None, sigmoid=False, dy=None):
    return gated(x, gate, weight, bias, eps, sigmoid, dy, True)
