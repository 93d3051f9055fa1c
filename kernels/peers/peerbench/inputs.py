"""Seeded inputs, to the bit: package reference, Draw."""

import math
import struct
from typing import Any

import torch

from peerbench.problem import Problem

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
UNIT = struct.unpack("f", struct.pack("f", 1 / 37837.227))[0]
HOSTILE = 1 << 62
# name: stream, scale, offset. The weight's offset is 0 where it is zero-centered.
DRAWS = {"x": (1, 1.0, 0.25), "dy": (2, 1.0, 0.0), "w": (3, 0.25, 1.0), "b": (4, 0.25, 0.0),
         "res": (6, 1.0, -0.125), "dres": (7, 1.0, 0.0)}
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
