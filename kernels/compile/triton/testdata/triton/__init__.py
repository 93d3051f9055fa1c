"""Stands for Triton: a kernel is compiled by being called, with a cubin for its answer."""

from types import SimpleNamespace

__version__ = "3.6.0"


class JITFunction:
    starting_line_number, params = 1, ()

    def __init__(self, fn):
        self.fn = fn

    def warmup(self, grid, **arguments):
        print("no answer of the compiler's")
        return SimpleNamespace(asm={"cubin": self.fn(**arguments)}, src=SimpleNamespace(signature={}),
                               metadata=SimpleNamespace(name=self.fn.__name__, num_warps=4, shared=0))


jit = JITFunction
