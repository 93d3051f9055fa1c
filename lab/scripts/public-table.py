#!/usr/bin/env python3
"""One table and one plot of what public-gpu.sh measured: STATE/public.txt, public.csv and public.svg.

    lab/scripts/public-table.py STATE

A row is a family on a problem: by its library's own launch, at its best, and normbench's default in the same rounds.
Only the families whose sweep ended are in it. The plot has the geometric means over a family's problems.
"""

import csv
import html
import json
import math
import pathlib
import sys

COLUMNS = ("family", "problem", "default us", "best us", "gain", "interval", "verdict", "ours us", "best / ours", "best")


def rows_of(path):
    """The rows of a family's sweep. A problem that failed has a verdict and no times."""
    found = json.loads(path.read_text(encoding="utf-8"))
    beside = {b["problem"]: b for b in found.get("beside") or []}
    for r in found["rows"]:
        ours = beside.get(r["problem"], {})
        over = None
        if r.get("b_us") and ours.get("us"):
            over = 1 / ours["over_b"] if ours.get("over_b") else r["b_us"] / ours["us"]
        yield {"family": (r["a_variant"] or r["b_variant"] or path.stem).partition("@")[0], "problem": r["problem"], "default us": r["a_us"],
               "best us": r["b_us"], "gain": r["speedup"], "lo": r["speedup_lo"], "hi": r["speedup_hi"], "verdict": r["verdict"],
               "ours us": ours.get("us"), "best / ours": over, "best": (r["b_variant"] or "").partition("@")[2]}


def mean(values):
    """The geometric mean of those that are there, None without any."""
    logs = [math.log(v) for v in values if v]
    return math.exp(sum(logs) / len(logs)) if logs else None


def text_of(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows):
    cells = [COLUMNS]
    for r in rows:
        interval = f"{r['lo']:.3f}-{r['hi']:.3f}" if r["lo"] and r["hi"] else ""
        cells.append([interval if c == "interval" else text_of(r[c]) for c in COLUMNS])
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells)


def summary(rows):
    """A family's geometric means: the gain over its default, and both over ours."""
    for family in dict.fromkeys(r["family"] for r in rows):
        mine = [r for r in rows if r["family"] == family]
        gain, best = mean(r["gain"] for r in mine), mean(r["best / ours"] for r in mine)
        yield {"family": family, "problems": len(mine), "gain": gain, "best": best, "default": gain * best if gain and best else None}


def plot(means, title):
    """A line for each family, from its default to its best, in times of ours: left is faster."""
    means = sorted((m for m in means if m["best"]), key=lambda m: -m["default"])
    left, width, step = 230, 560, 24
    most = max([m["default"] for m in means] + [1.5])
    least = min([m["best"] for m in means] + [0.9])

    def at(ratio):
        return left + width * math.log(ratio / least) / math.log(most / least)

    height = 70 + step * len(means)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="white"/><text x="10" y="20" font-size="14">{html.escape(title)}</text>']
    for tick in (0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20):
        if least <= tick <= most:
            x = at(tick)
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="30" y2="{height - 28}" stroke="{"#555" if tick == 1 else "#ddd"}"/>'
                       f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{"ours" if tick == 1 else f"{tick:g}x"}</text>')
    for i, m in enumerate(means):
        y, a, b = 46 + step * i, at(m["default"]), at(m["best"])
        out.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{html.escape(m["family"])}</text>'
                   f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{y}" y2="{y}" stroke="#c60" stroke-width="3"/>'
                   f'<circle cx="{a:.1f}" cy="{y}" r="5" fill="white" stroke="#c60" stroke-width="2"/><circle cx="{b:.1f}" cy="{y}" r="5" fill="#c60"/>'
                   f'<text x="{max(a, b) + 10:.1f}" y="{y + 4}">{m["gain"]:.2f}x</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    state = pathlib.Path(sys.argv[1])
    rows = [r for path in sorted(state.glob("*.json")) for r in rows_of(path)]
    if not rows:
        sys.exit("public-table.py: error: no family was measured")
    versions = (state / "versions.txt").read_text(encoding="utf-8").strip()
    left_out = (state / "left-out.txt").read_text(encoding="utf-8").strip()
    means = list(summary(rows))
    heads = "What public kernels leave on the table: time over normbench's default's, by default (o) and at their best"
    lines = [versions, "", "gain: the default's time over the best's; best / ours: its time over that of normbench's default", "",
             table(rows), "", "geometric means"]
    lines += [f"  {m['family']}: {m['problems']} problems, gain {text_of(m['gain'])}, best / ours {text_of(m['best'])}" for m in means]
    lines += ["", "left out", left_out] if left_out else []
    (state / "public.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open(state / "public.csv", "w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (state / "public.svg").write_text(plot(means, heads), encoding="utf-8")
    print("\n".join(lines))


main()
