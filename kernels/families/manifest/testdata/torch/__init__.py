"""A PyTorch without anything in it: modules of kernels import, and Triton compiles what they have."""

import importlib.abc
import importlib.machinery
import sys
import types


class Anything(type):
    """Is a class to derive from, a function to call or decorate with, and a number to compare."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __call__(cls, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else cls


class Nothing(metaclass=Anything):
    pass


class Module(types.ModuleType):
    __path__ = []
    __version__ = "2.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("torch.") else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
sys.modules[__name__].__class__ = Module
