"""mamba's Triton norms.

Its functional entries, whose warps Triton has timed; those of a gated norm have a rule. Backward: the kernel, and the sum
of its partial gradients with its cast."""

import os

os.environ.setdefault("MAMBA_DETERMINISTIC", "0")  # else it may take a config untimed
from peerbench.packages import submodule  # noqa: E402

n = submodule("mamba_ssm.ops.triton.layer_norm")
g = submodule("mamba_ssm.ops.triton.layernorm_gated")
DISTRIBUTIONS = ("mamba-ssm",)
BUILDS = "tunes"
MIXED = True


def fits(x):
    if x.shape[1] * x.element_size() > 1 << 16:
        raise NotImplementedError("mamba's rows have 64 KiB at most")


def norm(x, weight, bias, eps, residual, dy, dresidual, rms):
    fits(x)

    def forward():
        return n._layer_norm_fwd(x, weight, bias, eps, residual=residual, is_rms_norm=rms)

    if dy is None:
        def run():
            out = forward()
            return out[0], out[4]

        return run
    _, _, mean, rstd, *_ = forward()
    more = {"dresidual": dresidual, "has_residual": dresidual is not None, "is_rms_norm": rms}
    return lambda: n._layer_norm_bwd(dy, x, weight, bias, eps, mean, rstd, **more)[:3]


def layernorm(x, weight, eps, bias=None, residual=None, dy=None, dresidual=None):
    return norm(x, weight, bias, eps, residual, dy, dresidual, False)


def rmsnorm(x, weight, eps, bias=None, residual=None, dy=None, dresidual=None):
    return norm(x, weight, bias, eps, residual, dy, dresidual, True)


def gated(x, gate, weight, bias, eps, gate_first, dy, rms):
    fits(x)
    how = {"z": gate, "norm_before_gate": not gate_first, "is_rms_norm": rms}

    def forward():
        return g._layer_norm_fwd(x, weight, bias, eps, **how)

    if dy is None:
        return lambda: forward()[0]
    _, mean, rstd = forward()

    def run():
        dx, dw, db, dz = g._layer_norm_bwd(dy, x, weight, bias, eps, mean, rstd, **how)
        return dx, dz, dw, db

    return run


def layernormgated(x, gate, weight, eps, bias=None, gate_first=False, dy=None):
    return gated(x, gate, weight, bias, eps, gate_first, dy, False)


def rmsnormgated(x, gate, weight, eps, bias=None, gate_first=False, dy=None):
    return gated(x, gate, weight, bias, eps, gate_first, dy, True)
