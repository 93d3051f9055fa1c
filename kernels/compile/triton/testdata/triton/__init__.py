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


class Config:
    def __init__(self, kwargs, num_warps=4, pre_hook=None):
        self.kwargs, self.num_warps, self.pre_hook = kwargs, num_warps, pre_hook


class Tuned:
    def __init__(self, fn, **held):
        self.fn, self.__dict__ = fn, {"fn": fn, **held}


jit = JITFunction


def autotune(configs, key, **rest):
    return lambda fn: Tuned(fn, configs=configs, **rest)


def heuristics(values):
    return lambda fn: Tuned(fn, values=values)
