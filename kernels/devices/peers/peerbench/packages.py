"""Modules of packages that import more than is needed of them. It needs no torch."""

import importlib
import importlib.metadata
import importlib.util
import re
import sys
from typing import Any


def submodule(name: str) -> Any:
    """Imports a module, not the __init__.py of the packages that it is in: those of flash-attn and mamba import
    extensions that are built for a GPU, which their Triton kernels do without."""
    parts = name.split(".")
    for i in range(1, len(parts)):
        package = ".".join(parts[:i])
        if package in sys.modules:
            continue
        spec = importlib.util.find_spec(package)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        module = importlib.util.module_from_spec(spec)
        version = spec.origin and re.search(r"""^__version__ = ["']([^"']+)""", open(spec.origin, encoding="utf-8").read(), re.M)
        if version:
            module.__version__ = version[1]
        sys.modules[package] = module
        if i > 1:
            setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], module)
    return importlib.import_module(name)


def installed(dist: str) -> str:
    """A distribution with its version, or what a checkout says of itself."""
    try:
        return f"{dist} {importlib.metadata.version(dist)}"
    except importlib.metadata.PackageNotFoundError:  # found by PYTHONPATH, or built in place
        for name in (dist.replace("-", "_"), dist.partition("-")[0]):
            version = getattr(sys.modules.get(name), "__version__", "")
            if version:
                return f"{dist} {version} of a checkout"
        return f"{dist} of unknown version"
