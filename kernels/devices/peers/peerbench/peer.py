"""The peers: functions of files. It needs no torch until one is called."""

import ast
import hashlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable

from peerbench.packages import installed
from peerbench.problem import Problem
from peerbench.trouble import Failure, Trouble, one_line

OPS = ("rmsnorm", "layernorm", "rmsnormgated", "layernormgated")
TENSORS = {"x": "x", "gate": "z", "weight": "w", "bias": "b", "residual": "res", "dy": "dy", "dresidual": "dres"}  # by their arguments
ARGUMENTS = (*TENSORS, "rstd", "mean", "eps", "op", "zero_centered", "no_dw", "sigmoid", "gate_first")
LIBRARIES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "libraries")
COMPILES, TUNES = "compiles", "tunes"  # BUILDS of a file


@dataclass
class Peer:
    """A function for each op, of a file in libraries or of a user's.

    It is called by keyword with those of ARGUMENTS that it has parameters for: tensors of the problem, rstd and mean
    of each row in fp32 for a backward, and what else the problem says. A problem that has more (a residual, a weight
    that is zero-centered) is refused, and so is one that lacks what has no default. It returns the outputs in order,
    y and the new residual, or dx and the gate's, the weight's and the bias' gradients; what it returns beyond that nobody reads.
    Where it returns a function instead, that one is timed: what came before it was to set up.

    A function with a parameter dy has a backward of its own: dy is given in a backward alone. Without one it is
    differentiated by autograd, and its x, gate, weight and bias require a gradient, in a forward too. Of a frozen weight
    (no_dw) only x and the gate do, and of a backward's own values only dx and the gate's gradient are read.

    Attributes before and rounds of what is timed are Call's. NotImplementedError refuses a problem. What a file may
    say of itself: DISTRIBUTIONS, whose versions count; VERSION, of what no distribution tells; BUILDS, COMPILES where
    something is compiled ahead (Builder), TUNES where it is chosen by timing, too; MIXED, in a library, that the weight
    may have another type than x."""

    name: str
    path: str
    system: str  # for people
    function: str = ""  # one for all ops, or "" for those of the ops' names
    version: str = ""
    missing: str = ""  # why it is not there
    builds: str = ""
    mixed: bool = True
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def own(self) -> bool:
        return not self.path.startswith(LIBRARIES)

    def load(self) -> dict[str, str]:
        """Imports the file, where that has not been done. It returns what a hello says of the peer."""
        try:
            if not self.functions:
                self.take(*load(self.path))
            self.missing = ""
        except (Exception, SystemExit) as e:
            self.missing = located(e)
        there = {"missing": self.missing} if self.missing else {"version": self.version, "builds": self.builds}
        return {"name": self.name, "system": self.system, **there}

    def take(self, module: Any, source: str) -> None:
        found = {op: getattr(module, self.function or op, None) for op in OPS}
        found = {op: f for op, f in found.items() if callable(f)}
        if not found:
            there = [n for n, f in vars(module).items() if inspect.isroutine(f) and f.__module__ == module.__name__]
            raise Trouble(f"the file has no function {self.function or ' or '.join(OPS)}, but {', '.join(there) or 'none'}")
        for f in found.values():
            for n in sorted(parameters(f)[1] - set(ARGUMENTS)):
                raise Trouble(f"its parameter {n} has no default, and is none of {', '.join(ARGUMENTS)}")
        self.builds, self.mixed = getattr(module, "BUILDS", ""), self.own() or getattr(module, "MIXED", False)
        self.version = ", ".join(installed(dist) for dist in getattr(module, "DISTRIBUTIONS", ("torch",)))
        self.version += ", " + module.VERSION if hasattr(module, "VERSION") else ""
        self.version += ", source " + source if self.own() else ""
        self.functions = found

    def refuse(self, p: Problem) -> None:
        if p.op not in self.functions:
            raise Failure("refused", f"{self.system} has no {p.op}")
        takes, needs = parameters(self.functions[p.op])
        there = {n for n, k in TENSORS.items() if k in p.inputs()} | {"op", "eps", "zero_centered", "no_dw", "sigmoid", "gate_first"}
        if p.pas == "bwd":
            there |= {"rstd", "mean"} if p.centered else {"rstd"}
        lacks = {"forward"} if "dy" in needs - there else {f"{p.op} without {n}" for n in needs - there}
        options = {
            "weight": "weight" in there - takes,
            "bias": "bias" in there - takes,
            "residual": bool({"residual", "dresidual"} & there - takes),
            "gate": "gate" in there - takes,
            "sigmoid gate": p.sigmoid and "sigmoid" not in takes,
            "gate before the norm": p.gatefirst and "gate_first" not in takes,
            "zero-centered weight": p.zc and "zero_centered" not in takes,
            "weight of another type": p.weight != p.dtype and not self.mixed,
            "fp8": p.fp8,
            "gradient to add to": p.acc,
        }
        lacks |= {n for n, lacking in options.items() if lacking}
        if lacks:
            raise Failure("refused", f"{self.system} has no {' and no '.join(sorted(lacks))}")


