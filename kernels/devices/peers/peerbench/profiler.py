"""The kernels of a peer one by one, from torch's profiler."""

import json
import os
import re
import tempfile
from typing import Any, Callable

import torch

from peerbench.call import Call
from peerbench.timing import Clock


def trace(clock: Clock, calls: list[Call], samples: int, flush: int, poison: Callable[[Call], None]) -> tuple[list[float], dict[str, Any]]:
    """As Clock.visit, with each kernel's time as torch's profiler has it, by CUPTI: its host is slower, its samples longer."""
    clock.marks = bool(clock.flush.entries)
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            seconds = clock.visit(calls, samples, flush, poison)
    finally:
        clock.marks = False
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
