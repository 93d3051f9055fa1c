"""Fast-LLM.

Backward from the saved output: both kernels, which write the gradients into buffers that are there. That the buffers
count as zero is said before each call. A zero-centered weight has its 1 added in the weight's type by the forward, and
in fp32 by the backward."""

import torch
from fast_llm.functional.triton import normalization as n

DISTRIBUTIONS = ("fast-llm",)
BUILDS = "compiles"


def layernorm(x, weight, bias, eps, zero_centered=False, dy=None):
    most = n.TritonConfig.MAX_BLOCK_SIZE_BYTES  # else an assertion without a word
    if (1 << (x.shape[1] - 1).bit_length()) * x.element_size() > most:
        raise NotImplementedError(f"Fast-LLM's rows have {most} bytes at most, up to the next power of two")
    parameters = [v for v in (weight, bias) if v is not None]

    def forward(training):
        return n.triton_normalization_forward(x, weight, bias, eps, training, zero_centered)

    if dy is None:
        def run():
            return forward(False)[0]

        run.rounds = {"y": 1} if zero_centered else {}
        return run
    for v in parameters:
        v.requires_grad_()
        v.grad_buffer = torch.empty_like(v)
    with torch.no_grad():
        _, context = forward(True)

    def zero():
        for v in parameters:
            v.param_grad_is_zero = True

    def run():
        with torch.no_grad():
            dx = n.triton_normalization_backward(dy, list(context))  # it clears what it is given
        return [dx] + [v.grad_buffer for v in parameters]

    run.before = zero
    run.rounds = {"dx": 2, "dw": 3, "db": 1}  # the saved output, and partial gradients
    return run


def rmsnorm(x, weight, eps, zero_centered=False, dy=None):
    return layernorm(x, weight, None, eps, zero_centered, dy)
