"""apex FusedLayerNorm and FusedRMSNorm.

Backward: its autograd function, whose only kernels are those of the extension's backward."""

import fused_layer_norm_cuda  # noqa: F401
from apex.normalization.fused_layer_norm import fused_layer_norm_affine, fused_rms_norm_affine

DISTRIBUTIONS = ("apex",)


def layernorm(x, weight, bias, eps):
    return fused_layer_norm_affine(x, weight, bias, x.shape[-1:], eps)


def rmsnorm(x, weight, eps):
    return fused_rms_norm_affine(x, weight, x.shape[-1:], eps)