def parameters(f: Callable[..., Any]) -> tuple[set[str], set[str]]:
    """The names of f's parameters, and of those without a default. One with ** stands for all of a forward."""
    every = inspect.signature(f).parameters.values()
    rest = {n for n in ARGUMENTS if n not in ("dy", "dresidual") and any(q.kind is q.VAR_KEYWORD for q in every)}
    named = [q for q in every if q.kind not in (q.VAR_POSITIONAL, q.VAR_KEYWORD)]
    return {q.name for q in named} | rest, {q.name for q in named if q.default is q.empty}


LOADED: dict[str, tuple[Any, str]] = {}  # by file: the module, and a hash of its text and of what it has beside it


def load(path: str) -> tuple[Any, str]:
    """Imports a file, which finds what lies beside it, and not what another file has found beside itself."""
    if path not in LOADED:
        folder = os.path.dirname(path)
        for name in [n for other in LOADED for n in beside(os.path.dirname(other))]:
            sys.modules.pop(name, None)
        if not path.startswith(LIBRARIES):
            sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", path), path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        texts = [open(file, "rb").read() for file in [path, *sorted(beside(folder).values())]]
        LOADED[path] = module, hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]
    return LOADED[path]


def beside(folder: str) -> dict[str, str]:
    """The modules that were imported from a folder by their own names, with their files."""
    files = {n: getattr(m, "__file__", None) for n, m in list(sys.modules.items())}
    stems = {n: os.path.join(folder, *n.split(".")) for n in files}
    return {n: f for n, f in files.items() if f in (stems[n] + ".py", os.path.join(stems[n], "__init__.py"))}


def library(file: str) -> Peer:
    path = os.path.join(LIBRARIES, file)
    about = ast.get_docstring(ast.parse(open(path).read())) or ""
    return Peer(file.removesuffix(".py").replace("_", "-"), path, about.partition("\n")[0].rstrip("."))


def callable_of(ref: str) -> Peer:
    """The peer of py:FILE.py:FUNCTION, or of py:FILE.py with functions of the ops' names."""
    stem, function = re.fullmatch(r"py:(.*?)\.py(?::(\w+))?", ref).groups("")
    path = stem + ".py"
    text = os.path.basename(path) + (":" + function if function else "")
    return Peer(ref, os.path.realpath(os.path.expanduser(path)), text, function)


PEERS = {p.name: p for p in (library(f) for f in sorted(os.listdir(LIBRARIES)) if f.endswith(".py"))}


def located(e: BaseException) -> str:
    """What was raised and, in a user's file, where."""
    own = {p.path for p in PEERS.values() if p.own()}
    at = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in traceback.extract_tb(e.__traceback__) if f.filename in own]
    text = str(e) if isinstance(e, Trouble) else one_line(e)
    return f"{text} ({at[-1]})" if at else text
