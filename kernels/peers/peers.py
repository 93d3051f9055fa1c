"""Other people's normalization kernels as a device of normbench.

A worker in the sense of package worker: requests are JSON lines on standard
input, answers JSON lines on standard output. It needs PyTorch with CUDA, and
measures whichever peers the Python that runs it can import: the files of libraries,
and functions of users' files. Peer says what they are called with.

What is timed. An interval lies between two CUDA events around one call of a
peer. Before it the L2 is flushed by reading twice its size, in a way that what a
peer asked it to keep does not outlast (Flush). All samples of a
batch are enqueued behind a spin; an event behind the spin proves, after the last
sample is enqueued, that the GPU has not begun with the first: no host time is in
any sample. A batch without the proof is taken again behind a longer spin, and a
peer that never gets it is unfit.

What is in an interval. A forward is called as training calls it, and leaves what
its backward needs: rstd, and mean in layernorm, as our kernels do. (Under no_grad
torch.compile and quack leave them out: 18.1 us and not 18.5 at layernorm 65536x256,
32.9 and not 33.9 at 32768x1024, where they are 0.8 and 0.2% of the bytes.) A
backward is timed alone, its forward run before: by the peer's own entry where there
is one, else by torch.autograd.grad, which for a single autograd function adds no
kernel.
What a peer does itself (zeroing, casts, the sum of partial gradients) counts;
see each file of libraries. Its kernels one by one are timed in a pass of its own, by
torch's profiler.

Compiling ahead. Peers that compile at run time do so in processes beside this
one, before anything is measured: see Builder, which also says why none of their
choices survives.

Arguments: --uuid GPU-... (the GPU to use), --cache FOLDER (of all that is
compiled), --prepare (be such a process beside), --peer NAME (leave out those that are not
named; py:FILE.py:FUNCTION is a user's).
NORMBENCH_PEERS_CPU=1 runs what runs on a CPU, for tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import ctypes
import gc
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import re
import statistics
import struct
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

PROTOCOL = 1
EPS = 1e-5
CPU = os.environ.get("NORMBENCH_PEERS_CPU") == "1"
torch: Any = None  # imported by the first hello, so that its absence is an answer

Tensors = dict[str, Any]


class Trouble(Exception):
    """An error that is nobody's result, with the next step for the user."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Failure(Exception):
    """A peer that could not be measured: a result, with kernels.Status."""

    def __init__(self, status: str, reason: str, broken: bool = False) -> None:
        super().__init__(reason)
        self.status, self.broken = status, broken


# ---- The problem: kernels.Problem ----

PROBLEM = re.compile(
    r"(rmsnorm|layernorm)/(fwd|bwd)/(\d+)x(\d+)/(fp32|bf16|fp16)(?:-w(fp32|bf16|fp16))?"
    r"(\+bias)?(\+zc)?(\+noweight)?(\+residual)?(\+fp8t?)?(\+acc)?"
)
EPSILON = {"fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10}
SMALLEST = {"fp32": 2.0**-149, "bf16": 2.0**-133, "fp16": 2.0**-24}  # above zero, subnormal
LIMIT = {"fp32": float.fromhex("0x1.ffffffp127"), "bf16": float.fromhex("0x1.ffp127"), "fp16": 65520.0}


@dataclass(frozen=True)
class Problem:
    text: str
    op: str
    pas: str
    M: int
    N: int
    dtype: str
    weight: str
    bias: bool
    zc: bool
    noweight: bool
    residual: bool
    fp8: bool
    acc: bool

    @staticmethod
    def parse(text: str) -> Problem:
        m = PROBLEM.fullmatch(text)
        if not m:
            raise Trouble(f"malformed problem {text!r}", "install the same normbench on both sides")
        op, pas, rows, cols, dtype, weight, *options = m.groups()
        return Problem(text, op, pas, int(rows), int(cols), dtype, weight or dtype, *(o is not None for o in options))

    def type(self, name: str) -> str:
        return self.weight if name in ("w", "b", "dw", "db") else self.dtype

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.N,) if name in ("w", "b", "dw", "db") else (self.M, self.N)

    def inputs(self) -> list[str]:
        fwd = self.pas == "fwd"
        names = {"x": True, "res": self.residual and fwd, "dy": not fwd, "dres": self.residual and not fwd,
                 "w": not self.noweight, "b": self.bias}
        return [n for n, there in names.items() if there]

    def outputs(self) -> list[str]:
        if self.pas == "fwd":
            return ["y"] + ["resout"] * self.residual
        return ["dx"] + ["dw"] * (not self.noweight) + ["db"] * self.bias


def dtype_of(name: str) -> Any:
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


# ---- Seeded inputs, to the bit: package reference, Draw ----

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
UNIT = struct.unpack("f", struct.pack("f", 1 / 37837.227))[0]
HOSTILE = 1 << 62
# name: stream, scale, offset. The weight's offset is 0 where it is zero-centered.
DRAWS = {"x": (1, 1.0, 0.25), "dy": (2, 1.0, 0.0), "w": (3, 0.25, 1.0), "b": (4, 0.25, 0.0),
         "res": (6, 1.0, -0.125), "dres": (7, 1.0, 0.0)}
CHUNK = 1 << 24  # elements worked on at once


def signed(u: int) -> int:
    u &= MASK
    return u - (1 << 64) if u >> 63 else u


