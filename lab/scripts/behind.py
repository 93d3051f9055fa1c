#!/usr/bin/env python3
"""How far a map is behind full searches, of a live compare of their winners (A) with its answers (B).

    lab/scripts/behind.py PROBLEMS NAME=FILE.csv.gz...

PROBLEMS is how many problems were searched, half of them backwards. FILE is what `compare tuned:FOUND tuned:MAP --live --changed --format csv`
printed: problems that it does not have have the same config on both sides, and count as equal.
"""

import csv
import gzip
import sys


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    return csv.DictReader(lines)


problems = int(sys.argv[1])
for argument in sys.argv[2:]:
    name, path = argument.split("=", 1)
    gains, backwards, worst = [], [], (0.0, "none")
    for row in rows_of(path):
        if row.get("speedup"):
            gain = 100 * (1 / float(row["speedup"]) - 1)
            gains.append(gain)
            worst = max(worst, (gain, row["problem"]))
            if "/bwd/" in row["problem"]:
                backwards.append(gain)
    every = sorted(gains + [0.0] * (problems - len(gains)))
    print(f"{name}: a full search of {problems} problems is faster by {sum(every) / problems:.1f}% in the mean, "
          f"{sum(backwards) / (problems / 2):.1f}% in the backwards, {every[int(0.95 * problems)]:.1f}% at the 95th percentile, "
          f"{worst[0]:.1f}% at worst, at {worst[1]}")
