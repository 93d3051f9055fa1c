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
MOST = 2.0**127 * (2 - 2.0**-23)  # stands for infinity, which JSON has not
Tensors = dict[str, Any]


def finite(v: Any) -> Any:
    return torch.where(torch.isfinite(v), v, 0.0)


GATE_FLOOR = 2.0**-100  # of package reference


def gate(p: Problem, t: Tensors, at: slice) -> tuple[Any, Any]:
    """act(z) of some rows in float64, and its derivative."""
    z = t["z"][at].double()
    up, down = torch.sigmoid(z), torch.sigmoid(-z)
    return (up, up * down) if p.sigmoid else (z * up, up * (1 + z * down))


def size(v: Any) -> Any:
    """The size of a gate, or of its derivative, in the scale of what it is a factor of."""
    return finite(v.abs().clamp(min=GATE_FLOOR))


def rows(p: Problem, t: Tensors) -> Iterator[tuple[slice, Any, Any, Any]]:
    """Some rows at a time, in float64: x with its residual, or times a gate that is first, the mean of that and one over
    its standard deviation."""
    step = max(CHUNK // p.N, 1)
    for lo in range(0, p.M, step):
        at = slice(lo, lo + step)
        h = t["x"][at].double()
        if "res" in t:
            h = h + t["res"][at].double()
        if p.gatefirst:
            h = h * gate(p, t, at)[0]
        mean = h.mean(1, keepdim=True) if p.centered else torch.zeros_like(h[:, :1])
        yield at, h, mean, 1 / torch.sqrt(((h - mean) ** 2).mean(1, keepdim=True) + EPS)


def saved(p: Problem, t: Tensors) -> Tensors:
    """What a forward has saved for the backward, in fp32."""
    parts = [(mean, rstd) for _, _, mean, rstd in rows(p, t)]
    mean, rstd = (torch.cat(v).reshape(-1).float() for v in zip(*parts))
    return {"rstd": rstd, "mean": mean} if p.centered else {"rstd": rstd}


MEAN_SHARE, BIAS_SCALE = 0.25, 0.5  # of package reference


def norm(v: Any) -> Any:
    """The root mean square of each row's finite elements."""
    return torch.sqrt(finite(v * v).mean(1, keepdim=True))


def answers(p: Problem, t: Tensors) -> tuple[Tensors, Tensors]:
    """The answers by name, and the scale of the terms that each is made of: of each row, of dw and db one number."""
    device = t["x"].device

    def zeros(*shape: int) -> Any:
        return torch.zeros(shape, dtype=torch.float64, device=device)

    want = {n: zeros(*p.shape(n)) for n in p.outputs()}
    scale = {n: zeros(1) if n in ("dw", "db") else zeros(p.M) for n in want}
    wf = zeros(p.N) + 1 if p.noweight else t["w"].double()
    if p.zc:
        wf = wf + 1
    bias = BIAS_SCALE if p.bias else 0.0
    for at, h, mean, rstd in rows(p, t):
        if "res" in t:
            want["resout"][at] = h
            scale["resout"][at] = norm(h)[:, 0]
        xhat = (h - mean) * rstd
        moved = MEAN_SHARE * rstd * mean.abs()  # by the error of the mean
        act, slope = gate(p, t, at) if p.gated else (torch.ones_like(h), torch.zeros_like(h))
        by = torch.ones_like(act) if p.gatefirst else act  # on what is normalized
        y, b = xhat * wf, t["b"].double() if p.bias else zeros(p.N)
        squares = finite(y * y + b * b)
        if p.pas == "fwd":
            want["y"][at] = (y + b) * by
            terms = torch.sqrt((squares * size(by) ** 2).mean(1, keepdim=True))
            scale["y"][at] = (terms + finite(moved) * torch.sqrt(((wf * size(by)) ** 2).mean(1, keepdim=True)))[:, 0]
            continue
        dout = t["dy"][at].double()
        dy, large = dout * by, dout * size(by)
        g = dy * wf
        c1, c2 = (g * xhat).mean(1, keepdim=True), g.mean(1, keepdim=True)
        dx = g - xhat * c1
        if p.centered:
            dx = dx - c2
        dx = dx * rstd
        inside = finite(rstd * (norm(large * wf) + moved * (c1.abs() + c2.abs())))
        if p.gatefirst:
            x = t["x"][at].double()
            want["dz"][at] = dx * x * slope
            dx = dx * act
            scale["dz"][at] = (inside * norm(finite(x) * size(slope)))[:, 0]
            inside = inside * norm(size(act))
        elif p.gated:
            want["dz"][at] = dout * (y + b) * slope
            large_z = finite(dout) * size(slope)
            terms = torch.sqrt((large_z**2 * squares).mean(1, keepdim=True))
            scale["dz"][at] = (terms + finite(moved) * norm(large_z * wf))[:, 0]
        if "dres" in t:
            dx = dx + t["dres"][at].double()
        want["dx"][at] = dx
        scale["dx"][at] = inside[:, 0]
        # xhat is a difference: errors have the scale of x and the mean.
        size2 = large**2 * (rstd**2 * (h * h + mean * mean) + bias * bias)
        for name, term, squares in (("dw", dy * xhat, size2), ("db", dy, large * large)):
            if name in want:
                want[name] += term.sum(0)
                scale[name] += finite(squares).sum()
    for name in ("dw", "db"):  # per column: the terms of a sum are taken together
        if name in want:
            scale[name] = torch.sqrt(scale[name] / p.N)
    return want, scale


def tolerance(p: Problem, name: str, roundings: int) -> tuple[float, float, float]:
    """What an element may err: relatively, in scales of its row's terms, absolutely: reference.ToleranceFor. Each
    rounding to the tensors' type on the way to an output may cost half an epsilon of it and, where terms cancel, eight
    times the mean error of their scale: reference.Tolerance.Loosen."""
    noise = 2.0**-24 * (16 + math.sqrt(p.M if name in ("dw", "db") else p.N))
    half = EPSILON[p.type(name)] / 2
    way = roundings * EPSILON[p.dtype] / 2
    steps = (SMALLEST[p.type(name)] + roundings * SMALLEST[p.dtype]) / 2
    return 1.02 * (half + way) + noise, 4 * noise + 4 * way, steps


def spans(n: int) -> Iterator[slice]:
    for lo in range(0, n, CHUNK):
        yield slice(lo, min(lo + CHUNK, n))


def number(f: float) -> Any:
    """kernels.Number: JSON has neither NaN nor infinities."""
    return f if math.isfinite(f) else "NaN" if f != f else "+Inf" if f > 0 else "-Inf"


def bits_of(v: Any) -> Any:
    return v.view({2: torch.int16, 4: torch.int32}[v.element_size()])


def compare(p: Problem, name: str, got: Any, want: Any, scale: Any, roundings: int, how: str = "",
            parts: Optional[list[slice]] = None) -> dict[str, Any]:
    """What is wrong of an output on inputs of a draw: reference.Compare."""
    if tuple(got.shape) != p.shape(name):
        raise Failure("wrong", f"{name} has shape {tuple(got.shape)}, want {p.shape(name)}")
    if got.dtype != dtype_of(p.type(name)):
        raise Failure("wrong", f"{name} is {got.dtype}, want {dtype_of(p.type(name))}")
    rel, terms, absolute = tolerance(p, name, roundings)
    limit = LIMIT[p.type(name)]
    got, want = got.contiguous().reshape(-1), want.reshape(-1)
    out = {"name": name, "elems": got.numel(), "bad": 0, "max_err": 0.0, "rel_l2": 0.0}
    err2 = want2 = 0.0
    known = unwritten = looked = 0
    only_nan = how == "nonfinite" and name in ("dw", "db")
    cols = got.numel() // scale.numel()
    for at in parts or spans(got.numel()):
        g, w = got[at].double(), want[at]
        w = torch.where(w.abs() >= limit, torch.sign(w) * math.inf, w)
        looked += w.numel()
        known += int(torch.isfinite(w).sum())
        poison = bits_of(got[at]) == -1
        same = (g == w) | (torch.isnan(g) & torch.isnan(w))
        if only_nan:
            same = torch.isnan(g) == torch.isnan(w)
        same &= ~poison
        diff = (g - w).abs()
        row = torch.arange(at.start, at.start + w.numel(), device=w.device) // cols
        ratio = torch.where(same, 0.0, diff / (absolute + terms * scale[row] + rel * w.abs()))
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
        unwritten += int(poison.sum())
        out["max_err"] = max(out["max_err"], min(ratio.max().item(), MOST))
    out.update({"unwritten": unwritten} if unwritten else {})
    out.update({"void": True} if how != "nonfinite" and 2 * known < looked else {})
    if want2 > 0:
        out["rel_l2"] = min(math.sqrt(err2 / want2), MOST)
    return out
