#!/usr/bin/env python3
"""Holds the kernels of a library's call against the same kernels, launched by normbench.

    lab/scripts/hosted-kernels.py COMPARE.json MANIFESTS

The file is of `normbench compare peer:NAME FAMILY --out`, which times every kernel of both sides by itself, cold. Kernels
stand in the order of their launches. Those that a manifest of the folder names are the same code; others, such as
PyTorch's sum of partial rows beside normbench's k2, are not.
"""

import json
import pathlib
import re
import statistics
import sys

WITHIN = 0.03

path, folder = sys.argv[1:]
same = {name for file in pathlib.Path(folder).glob("*.yaml") for name in re.findall(r"\bfunction: (\w+)", file.read_text())}
with open(path, encoding="utf-8") as f:
    live = json.load(f)
print(f"A = {live['a']}, B = {live['b']}: medians of each kernel alone, cold, in us\n")
line = "{:<34} {:<44} {:>9} {:<4} {:>9} {:>7}".format
print(line("problem", "kernel of A", "A", "of B", "B", "B/A").rstrip())
ratios = {}
for duel in live["duels"]:
    sides = [[(s["stage"], statistics.median(s["samples_us"])) for s in duel.get(side) or []] for side in ("stages_a", "stages_b")]
    if not sides[0]:
        print(line(duel["problem"], "not traced" if duel["status"] == "ok" else duel["status"], "", "", "", "").rstrip())
    for i in range(max(map(len, sides)) if sides[0] else 0):
        (a, us), (b, own) = (side[i] if i < len(side) else ("", None) for side in sides)
        ratio = own / us if a in same and own else None
        if ratio:
            ratios.setdefault(a, []).append(ratio)
        print(line("" if i else duel["problem"], a, f"{us:.2f}" if us else "", b, f"{own:.2f}" if own else "",
                   f"{ratio:.3f}" if ratio else "").rstrip())
print()
for name, found in ratios.items():
    near = sum(abs(r - 1) <= WITHIN for r in found)
    print(f"{name}: B/A {min(found):.3f} to {max(found):.3f}, within {WITHIN:.0%} on {near} of {len(found)} problems")
