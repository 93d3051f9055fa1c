"""flash-attn's Triton norms.

Its functional entries, whose warps Triton has timed. Backward: the kernel, and the sum of its partial gradients with
its cast."""

from peerbench.packages import submodule

n = submodule("flash_attn.ops.triton.layer_norm")
DISTRIBUTIONS = ("flash-attn",)
BUILDS = "tunes"
MIXED = True


def norm(x, weight, bias, eps, residual, zero_centered, dy, dresidual, rms):
    if x.shape[1] * x.element_size() > 1 << 16:
        raise NotImplementedError("flash-attn's rows have 64 KiB at most")
    how = {"is_rms_norm": rms, **({"zero_centered_weight": True} if zero_centered else {})}

    def forward():
        return n._layer_norm_fwd(x, weight, bias, eps, residual=residual, **how)

    if dy is None:
        def run():
            out = forward()
            return out[0], out[4]

        return run
    _, _, mean, rstd, *_ = forward()
    more = {"dresidual": dresidual, "has_residual": dresidual is not None, **how}
    return lambda: n._layer_norm_bwd(dy, x, weight, bias, eps, mean, rstd, **more)[:3]


def layernorm(x, weight, eps, bias=None, residual=None, zero_centered=False, dy=None, dresidual=None):
    return norm(x, weight, bias, eps, residual, zero_centered, dy, dresidual, False)


def rmsnorm(x, weight, eps, bias=None, residual=None, zero_centered=False, dy=None, dresidual=None):
    return norm(x, weight, bias, eps, residual, zero_centered, dy, dresidual, True)
