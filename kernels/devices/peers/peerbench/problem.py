"""The problem: kernels.Problem. It needs no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from peerbench.trouble import Trouble

EPS = 1e-5
PROBLEM = re.compile(
    r"(rmsnorm|layernorm|rmsnormgated|layernormgated)/(fwd|bwd)/(\d+)x(\d+)/(fp32|bf16|fp16)(?:-w(fp32|bf16|fp16))?"
    r"(\+bias)?(\+zc)?(\+noweight)?(\+residual)?(\+fp8t?)?(\+acc)?(\+nodw)?"
    r"(\+sigmoid)?(\+gatefirst)?"
)


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
    nodw: bool
    sigmoid: bool
    gatefirst: bool

    @staticmethod
    def parse(text: str) -> Problem:
        m = PROBLEM.fullmatch(text)
        if not m:
            raise Trouble(f"malformed problem {text!r}", "install the same normbench on both sides")
        op, pas, rows, cols, dtype, weight, *options = m.groups()
        return Problem(text, op, pas, int(rows), int(cols), dtype, weight or dtype, *(o is not None for o in options))

    @property
    def gated(self) -> bool:
        return self.op.endswith("gated")

    @property
    def centered(self) -> bool:
        return self.op.startswith("layernorm")

    def type(self, name: str) -> str:
        return self.weight if name in ("w", "b", "dw", "db") else self.dtype

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.N,) if name in ("w", "b", "dw", "db") else (self.M, self.N)

    def inputs(self) -> list[str]:
        fwd = self.pas == "fwd"
        names = {"x": True, "res": self.residual and fwd, "dy": not fwd, "dres": self.residual and not fwd,
                 "z": self.gated, "w": not self.noweight, "b": self.bias}
        return [n for n, there in names.items() if there]

    def outputs(self) -> list[str]:
        if self.pas == "fwd":
            return ["y"] + ["resout"] * self.residual
        inputs = ["dx"] + ["dz"] * self.gated
        if self.nodw:
            return inputs
        return inputs + ["dw"] * (not self.noweight) + ["db"] * self.bias
