"""Seeded inputs, to the bit: package reference, Input."""

import math
import struct
from typing import Any

import torch

from peerbench.problem import Problem
from peerbench.trouble import Trouble

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
UNIT_SCALE = struct.unpack("f", struct.pack("f", 1 / 37837.227))[0]
# name: stream, scale, offset. The weight's offset is 0 where it is zero-centered.
DRAWS = {"x": (1, 1.0, 0.25), "dy": (2, 1.0, 0.0), "w": (3, 0.25, 1.0), "b": (4, 0.25, 0.0),
         "res": (6, 1.0, -0.125), "dres": (7, 1.0, 0.0), "z": (10, 2.0, 0.0)}
CHUNK = 1 << 24  # elements worked on at once


def dtype_of(name: str) -> Any:
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


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


# The kinds of rows: package reference, RowKind.
UNIT, ZERO, TINY, LARGE, MEAN, HUGE, LOST, INF, NAN, INF_DY = range(10)
SPECIAL = (ZERO, TINY, LARGE, TINY, LARGE, ZERO, TINY, LARGE)
ALL = {"": UNIT, "plain": UNIT, "mean": MEAN, "zeros": ZERO, "tiny": TINY, "large": LARGE, "extreme": UNIT, "nonfinite": UNIT}
CYCLE = {"extreme": {1: ZERO, 2: HUGE, 3: TINY, 7: LOST}, "nonfinite": {4: INF, 5: NAN, 6: INF_DY}}
ROW_STREAM, MEAN_STREAM = 16, 17


def bits(seed: int, stream: int, i: int) -> int:
    return mix_int((mix_int(seed + stream * GOLDEN & MASK) + i * GOLDEN) & MASK)


def special_rows(seed: int, m: int) -> dict[int, int]:
    """The special rows among m unit rows, and their kinds: reference.RowsOf."""
    n = min(m // 2, 8)
    if n < 3:
        return {}
    start = (bits(seed, ROW_STREAM, 0) >> 1) % m
    return {(start + k * (m // n)) % m: SPECIAL[k] for k in range(n)}


def kinds_of(how: str, seed: int, m: int, row: Any) -> Any:
    """The kind of each of some rows: reference.Rows.Kind."""
    kind = torch.full_like(row, ALL[how])
    for place, k in CYCLE.get(how, {}).items():
        kind[(row + seed % 8) % 8 == place] = k
    for r, k in special_rows(seed, m).items() if how == "" else ():
        kind[row == r] = k
    return kind


def draw(p: Problem, name: str, seed: int, how: str, device: Any, first: int = 0) -> Any:
    """A tensor of p; how is kernels.Draw, and first the row of the draw with which x begins."""
    if how not in ALL:
        raise Trouble(f"unknown draw {how!r}", "install the same normbench on both sides")
    stream, scale, offset = DRAWS[name]
    if name == "w" and p.zc:
        offset = 0.0
    shape, dtype = p.shape(name), dtype_of(p.type(name))
    out = torch.empty(math.prod(shape), dtype=dtype, device=device)
    start = signed(mix_int(seed + stream * GOLDEN & MASK))
    skip = 0 if name in ("w", "b") else first * p.N
    for lo in range(0, out.numel(), CHUNK):
        i = skip + torch.arange(lo, min(lo + CHUNK, out.numel()), dtype=torch.int64, device=device)
        z = mix(i * signed(GOLDEN) + start)
        total = sum((z >> s) & 0xFFFF for s in (0, 16, 32, 48)) - 131070
        # Two products and a sum, each rounded: in one expression a compiler might fuse them.
        v = total.to(torch.float32)
        v = v * UNIT_SCALE
        v = v * scale
        v = v + offset
        if name in ("x", "res", "dy", "z"):
            v = special(p, name, seed, how, i, v)
        out[lo : lo + CHUNK] = v.to(dtype)
    return out.view(shape)


def special(p: Problem, name: str, seed: int, how: str, i: Any, v: Any) -> Any:
    """What becomes of elements of special rows: reference.Input.special."""
    row = i // p.N
    kind = kinds_of(how, seed, p.M, row)
    one = row * 7919 % p.N == i % p.N
    if name == "dy":
        return torch.where((kind == INF_DY) & one, math.inf, v)
    fp16 = p.dtype == "fp16"
    if name == "z":
        v = torch.where(kind == TINY, v * 2.0**-12, torch.where(kind == LARGE, v * 64.0, v))
        return torch.where(kind == ZERO, 0.0, v)
    factors = {TINY: -12, LARGE: 9 if fp16 else 20, HUGE: 12 if fp16 else 50, LOST: -80}
    for k, power in factors.items():
        v = torch.where(kind == k, v * 2.0**power, v)
    v = torch.where(kind == ZERO, 0.0, v)
    if name == "x":
        if how == "mean":
            z = mix(row * signed(GOLDEN) + signed(mix_int(seed + MEAN_STREAM * GOLDEN & MASK)))
            mean = (37 + (z & 63)).to(torch.float32)
            v = v + torch.where(z & 64 != 0, -mean, mean)
        v = torch.where((kind == INF) & one, -math.inf, v)
        v = torch.where((kind == NAN) & one, math.nan, v)
    return v
