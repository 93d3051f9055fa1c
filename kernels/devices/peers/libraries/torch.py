"""PyTorch eager.

Backward: the one ATen operator that autograd calls. Its rmsnorm exists since PyTorch 2.9; before, autograd runs a
chain of elementwise kernels, all of them in the interval."""

from torch.nn.functional import layer_norm, rms_norm


def rmsnorm(x, eps, weight=None):
    return rms_norm(x, x.shape[-1:], weight, eps)


def layernorm(x, eps, weight=None, bias=None):
    return layer_norm(x, x.shape[-1:], weight, bias, eps)
