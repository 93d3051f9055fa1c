#!/usr/bin/env python3
"""What the first call at a new shape costs: plan, compile, autotune. One table, in ms.

    lab/scripts/first-call.py [--bin bin/normbench-cuda] [--peers a,b] [--limit SECONDS] [--csv FILE] PROBLEM...

A PROBLEM is such as rmsnorm/bwd/8192x4096/bf16. Columns:

    cold    the first call of a process whose caches are empty
    warm    the first call of another process, with the caches that `cold` has left
    next    in the process of `cold`, the first call at the PROBLEM that follows in the list, or 0.75 times the rows
    again   the second call at the same problem

Of a peer a call is what peers.py times: its function's set-up, which in a backward holds a forward, and one run until
the GPU is done. Imports, the CUDA context and the inputs come before. Of ours it is the worker's first sample less its
second, with the cubins of an empty folder and then the same folder. A peer that is missing, refuses, fails or takes
longer than the limit has the reason in its row. NORMBENCH_PEERS_CPU=1 runs what runs without a GPU, for a trial.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "kernels" / "devices" / "peers"
CPU = os.environ.get("NORMBENCH_PEERS_CPU") == "1"
COLUMNS = ("cold", "warm", "next", "again")


def child(name, cache, problems):
    """Times one peer on problems in turn. A line of JSON for each: its first and second call in ms, or why there is none."""
    sys.path.insert(0, str(PEERS))
    import peers

    peers.use_cache(cache)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints
    import torch

    from peerbench.call import ready
    from peerbench.inputs import draw
    from peerbench.peer import PEERS as known
    from peerbench.problem import Problem

    peer, done = known[name], (lambda: None) if CPU else torch.cuda.synchronize
    peer.load()
    if peer.missing:
        return print(json.dumps({"why": "missing: " + peer.missing}), file=out)
    for text in problems:
        try:
            p = Problem.parse(text)
            tensors = {n: draw(p, n, 1, "", "cpu" if CPU else "cuda") for n in p.inputs()}
            done()
            times, call = [], None
            for _ in range(2):
                if call and call.before:
                    call.before()
                    done()
                start = time.perf_counter()
                if call is None:
                    call = ready(peer, p, tensors)
                    if call.before:
                        call.before()
                call.run()
                done()
                times.append(1e3 * (time.perf_counter() - start))
            print(json.dumps({"ms": times, "version": peer.version}), file=out)
        except (Exception, SystemExit) as e:
            print(json.dumps({"why": str(peers.failure_of(e))}), file=out)


def peer_times(name, cache, problems, limit):
    """What a child says of each problem: ms, or why not."""
    command = [sys.executable, "-B", __file__, "--child", name, "--cache", cache, *problems]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return [{"why": f"not done within {limit:g} s"}] * len(problems)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    last = (ran.stderr.strip().splitlines() or ["no reason"])[-1]
    missing = found[-1] if found and found[-1].get("why", "").startswith("missing") else {"why": f"it ended: {last[:160]}"}
    return found + [missing] * (len(problems) - len(found))


class Worker:
    """A normbench that drives its own device, by the protocol of package worker."""

    def __init__(self, program, cache):
        command = [program, "worker", "--device", "cpu" if CPU else "cuda"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "NORMBENCH_CACHE": cache})
        self.ask("hello")

    def ask(self, op, **more):
        self.process.stdin.write(json.dumps({"id": 1, "op": op, **more}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the worker ended"}')
        if answer.get("error") or answer.get("failure"):
            raise RuntimeError(answer.get("error") or answer["failure"]["reason"])
        return answer

    def first_and_second(self, problem, variant):
        self.ask("open", problem=problem, inputs={"seed": 1})
        took = []
        for _ in range(3):
            start = time.perf_counter()
            self.ask("time", variants=[variant], options={"samples": 1, "flush": 0})
            took.append(1e3 * (time.perf_counter() - start))
        self.ask("close")
        return {"ms": [max(took[0] - took[2], 0), max(took[1] - took[2], 0)]}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def chosen(program, problem):
    """The variant that normbench runs by default."""
    command = [program, "explain", problem, "--device", os.environ.get("CARD", "h200"), "--format", "json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    row = told["rows"][0]
    return row.get("variant") or f"{row['family']}@{row['label']}"


def our_times(program, cache, problems):
    worker = None
    try:
        worker = Worker(program, cache)
        return [worker.first_and_second(p, chosen(program, p)) for p in problems]
    except (OSError, RuntimeError, subprocess.CalledProcessError, KeyError) as e:
        return [{"why": str(e)}] * len(problems)
    finally:
        if worker:
            worker.close()


def smaller(problem):
    """A problem of another shape, where none follows."""
    parts = problem.split("/")
    rows, cols = parts[2].split("x")
    parts[2] = f"{max(int(rows) * 3 // 4, 1)}x{cols}"
    return "/".join(parts)


def row_of(times, problem, following):
    """A row of the table: times(cache, problems) is called for a cold and for a warm process."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        cold = times(cache, [problem, following])
        why = cold[0].get("why", "")
        warm = [{}] if why else times(cache, [problem])
    ms = [cold[0].get("ms", [None])[0], warm[0].get("ms", [None])[0], cold[1].get("ms", [None])[0], cold[0].get("ms", [None, None])[-1]]
    return ms, why, cold[0].get("version", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", default=str(ROOT / "bin" / ("normbench" if CPU else "normbench-cuda")))
    parser.add_argument("--peers", default="")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a process of a peer")
    parser.add_argument("--csv", default="")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--cache", default="", help=argparse.SUPPRESS)
    parser.add_argument("problems", nargs="+")
    o = parser.parse_args()
    if o.child:
        return child(o.child, o.cache, o.problems)
    sys.path.insert(0, str(PEERS))
    sys.dont_write_bytecode = True
    from peerbench.peer import PEERS as known

    names = o.peers.split(",") if o.peers else list(known)
    if unknown := [n for n in names if n not in known]:
        parser.error(f"unknown peer {unknown[0]!r}; there are {', '.join(known)}")
    with contextlib.ExitStack() as stack:
        table = csv.writer(stack.enter_context(open(o.csv, "w", newline=""))) if o.csv else None
        if table:
            table.writerow(("problem", "kernels", *(c + "_ms" for c in COLUMNS), "note"))
        print(f"{'problem':<32} {'kernels':<12}" + "".join(f"{c + ' ms':>11}" for c in COLUMNS) + "  note")
        for i, problem in enumerate(o.problems):
            following = o.problems[i + 1] if i + 1 < len(o.problems) else smaller(problem)
            for name in ["normbench", *names]:
                if name == "normbench":
                    ms, why, version = row_of(lambda c, ps: our_times(o.bin, c, ps), problem, following)
                else:
                    ms, why, version = row_of(lambda c, ps: peer_times(name, c, ps, o.limit), problem, following)
                texts = ["" if v is None else f"{v:.1f}" if v < 100 else f"{v:.0f}" for v in ms]
                print(f"{problem:<32} {name:<12}" + "".join(f"{t:>11}" for t in texts) + f"  {why or version}".rstrip(), flush=True)
                if table:
                    table.writerow((problem, name, *("" if v is None else f"{v:.3f}" for v in ms), why or version))


if __name__ == "__main__":
    sys.exit(main())
