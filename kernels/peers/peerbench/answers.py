"""Float64 answers and the comparison: package reference, Answers and Compare."""

import math
from typing import Any, Iterator, Optional

import torch

from peerbench.inputs import CHUNK, dtype_of
from peerbench.problem import EPS, Problem
from peerbench.trouble import Failure

EPSILON = {"fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10}
SMALLEST = {"fp32": 2.0**-149, "bf16": 2.0**-133, "fp16": 2.0**-24}  # above zero, subnormal
LIMIT = {"fp32": float.fromhex("0x1.ffffffp127"), "bf16": float.fromhex("0x1.ffp127"), "fp16": 65520.0}
Tensors = dict[str, Any]


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
