#!/usr/bin/env python3
"""What the first call at a new shape costs: plan, compile, autotune. One table, in ms.

    lab/scripts/first-call.py [--bin bin/normbench-cuda] [--peers a,b] [--limit SECONDS] [--total SECONDS] [--csv FILE] PROBLEM...

A PROBLEM is such as rmsnorm/bwd/8192x4096/bf16. Columns:

    cold    the first call of a process whose caches are empty
    warm    the first call of another process, with the caches that `cold` has left
    next    in the process of `cold`, the first call at the PROBLEM that follows in the list, or 0.75 times the rows
    again   the second call at the same problem

Of a peer a call is what peers.py times: its function's set-up, which in a backward holds a forward, and one run until
the GPU is done. Imports, the CUDA context and the inputs come before; the process that is next imports while one is
measured. Of ours it is the worker's first sample less its third, with the cubins of an empty folder and then the same
folder. A peer that is missing, refuses, fails or takes longer than the limit has the reason in its row, and what was
measured before. Each row is written when it is there. NORMBENCH_PEERS_CPU=1 runs what runs without a GPU, for a trial.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "kernels" / "devices" / "peers"
CPU = os.environ.get("NORMBENCH_PEERS_CPU") == "1"
COLUMNS = ("cold", "warm", "next", "again")


def child(name, cache, problems):
    """Imports one peer, waits for a line, and times it on problems in turn. It prints a line of JSON when it has
    imported, and one for each problem: its first and second call in ms, or why there is none."""
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
    print(json.dumps({"why": "missing: " + peer.missing} if peer.missing else {"imported": peer.version}), file=out)
    if peer.missing or not sys.stdin.readline():
        return
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


class Process:
    """A process of a peer, which imports from now on."""

    def __init__(self, name, cache, problems):
        command = [sys.executable, "-B", __file__, "--child", name, "--cache", cache, *problems]
        self.problems, self.lines, self.errors = len(problems), queue.Queue(), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def line(self, end):
        """The next line that the process prints, or why there is none by then."""
        try:
            line = self.lines.get(timeout=max(end - time.monotonic(), 0.01))
        except queue.Empty:
            return {"why": "not done in time"}
        if line is None:
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["no reason"])[-1]
            return {"why": f"it ended: {last[:160]}"}
        return line

    def times(self, limit):
        """What it says of each problem: ms, or why not."""
        end, found = time.monotonic() + limit, []
        imported = self.line(end)
        if "why" in imported:
            return [imported] * self.problems
        with contextlib.suppress(BrokenPipeError):  # it has ended, and line says why
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        end = time.monotonic() + limit  # importing has taken what it took
        while len(found) < self.problems:
            found.append(self.line(end))
            if found[-1].get("why") == "not done in time":
                found[-1]["why"] = f"not done within {limit:g} s"
                found += found[-1:] * (self.problems - len(found))
        return found

    def end(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.errors.close()


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


def row_of(cold, warm):
    """A row of the table, of what a process with empty caches says of a problem and the next, and what one with its
    caches says of the problem."""
    first = cold[0].get("ms", [None, None])
    ms = [first[0], warm[0].get("ms", [None])[0], cold[1].get("ms", [None])[0], first[1]]
    why = cold[0].get("why") or "; ".join(f"{column}: {part['why']}" for column, part in (("next", cold[1]), ("warm", warm[0])) if "why" in part)
    return ms, why or cold[0].get("version", "")


def peers_rows(jobs, limit):
    """A row for each job, a peer with a problem and the next, as they come. The next process imports meanwhile."""
    with contextlib.ExitStack() as stack:
        runs = []
        for name, problem, following in jobs:
            cache = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            runs += [(name, cache, [problem, following]), (name, cache, [problem])]
        ahead = Process(*runs[0]) if runs else None
        cold = None
        for i in range(len(runs)):
            process, ahead = ahead, None
            try:
                if i + 1 < len(runs):
                    ahead = Process(*runs[i + 1])
                pair = i % 2 == 1
                found = process.times(limit) if not pair or "ms" in cold[0] else [{}]
            except BaseException:
                if ahead:
                    ahead.end()
                raise
            finally:
                process.end()
            if pair:
                yield row_of(cold, found)
            cold = found


def our_row(program, problem, following):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        cold = our_times(program, cache, [problem, following])
        return row_of(cold, our_times(program, cache, [problem]) if "ms" in cold[0] else [{}])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", default=str(ROOT / "bin" / ("normbench" if CPU else "normbench-cuda")))
    parser.add_argument("--peers", default="")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a process of a peer")
    parser.add_argument("--total", type=float, default=float("inf"), help="seconds after which no row is begun")
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
    began = time.monotonic()
    problems = list(zip(o.problems, o.problems[1:] + [smaller(o.problems[-1])]))
    jobs = [(name, *pair) for pair in problems for name in names]
    with contextlib.ExitStack() as stack:
        table = stack.enter_context(open(o.csv, "w", newline="", buffering=1)) if o.csv else None
        write = csv.writer(table).writerow if table else lambda row: None
        write(("problem", "kernels", *(c + "_ms" for c in COLUMNS), "note"))
        print(f"{'problem':<32} {'kernels':<12}" + "".join(f"{c + ' ms':>11}" for c in COLUMNS) + "  note", flush=True)

        def put(problem, name, ms, note):
            texts = ["" if v is None else f"{v:.1f}" if v < 100 else f"{v:.0f}" for v in ms]
            print(f"{problem:<32} {name:<12}" + "".join(f"{t:>11}" for t in texts) + f"  {note}".rstrip(), flush=True)
            write((problem, name, *("" if v is None else f"{v:.3f}" for v in ms), note))

        for problem, following in problems:
            put(problem, "normbench", *our_row(o.bin, problem, following))
        rows = stack.enter_context(contextlib.closing(peers_rows(jobs, o.limit)))
        for name, problem, _ in jobs:
            if time.monotonic() - began > o.total:
                put(problem, name, [None] * 4, f"not begun: {o.total:g} s had passed")
                continue
            put(problem, name, *next(rows))


if __name__ == "__main__":
    sys.exit(main())
