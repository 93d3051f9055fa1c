"""PyTorch eager.

Backward: the one ATen operator that autograd calls. Its rmsnorm exists since PyTorch 2.9; before, autograd runs a
chain of elementwise kernels, all of them in the interval. A gated norm is such a chain, in fp32 as models have it."""

from torch import sigmoid as sigmoid_of
from torch.nn.functional import layer_norm, rms_norm, silu


def rmsnorm(x, eps, weight=None):
    return rms_norm(x, x.shape[-1:], weight, eps)


def layernorm(x, eps, weight=None, bias=None):
    return layer_norm(x, x.shape[-1:], weight, bias, eps)


def gated(norm, x, gate, sigmoid, gate_first):
    act = sigmoid_of(gate.float()) if sigmoid else silu(gate.float())
    y = norm(x.float() * act) if gate_first else norm(x.float()) * act
    return y.to(x.dtype)


def wide(parameter):
    return None if parameter is None else parameter.float()


def rmsnormgated(x, gate, eps, weight=None, sigmoid=False, gate_first=False):
    return gated(lambda h: rms_norm(h, h.shape[-1:], wide(weight), eps), x, gate, sigmoid, gate_first)


def layernormgated(x, gate, eps, weight=None, bias=None, sigmoid=False, gate_first=False):
    return gated(lambda h: layer_norm(h, h.shape[-1:], wide(weight), wide(bias), eps), x, gate, sigmoid, gate_first)