def mix_int(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def mix(z: Any) -> Any:
    """splitmix64's finalizer on int64 tensors: products wrap, shifts must not drag the sign in."""
    def right(v: Any, s: int) -> Any:
        return (v >> s) & ((1 << (64 - s)) - 1)

    z = (z ^ right(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ right(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ right(z, 31)


def draw(p: Problem, name: str, seed: int, device: Any) -> Any:
    stream, scale, offset = DRAWS[name]
    if name == "w" and p.zc:
        offset = 0.0
    shape, dtype = p.shape(name), dtype_of(p.type(name))
    out = torch.empty(math.prod(shape), dtype=dtype, device=device)
    start = signed(mix_int(seed + stream * GOLDEN & MASK))
    for lo in range(0, out.numel(), CHUNK):
        i = torch.arange(lo, min(lo + CHUNK, out.numel()), dtype=torch.int64, device=device)
        z = mix(i * signed(GOLDEN) + start)
        total = sum((z >> s) & 0xFFFF for s in (0, 16, 32, 48)) - 131070
        # Two products and a sum, each rounded: in one expression a compiler might fuse them.
        v = total.to(torch.float32)
        v = v * UNIT
        v = v * scale
        v = v + offset
        if seed & HOSTILE:
            v = ordeal(p, name, seed, i, v)
        out[lo : lo + CHUNK] = v.to(dtype)
    return out.view(shape)


def ordeal(p: Problem, name: str, seed: int, i: Any, v: Any) -> Any:
    """What a hostile seed makes of x and dy: package reference, Draw.ordeal."""
    if name not in ("x", "dy"):
        return v
    row, col = i // p.N, i % p.N
    kind, one = (row + seed % 8) % 8, row * 7919 % p.N == col
    if name == "dy":
        return torch.where((kind == 6) & one, math.inf, v)
    huge = 2.0**12 if p.dtype == "fp16" else 2.0**50
    for k, factor in ((2, huge), (3, 2.0**-12), (7, 2.0**-80)):
        v = torch.where(kind == k, v * factor, v)
    v = torch.where(kind == 1, 0.0, v)
    v = torch.where((kind == 4) & one, -math.inf, v)
    return torch.where((kind == 5) & one, math.nan, v)


# ---- Float64 answers and the comparison: package reference, Answers and Compare ----


def finite(v: Any) -> Any:
    return torch.where(torch.isfinite(v), v, 0.0)


def rows(p: Problem, t: Tensors) -> Iterator[tuple[slice, Any, Any, Any]]:
    """Some rows at a time, in float64: x with its residual, its mean and one over its standard deviation."""
    step = max(CHUNK // p.N, 1)
    for lo in range(0, p.M, step):
        at = slice(lo, lo + step)
        h = t["x"][at].double()
        if "res" in t:
            h = h + t["res"][at].double()
        mean = h.mean(1, keepdim=True) if p.op == "layernorm" else torch.zeros_like(h[:, :1])
        yield at, h, mean, 1 / torch.sqrt(((h - mean) ** 2).mean(1, keepdim=True) + EPS)


def saved(p: Problem, t: Tensors) -> Tensors:
    """What a forward has saved for the backward, in fp32."""
    parts = [(mean, rstd) for _, _, mean, rstd in rows(p, t)]
    mean, rstd = (torch.cat(v).reshape(-1).float() for v in zip(*parts))
    return {"rstd": rstd, "mean": mean} if p.op == "layernorm" else {"rstd": rstd}


def answers(p: Problem, t: Tensors) -> tuple[Tensors, dict[str, float]]:
    """The answers by name, and the scale of the terms that each is made of."""
    device = t["x"].device
    want = {n: torch.zeros(p.shape(n), dtype=torch.float64, device=device) for n in p.outputs()}
    squares = {n: torch.zeros((), dtype=torch.float64, device=device) for n in want}
    wf = torch.ones(p.N, dtype=torch.float64, device=device) if p.noweight else t["w"].double()
    if p.zc:
        wf = wf + 1
    for at, h, mean, rstd in rows(p, t):
        if "res" in t:
            want["resout"][at] = h
            squares["resout"] += finite(h * h).sum()
        xhat = (h - mean) * rstd
        if p.pas == "fwd":
            y = xhat * wf
            if p.bias:
                y = y + t["b"].double()
            want["y"][at] = y
            squares["y"] += finite(y * y).sum()
            continue
        dy = t["dy"][at].double()
        g = dy * wf
        dx = g - xhat * (g * xhat).mean(1, keepdim=True)
        if p.op == "layernorm":
            dx = dx - g.mean(1, keepdim=True)
        dx = dx * rstd
        if "dres" in t:
            dx = dx + t["dres"][at].double()
        want["dx"][at] = dx
        squares["dx"] += finite((rstd * g) ** 2).sum()
        # xhat is a difference: errors have the scale of x and the mean.
        for name, term, size2 in (("dw", dy * xhat, (dy * rstd) ** 2 * (h * h + mean * mean)), ("db", dy, dy * dy)):
            if name in want:
                want[name] += term.sum(0)
                squares[name] += finite(size2).sum()
    # Of dw and db, per column: the terms of a sum are taken together.
    return want, {n: math.sqrt(s.item() / want[n].numel()) for n, s in squares.items()}


def tolerance(p: Problem, name: str, scale: float, roundings: int) -> tuple[float, float]:
    """The relative and the absolute part: reference.ToleranceFor. Each rounding to the tensors' type on the way to
    an output may cost half an epsilon of it and, where terms cancel, eight times the mean error of their scale:
    reference.Tolerance.Loosen."""
    noise = 2.0**-24 * (16 + math.sqrt(p.M if name in ("dw", "db") else p.N))
    half = EPSILON[p.type(name)] / 2
    way = roundings * EPSILON[p.dtype] / 2
    steps = (SMALLEST[p.type(name)] + roundings * SMALLEST[p.dtype]) / 2
    return 1.02 * (half + way) + noise, 4 * noise * scale + 4 * way * scale + steps


def spans(n: int) -> Iterator[slice]:
    for lo in range(0, n, CHUNK):
        yield slice(lo, min(lo + CHUNK, n))


def number(f: float) -> Any:
    """kernels.Number: JSON has neither NaN nor infinities."""
    return f if math.isfinite(f) else "NaN" if f != f else "+Inf" if f > 0 else "-Inf"


def compare(p: Problem, name: str, got: Any, want: Any, scale: float, roundings: int,
            parts: Optional[list[slice]] = None) -> dict[str, Any]:
    if tuple(got.shape) != p.shape(name):
        raise Failure("wrong", f"{name} has shape {tuple(got.shape)}, want {p.shape(name)}")
    if got.dtype != dtype_of(p.type(name)):
        raise Failure("wrong", f"{name} is {got.dtype}, want {dtype_of(p.type(name))}")
    rel, absolute = tolerance(p, name, scale, roundings)
    limit = LIMIT[p.type(name)]
    got, want = got.reshape(-1), want.reshape(-1)
    out = {"name": name, "elems": got.numel(), "bad": 0, "max_err": 0.0, "rel_l2": 0.0}
    err2 = want2 = 0.0
    for at in parts or spans(got.numel()):
        g, w = got[at].double(), want[at]
        w = torch.where(w.abs() >= limit, torch.sign(w) * math.inf, w)
        same = (g == w) | (torch.isnan(g) & torch.isnan(w))
        diff = (g - w).abs()
        ratio = torch.where(same, 0.0, diff / (absolute + rel * w.abs()))
        ratio = torch.where(torch.isnan(ratio), math.inf, ratio)
        met = torch.isfinite(ratio)
        err2 += finite(torch.where(met & ~same, diff * diff, 0.0)).sum().item()
        want2 += finite(torch.where(met, w * w, 0.0)).sum().item()
        bad = ratio > 1
        count = int(bad.sum())
        if count and not out["bad"]:
            first = int(torch.nonzero(bad)[0])
            out.update(first=at.start + first, got=number(g[first].item()), want=number(w[first].item()))
        out["bad"] += count
        out["max_err"] = max(out["max_err"], min(ratio.max().item(), 3.4e38))
    if want2 > 0:
        out["rel_l2"] = min(math.sqrt(err2 / want2), 3.4e38)
    return out


# ---- The peers: functions of files ----

OPS = ("rmsnorm", "layernorm")
TENSORS = {"x": "x", "weight": "w", "bias": "b", "residual": "res", "dy": "dy", "dresidual": "dres"}  # by their arguments
ARGUMENTS = (*TENSORS, "rstd", "mean", "eps", "op", "zero_centered")
HERE = os.path.dirname(os.path.abspath(__file__))
COMPILES, TUNES = "compiles", "tunes"  # BUILDS of a file


@dataclass
class Call:
    """A peer on a problem: run returns the outputs by name. before puts back, outside the timed interval, what the
    call before has overwritten. rounds says how often an output is rounded to the tensors' type on the way. left is
    what the last timed run returned."""

    run: Callable[[], Tensors]
    before: Optional[Callable[[], None]] = None
    rounds: dict[str, int] = field(default_factory=dict)
    left: Optional[Tensors] = None


@dataclass
class Peer:
    """A function for each op, of a file in libraries or of a user's.

    It is called by keyword with those of ARGUMENTS that it has parameters for: tensors of the problem, rstd and mean
    of each row in fp32 for a backward, and what else the problem says. A problem that has more (a residual, a weight
    that is zero-centered) is refused, and so is one that lacks what has no default. It returns the outputs in order,
    y and the new residual, or dx and the weight's and the bias' gradients; what it returns beyond that nobody reads.
    Where it returns a function instead, that one is timed: what came before it was to set up.

    A function with a parameter dy has a backward of its own: dy is given in a backward alone. Without one it is
    differentiated by autograd, and its x, weight and bias require a gradient, in a forward too.

    Attributes before and rounds of what is timed are Call's. NotImplementedError refuses a problem. What a file may
    say of itself: DISTRIBUTIONS, whose versions count; BUILDS, COMPILES where something is compiled ahead (Builder),
    TUNES where it is chosen by timing, too; MIXED, in a library, that the weight may have another type than x."""

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
        return not self.path.startswith(HERE)

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
        self.version += ", source " + source if self.own() else ""
        self.functions = found

    def refuse(self, p: Problem) -> None:
        if p.op not in self.functions:
            raise Failure("refused", f"{self.system} has no {p.op}")
        takes, needs = parameters(self.functions[p.op])
        there = {n for n, k in TENSORS.items() if k in p.inputs()} | {"op", "eps", "zero_centered"}
        if p.pas == "bwd":
            there |= {"rstd", "mean"} if p.op == "layernorm" else {"rstd"}
        lacks = {"forward"} if "dy" in needs - there else {f"{p.op} without {n}" for n in needs - there}
        options = {
            "weight": "weight" in there - takes,
            "bias": "bias" in there - takes,
            "residual": bool({"residual", "dresidual"} & there - takes),
            "zero-centered weight": p.zc and "zero_centered" not in takes,
            "weight of another type": p.weight != p.dtype and not self.mixed,
            "fp8": p.fp8,
            "gradient to add to": p.acc,
        }
        lacks |= {n for n, lacking in options.items() if lacking}
        if lacks:
            raise Failure("refused", f"{self.system} has no {' and no '.join(sorted(lacks))}")

    def ready(self, p: Problem, t: Tensors) -> Call:
        self.refuse(p)
        f = self.functions[p.op]
        takes, _ = parameters(f)
        args = {n: t[k] for n, k in TENSORS.items() if k in t}
        args.update(op=p.op, eps=EPS, zero_centered=p.zc)
        if p.pas == "bwd" and takes & {"rstd", "mean"}:
            args.update(saved(p, t))
        args = {n: v for n, v in args.items() if n in takes}
        leaves = [] if "dy" in takes else [n for n in ("x", "weight", "bias") if n in args]
        args.update({n: args[n].detach().requires_grad_() for n in leaves})
        made = f(**args)
        run, notes = (made, made) if callable(made) else (lambda: f(**args), f)
        if leaves and p.pas == "bwd":
            import torch._functorch.config as functorch

            functorch.donated_buffer = False  # torch.compile's, as a backward runs many times
            y = run() if callable(made) else made
            y = y[0] if isinstance(y, (tuple, list)) else y
            if not getattr(y, "requires_grad", False):
                raise Failure("refused", f"{self.system} has no backward: autograd finds none in what it returns, and it has no parameter dy")
            run = lambda: torch.autograd.grad(y, [args[n] for n in leaves], t["dy"], retain_graph=True)  # noqa: E731
        return Call(lambda: named(p, run()), getattr(notes, "before", None), getattr(notes, "rounds", {}))


def parameters(f: Callable[..., Any]) -> tuple[set[str], set[str]]:
    """The names of f's parameters, and of those without a default. One with ** stands for all of a forward."""
    every = inspect.signature(f).parameters.values()
    rest = {n for n in ARGUMENTS if n not in ("dy", "dresidual") and any(q.kind is q.VAR_KEYWORD for q in every)}
    named = [q for q in every if q.kind not in (q.VAR_POSITIONAL, q.VAR_KEYWORD)]
    return {q.name for q in named} | rest, {q.name for q in named if q.default is q.empty}


def named(p: Problem, values: Any) -> Tensors:
    """The outputs of p by name, from a peer's values in that order. What autograd knows of them is no output."""
    values = values if isinstance(values, (tuple, list)) else (values,)
    return {n: v.detach() if getattr(v, "requires_grad", False) else v for n, v in zip(p.outputs(), values)}


def installed(dist: str) -> str:
    try:
        return f"{dist} {importlib.metadata.version(dist)}"
    except importlib.metadata.PackageNotFoundError:  # built in place
        return f"{dist} of unknown version"


LOADED: dict[str, tuple[Any, str]] = {}  # by file: the module, and a hash of its text and of what it has beside it


def load(path: str) -> tuple[Any, str]:
    """Imports a file, which finds what lies beside it, and not what another file has found beside itself."""
    if path not in LOADED:
        folder = os.path.dirname(path)
        for name in [n for other in LOADED for n in beside(os.path.dirname(other))]:
            sys.modules.pop(name, None)
        if not path.startswith(HERE):
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
    path = os.path.join(HERE, "libraries", file)
    about = ast.get_docstring(ast.parse(open(path).read())) or ""
    return Peer(file.removesuffix(".py").replace("_", "-"), path, about.partition("\n")[0].rstrip("."))


def callable_of(ref: str) -> Peer:
    """The peer of py:FILE.py:FUNCTION, or of py:FILE.py with functions of the ops' names."""
    stem, function = re.fullmatch(r"py:(.*?)\.py(?::(\w+))?", ref).groups("")
    path = stem + ".py"
    text = os.path.basename(path) + (":" + function if function else "")
    return Peer(ref, os.path.realpath(os.path.expanduser(path)), text, function)


PEERS = {p.name: p for p in (library(f) for f in sorted(os.listdir(os.path.join(HERE, "libraries"))) if f.endswith(".py"))}


# ---- Timing ----

BATCH = 2  # samples behind one spin, besides the first: with more than 20 operations enqueued behind it a launch starts later
TRIES = 6
WARM_SPIN = 60e-6  # between samples that leave the cache warm


class Flush:
    """Reads a buffer larger than the L2. After a write the call would pay for writing the flush back to memory.

    Lines that a call asked L2 to keep (evict_last, which Triton's eviction_policy gives) are the last to leave
    it: a plain reading drives out everything else, and the next sample finds them. So the buffer is read under
    the same policy, which leaves room for nobody, and then takes it back. applypriority reads what is gone.
    """

    GRID, THREADS = 528, 512
    WALK = """
.visible .entry {name}(.param .u64 from, .param .u64 to, .param .u64 never) {{
  .reg .pred over;
  .reg .b32 n, cta, thread, a, b, c, d, all;
  .reg .b64 at, end, step, policy;
  ld.param.u64 at, [from];
  ld.param.u64 end, [to];
  mov.u32 n, %ntid.x;
  mov.u32 cta, %ctaid.x;
  mov.u32 thread, %tid.x;
  mad.lo.u32 thread, cta, n, thread;
  mad.wide.u32 at, thread, {each}, at;
  mov.u32 cta, %nctaid.x;
  mul.lo.u32 n, n, cta;
  mul.wide.u32 step, n, {each};
"""
    KEEP = """
  mov.u32 all, 0;
  createpolicy.fractional.L2::evict_last.b64 policy, 1.0;
next:
  setp.ge.u64 over, at, end;
  @over bra done;
  ld.global.L2::cache_hint.v4.b32 {a, b, c, d}, [at], policy;
  add.u32 all, all, a;
  add.u64 at, at, step;
  bra next;
done:
  setp.ne.u32 over, all, 0x9e3779b9;
  @over ret;
  ld.param.u64 at, [never];
  st.global.u32 [at], all;
  ret;
}
"""
    LET_GO = """
next:
  setp.ge.u64 over, at, end;
  @over ret;
  applypriority.global.L2::evict_normal [at], 128;
  add.u64 at, at, step;
  bra next;
}
"""
    PTX = ".version 7.4\n.target sm_80\n.address_size 64\n" + WALK.format(name="keep", each=16) + KEEP + WALK.format(name="let_go", each=128) + LET_GO

    def __init__(self) -> None:
        self.buffer = torch.ones(32, device="cuda")
        self.sink = torch.zeros((), device="cuda")
        self.entries: list[ctypes.c_void_p] = []
        if torch.cuda.get_device_capability() < (8, 0):
            return  # it has no policies
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise Trouble(f"the flush needs the driver itself: {e}", "libcuda.so.1 comes with the NVIDIA driver; add its folder to LD_LIBRARY_PATH") from e
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), self.PTX.encode())
        for name in (b"keep", b"let_go"):
            self.entries.append(ctypes.c_void_p())
            self.call("cuModuleGetFunction", ctypes.byref(self.entries[-1]), module, name)

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.driver, name)(*args)
        if code:
            raise Trouble(f"{name}: CUDA error {code}", "see `nvidia-smi`; a driver for CUDA 11.4 or later is needed")

    def launch(self, entry: ctypes.c_void_p, start: int, size: int) -> None:
        values = [ctypes.c_uint64(v) for v in (start, start + size, self.sink.data_ptr())]
        args = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self.call("cuLaunchKernel", entry, self.GRID, 1, 1, self.THREADS, 1, 1, 0, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), args, None)

    def mark(self) -> None:
        """Launches what a trace shows as let_go, and does nothing."""
        self.launch(self.entries[1], self.buffer.data_ptr(), 0)

    def __call__(self, size: int) -> None:
        size -= size % 128
        if self.buffer.numel() != size // 4:
            self.buffer = torch.ones(size // 4, device="cuda")
        for entry in self.entries:
            self.launch(entry, self.buffer.data_ptr(), size)
        if not self.entries:
            torch.sum(self.buffer, 0, out=self.sink)


class Clock:
    """CUDA events behind a spin. Its queue is that of the current stream."""

    def __init__(self) -> None:
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * BATCH + 2)]
        self.gate = torch.cuda.Event()
        self.flush = Flush()
        self.hosts: list[float] = []
        self.marks = False  # whether each sample is between two marks
        self.rate = 1e9
        for _ in range(2):  # cycles per second; the first one wakes the clocks
            a, b = self.events[:2]
            a.record()
            torch.cuda._sleep(20_000_000)
            b.record()
            b.synchronize()
            self.rate = 20_000_000 / (a.elapsed_time(b) / 1e3)

    def spin(self, seconds: float) -> None:
        torch.cuda._sleep(int(seconds * self.rate))

    def batch(self, calls: list[Call], n: int, flush: int, spin: float, keep: bool,
              poison: Optional[Callable[[Call], None]] = None) -> tuple[list[float], float, bool]:
        """n samples behind a spin: their seconds, those of the host, and whether the spin outlasted the host. poison
        comes ahead of the last one's flush."""
        torch.cuda.synchronize()
        kept = []  # outputs, where the next sample's must lie elsewhere to be cold
        start = time.perf_counter()
        self.spin(spin)
        self.gate.record()
        for i in range(n):
            call = calls[i % len(calls)]
            if poison and i == n - 1:
                poison(call)
            if call.before:
                call.before()
            if flush:
                self.flush(flush)
            else:
                self.spin(WARM_SPIN)
            if self.marks:
                self.flush.mark()
            self.events[2 * i].record()
            began = time.perf_counter()
            call.left = call.run()
            self.hosts.append(time.perf_counter() - began)
            self.events[2 * i + 1].record()
            if self.marks:
                self.flush.mark()
            if keep:
                kept.append(call.left)
        ahead = not self.gate.query()
        host = time.perf_counter() - start
        torch.cuda.synchronize()
        self.last = call
        pairs = zip(self.events[0 : 2 * n : 2], self.events[1 : 2 * n : 2])
        return [a.elapsed_time(b) / 1e3 for a, b in pairs], host, ahead

    def visit(self, calls: list[Call], samples: int, flush: int,
              poison: Optional[Callable[[Call], None]] = None) -> list[float]:
        """Seconds of samples. The last of them follows a poison, and is of self.last. hosts are what the host took
        for the calls, which is in no sample."""
        self.hosts, keep = [], len(calls) > 1
        most, out, host = BATCH, [], 0.0
        gc.collect()
        gc.disable()  # a collection is a pause of the host
        try:
            while len(out) < samples:
                lead = 1 if out else 0  # the first one after a pause is biased; that of a visit the client drops
                n = min(samples - len(out), most) + lead
                if not out:
                    _, host, _ = self.batch(calls, n, flush, 0, keep)  # untimed: what the host takes
                    calls = calls[n % len(calls) :] + calls[: n % len(calls)]
                spin = 1.5 * host + 1e-3
                for _ in range(TRIES):
                    last = poison if len(out) + n - lead == samples else None
                    got, host, ahead = self.batch(calls, n, flush, spin, keep, last)
                    calls = calls[n % len(calls) :] + calls[: n % len(calls)]  # the next one goes on with other tensors
                    if ahead:
                        break
                    spin, most = max(2 * spin, 1.5 * host), max(most // 2, 1)
                    n = min(n, most + lead)
                else:
                    raise Failure("unfit", f"the GPU was never kept busy until the host had enqueued {n} calls, not by {spin:.3g} s: "
                                           "they wait for the GPU, or are too many operations for its queue")
                out += got[lead:]
            if flush:
                self.flush(flush)  # what the last call asked L2 to keep is nobody else's burden
            return out
        finally:
            gc.enable()


    def trace(self, calls: list[Call], samples: int, flush: int, poison: Callable[[Call], None]) -> tuple[list[float], dict[str, Any]]:
        """As visit, with each kernel's time as torch's profiler has it, by CUPTI: its host is slower, its samples longer."""
        self.marks = bool(self.flush.entries)
        try:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                seconds = self.visit(calls, samples, flush, poison)
        finally:
            self.marks = False
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            profile.export_chrome_trace(path)
            with open(path, encoding="utf-8") as f:
                return seconds, stages(json.load(f)["traceEvents"], samples)


def stages(events: list[dict[str, Any]], samples: int) -> dict[str, Any]:
    """What a timing says of its stages: the kernels between two marks, those of one name together. It says nothing
    where they differ from sample to sample."""
    ran = [(float(e["ts"]), e["name"], float(e["dur"])) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    found, part = [], None
    for start, name, us in sorted(ran, key=lambda e: e[0]):
        if name == "let_go":
            found += [part] if part else []
            part = []
        elif name == "keep" or "spin_kernel" in name:
            part = None  # what came before was set-up for the next sample
        elif part is not None:
            part.append((short(name), start, us))
    alike = [p for p in found if [k[0] for k in p] == [k[0] for k in found[-1]]][-samples:]
    if len(alike) < samples or len(set(k[0] for k in alike[0])) > 64:
        return {}
    names = dict.fromkeys(k[0] for k in alike[0])
    return {"by": "cupti",
            "stages": [{"stage": n, "seconds": [1e-6 * max(sum(k[2] for k in p if k[0] == n), 1e-3) for p in alike]} for n in names],
            "gaps": [1e-6 * max(sum(b[1] - a[1] - a[2] for a, b in zip(p, p[1:])), 0) for p in alike]}


def short(name: str) -> str:
    """The name of a kernel without its type, namespaces and arguments."""
    plain = re.sub(r"[<(].*", "", name.replace("(anonymous namespace)::", ""), flags=re.DOTALL)
    return plain.split("::")[-1].removeprefix("void ").strip() or name[:64]


class Stopwatch:
    """The clock of a CPU, for tests: there is no queue to be ahead of."""

    hosts: list[float] = [0.0]

    def visit(self, calls: list[Call], samples: int, flush: int,
              poison: Optional[Callable[[Call], None]] = None) -> list[float]:
        out: list[float] = []
        for i in range(samples):
            call = calls[i % len(calls)]
            if poison and i == samples - 1:
                poison(call)
            if call.before:
                call.before()
            start = time.perf_counter()
            call.left = call.run()
            out.append(max(time.perf_counter() - start, 1e-9))
            self.last = call
        return out


# ---- The device ----


class Device:
    """What a hello opens. Tests put another one with the same methods in its place."""

    def __init__(self, uuid: str) -> None:
        self.begin(uuid)
        self.clock: Any = Stopwatch() if CPU else Clock()
        self.about = [p.load() for p in PEERS.values()]

    def begin(self, uuid: str) -> None:
        global torch
        try:
            torch = importlib.import_module("torch")
        except (Exception, SystemExit) as e:
            raise Trouble(f"{sys.executable} has no torch: {one_line(e)}", "install PyTorch there, or name another Python with --python")
        self.device = "cpu" if CPU else f"cuda:{self.find(uuid)}"
        if not CPU:
            torch.cuda.set_device(self.device)
        self.problem: Optional[Problem] = None
        self.last = ""  # problem that was open
        self.forget()

    @staticmethod
    def find(uuid: str) -> int:
        """The ordinal of a GPU; both processes may count in another order."""
        where = f"torch {torch.__version__} of {sys.executable}"
        if not torch.cuda.is_available():
            raise Trouble(f"{where} has no CUDA GPU", "install a PyTorch for CUDA, check `nvidia-smi`, or name another Python with --python")
        if not uuid:
            return 0
        for i in range(torch.cuda.device_count()):
            mine = getattr(torch.cuda.get_device_properties(i), "uuid", None)
            if mine is None or uuid.endswith(str(mine)):  # before PyTorch 2.5 it cannot be told
                return i
        raise Trouble(f"{where} does not see the GPU {uuid}", "check CUDA_VISIBLE_DEVICES")

    def info(self) -> dict[str, Any]:
        compiler = "torch " + torch.__version__
        if CPU:
            return {"id": "cpu-peers", "kind": "cpu", "name": "the CPU of the peers", "arch": "cpu", "sms": 1,
                    "compiler": compiler, "cache_bytes": 1 << 20, "memory_bytes": 0}
        g = torch.cuda.get_device_properties(self.device)
        uuid = getattr(g, "uuid", None)
        return {"id": "-".join(re.findall("[a-z0-9]+", g.name.lower())), "kind": "cuda", "name": g.name, "uuid": f"GPU-{uuid}" if uuid else "",
                "arch": f"sm_{g.major}{g.minor}", "sms": g.multi_processor_count, "driver": torch.version.cuda or "",
                "compiler": compiler, "cache_bytes": getattr(g, "L2_cache_size", 0), "memory_bytes": g.total_memory}

    def forget(self) -> None:
        self.tensors: Tensors = {}
        self.want: Tensors = {}
        self.scale: dict[str, float] = {}
        self.calls: dict[str, list[Call]] = {}
        self.visits = 0
        self.verdicts: dict[str, str] = {}  # of the peers checked: what is wrong, or ""

    def open(self, problem: str, seed: int) -> None:
        if self.problem:
            self.close()
        self.problem, self.seed = Problem.parse(problem), seed
        if problem != self.last:
            if "torch._dynamo" in sys.modules:
                torch._dynamo.reset()  # else it gives up after eight problems
        self.last = problem

    def close(self) -> None:
        self.problem = None
        self.forget()
        gc.unfreeze()
        gc.collect()
        if not CPU:
            torch.cuda.empty_cache()  # the other process needs the memory too

    def ready(self, name: str, copies: int = 1) -> list[Call]:
        p, peer = self.problem, PEERS.get(name)
        if peer is None or peer.missing:
            raise Failure("refused", f"peer {name} is not there: {peer.missing if peer else 'unknown'}")
        peer.refuse(p)
        if not self.tensors:
            tensors = {n: draw(p, n, self.seed, self.device) for n in p.inputs()}
            self.want, self.scale = answers(p, tensors)
            self.tensors = tensors  # not before: there may be no memory for the answers
        calls = self.calls.setdefault(name, [])
        while len(calls) < copies:
            # Each peer has tensors of its own where it might mark or overwrite them; of a library, a first copy of the
            # large ones would double the memory.
            own = {n: t.clone() if calls or t.dim() == 1 or peer.own() else t.detach() for n, t in self.tensors.items()}
            calls.append(peer.ready(p, own))
            gc.freeze()  # a visit's collection would else look through all of torch, for longer than the visit takes
        return calls

    def poison(self, call: Call) -> None:
        """Leaves NaN in what the call has returned before, which a peer may hand out once more, and in the memory that
        new outputs will be put into, as far as the allocator goes along."""
        p = self.problem
        for t in (call.left or {}).values():
            t.detach().fill_(math.nan)
        call.left = None
        for t in [torch.full(p.shape(n), math.nan, dtype=dtype_of(p.type(n)), device=self.device) for n in p.outputs()]:
            del t

    def check(self, name: str, repeats: int) -> dict[str, Any]:
        start = time.perf_counter()
        call = self.ready(name)[0]

        def run() -> Tensors:
            self.poison(call)
            if call.before:
                call.before()
            return self.whole(call.run())

        first, rounds = run(), call.rounds
        outputs = [compare(self.problem, n, first[n], self.want[n], self.scale[n], rounds.get(n, 0)) for n in self.problem.outputs()]
        differing = 0
        if repeats > 1:
            first = {n: first[n].clone() for n in self.problem.outputs()}  # a peer may write into the same buffers again
        for _ in range(repeats - 1):
            again = run()
            bits = {2: torch.int16, 4: torch.int32}
            differing += sum(int((again[n].view(bits[t.element_size()]) != t.view(bits[t.element_size()])).sum()) for n, t in first.items())
        bad = next((o for o in outputs if o["bad"]), None)
        self.verdicts[name] = f"{bad['name']} is wrong in {bad['bad']} of {bad['elems']} elements" if bad else ""
        # Nobody states of a peer that its bits stay the same.
        return {"outputs": outputs, "repeats": max(repeats, 1), "differing": differing, "unordered": True, "busy": time.perf_counter() - start}

    def time(self, name: str, o: dict[str, Any]) -> dict[str, Any]:
        copies = 1
        if name not in self.verdicts:
            self.check(name, 1)
        if self.verdicts[name]:
            raise Failure("wrong", self.verdicts[name])
        if o.get("rotate"):
            p = self.problem
            tensors = sum(t.numel() * t.element_size() for t in self.tensors.values())
            tensors += sum(math.prod(p.shape(n)) * (4 if p.type(n) == "fp32" else 2) for n in p.outputs())
            copies = min(max(math.ceil(3 * self.info()["cache_bytes"] / tensors), 1), 512)
        calls = self.ready(name, copies)[:copies]
        start = time.perf_counter()
        seconds, more = self.visit(calls, o)
        self.timed(self.clock.last, o["samples"])
        if copies == 1:
            calls[0].left = None
        return {"seconds": seconds, "busy": time.perf_counter() - start, **more}

    def visit(self, calls: list[Call], o: dict[str, Any]) -> tuple[list[float], dict[str, Any]]:
        """The seconds of a visit, and what else a timing says."""
        if o.get("trace") and o.get("stages") and not CPU:
            try:
                return self.clock.trace(calls, o["samples"], o["flush"], self.poison)
            except Failure:
                raise
            except Exception as e:  # such as a profiler without CUPTI, without which the times stand
                print(f"no trace: {one_line(e)}", file=sys.stderr)
        seconds = self.clock.visit(calls, o["samples"], o["flush"], self.poison)
        return seconds, {"host": statistics.median(self.clock.hosts)}

    def whole(self, out: Any) -> Tensors:
        if not isinstance(out, dict) or any(not isinstance(out.get(n), torch.Tensor) for n in self.problem.outputs()):
            raise Failure("wrong", f"its outputs are not {' and '.join(self.problem.outputs())}")
        return out

    def timed(self, call: Call, runs: int) -> None:
        """Compares what the last timed run has left, before which its outputs were poisoned: a peer may remember its
        inputs, and do nothing for the same ones. Of a large output a visit compares CHUNK elements, from visit to
        visit others, as all of them would take longer than the visit."""
        got = self.whole(call.left)
        for n in self.problem.outputs():
            size = self.want[n].numel()
            start = self.visits * CHUNK % (-(-size // CHUNK) * CHUNK)
            bad = compare(self.problem, n, got[n], self.want[n], self.scale[n], call.rounds.get(n, 0), [slice(start, start + CHUNK)])
            if bad["bad"]:
                raise Failure("wrong", f"after {runs} timed runs {n} is wrong in {bad['bad']} of {bad['elems']} elements, first at "
                                       f"{bad['first']}: got {bad['got']}, want {bad['want']}")
        self.visits += 1


class Builder(Device):
    """A process that compiles for the one that measures, before that begins: what both do with a peer leaves machine
    code in the caches of --cache, where the second one to ask finds it.

    Nothing that such a process finds fastest may be believed: there are as many as there are cores, all on one GPU.
    So it keeps code, and no choices. Inductor's choice of a kernel's config is made when the kernel first runs, and
    kept by AutotuneCache.save, which does nothing here. (Its setting autotune_local_cache would be written into the
    code of every kernel, and keep the choices of the process that measures from lasting, too.) With max-autotune it
    chooses earlier as well: how a backward splits its rows is timed while the code is generated, stands in the
    graph, and the times themselves lie beside the sources. Of such a peer nothing of Inductor's is kept, only what
    Triton compiled; the one that measures generates its own code, and times every candidate alone on the GPU, but
    finds most of them compiled. That holds as far as it walks the same way through the candidates, and therefore a
    Builder times one at a time, under a lock that all of them share."""

    def __init__(self, uuid: str) -> None:
        self.begin(uuid)
        self.about = []
        try:
            self.keep_no_choice()
        except (ImportError, AttributeError) as e:
            raise Trouble(f"this PyTorch's Inductor is another than is known here, and compiles where it is measured: {one_line(e)}") from e

    @staticmethod
    def keep_no_choice() -> None:
        from torch._inductor.runtime import autotune_cache, benchmarking

        def save(self: Any, *args: Any, **kwargs: Any) -> None:  # graphs are pickled with it, by this name
            pass

        getattr(autotune_cache.AutotuneCache, "save")  # an Inductor without it keeps its choices elsewhere
        autotune_cache.AutotuneCache.save = save
        clock = type(benchmarking.benchmarker)
        benchmark = clock.benchmark_gpu
        # A backward under max-autotune has some hundred candidates. Short looks, as they wait for each other: of
        # Inductor's own clock, or else of Triton's, in milliseconds.
        known = inspect.signature(benchmark).parameters
        few = {"memory_warmup_iters": 5, "benchmark_iters": 20, "max_benchmark_duration": 5}
        short = {k: v for k, v in few.items() if k in known} or {"warmup": 1, "rep": 4}

        def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
            import fcntl

            with open(os.path.join(os.environ["TRITON_CACHE_DIR"], "..", "gpu.lock"), "w") as lock:
                patience = time.monotonic() + 20  # with one that hangs: its place in the walk is not worth more
                while time.monotonic() < patience:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone with the process, if it is killed
                        break
                    except BlockingIOError:
                        time.sleep(0.002)
                return benchmark(*args, **{**kwargs, **short})

        clock.benchmark_gpu = one_at_a_time

    def check(self, name: str, repeats: int) -> dict[str, Any]:
        p, start, peer = self.problem, time.perf_counter(), PEERS[name]
        peer.load()
        if peer.builds:
            with thrown_away() if peer.builds == TUNES or tunes() else contextlib.nullcontext():
                call = peer.ready(p, {n: draw(p, n, self.seed, self.device) for n in p.inputs()})
                if call.before:
                    call.before()
                call.run()
                if not CPU:
                    torch.cuda.synchronize()
        return {"outputs": [], "repeats": 1, "differing": 0, "unordered": True, "busy": time.perf_counter() - start}


def tunes() -> bool:
    """Whether the user has had Inductor time candidates while it generates code, whatever the mode."""
    from torch._inductor import config

    return any(getattr(config, flag, False) for flag in
               ("max_autotune", "max_autotune_pointwise", "coordinate_descent_tuning", "benchmark_fusion", "benchmark_combo_kernel"))


@contextlib.contextmanager
def thrown_away() -> Iterator[None]:
    """Gives Inductor a folder that goes, and leaves Triton its own. A kernel's key is its source and
    its options: it is found again whatever the folder."""
    import torch._inductor.utils as utils

    clear = getattr(utils, "clear_caches", None) or utils.clear_inductor_caches
    kept = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(kept), ignore_cleanup_errors=True) as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        clear()
        try:
            yield
        finally:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = kept
            clear()


# ---- The protocol ----


def one_line(e: BaseException) -> str:
    lines = str(e).strip().splitlines()
    return f"{type(e).__name__}: {lines[0].strip()[:200]}" if lines else type(e).__name__


def located(e: BaseException) -> str:
    """What was raised and, in a user's file, where."""
    own = {p.path for p in PEERS.values() if p.own()}
    at = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in traceback.extract_tb(e.__traceback__) if f.filename in own]
    text = str(e) if isinstance(e, Trouble) else one_line(e)
    return f"{text} ({at[-1]})" if at else text


LOST = re.compile(r"CUDA (driver )?error|Triton Error \[CUDA\]")  # as PyTorch, its driver API and Triton say it


def failure_of(e: BaseException) -> Failure:
    """Sorts what a peer raised into kernels.Status."""
    if isinstance(e, Failure):
        return e
    if isinstance(e, NotImplementedError):
        return Failure("refused", str(e) or located(e))
    text, where = located(e), type(e).__module__
    if torch is not None and isinstance(e, getattr(torch, "OutOfMemoryError", ())):
        return Failure("resource", text)
    if LOST.search(str(e)) or type(e).__name__ == "AcceleratorError":
        if "out of memory" in str(e):
            return Failure("resource", text)
        return Failure("launch", text, broken=True)  # the context went with it
    if where.startswith(("torch._dynamo", "torch._inductor", "triton.compiler")):
        return Failure("compile", text)
    if type(e).__name__ == "OutOfResources":  # Triton's
        return Failure("resource", text)
    return Failure("launch", "it raised " + text)


def serve(device: Callable[[], Any], requests: Any, answer: Callable[[str], None]) -> None:
    dev: Any = None
    for line in requests:
        r = json.loads(line)
        a: dict[str, Any] = {"id": r["id"]}
        try:
            if dev is None:
                dev = device()
            op, name = r["op"], (r.get("variants") or [""])[0].partition("@")[0].removeprefix("peer/")
            if op == "hello":
                a["hello"] = {"protocol": PROTOCOL, "kernels": "", "info": dev.info(), "peers": dev.about}
            elif op == "open":
                dev.open(r["problem"], r.get("seed", 0))
            elif op == "close":
                dev.close()
            elif op == "sense":
                a["reading"] = {}
            elif op not in ("check", "time"):
                if op != "prefetch":
                    raise Trouble(f"unknown op {op!r}", "install the same normbench on both sides")
            elif dev.problem is None:
                raise Trouble(f"{op} without an open problem")
            else:
                try:
                    if op == "check":
                        a["check"] = dev.check(name, r.get("repeats", 1))
                    else:
                        a["timing"] = dev.time(name, r["options"])
                except (Exception, SystemExit) as e:
                    f = failure_of(e)
                    a["failure"] = {"status": f.status, "reason": str(f), "broken": f.broken}
        except Trouble as e:
            a.update(error=str(e), hint=e.hint)
        except (Exception, SystemExit) as e:
            a["error"] = one_line(e)
        answer(json.dumps(a) + "\n")


def use_cache(folder: str) -> None:
    """Puts all that is compiled into a folder. It is read when these libraries are imported."""
    for variable, name in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"), ("QUACK_CACHE_DIR", "quack")):
        os.environ[variable] = os.path.join(folder, name)
        os.makedirs(os.environ[variable], exist_ok=True)
    # A pool for each process would be more than there are cores, and beside a measurement one is too much.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def main(device: Callable[[str], Any] = Device, builder: Callable[[str], Any] = Builder) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uuid", default="")
    parser.add_argument("--cache", default="")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--peer", action="append", default=[])
    o = parser.parse_args()
    wanted = {name: PEERS.get(name) or callable_of(name) for name in o.peer or PEERS}
    PEERS.clear()
    PEERS.update(wanted)
    if o.cache:
        use_cache(o.cache)
    # Whatever a peer prints must not get between the answers.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(lambda: (builder if o.prepare else device)(o.uuid), sys.stdin, out.write)


if __name__ == "__main__":
    main()
