"""The device of the peers, which a hello opens."""

import gc
import math
import os
import re
import statistics
import sys
import time
from typing import Any, Optional

import torch

from peerbench.answers import Tensors, answers, bits_of, compare
from peerbench.call import Call, ready
from peerbench.inputs import CHUNK, MASK, draw, dtype_of, mix
from peerbench.peer import PEERS, TENSORS
from peerbench.problem import Problem
from peerbench.profiler import trace
from peerbench.timing import Clock, Stopwatch
from peerbench.trouble import Failure, Trouble, one_line

CPU = os.environ.get("NORMBENCH_PEERS_CPU") == "1"


def poison_tensor(t: Any) -> None:
    bits_of(t).fill_(-1) if t.is_contiguous() else t.fill_(math.nan)


def fingerprint(t: Any) -> int:
    """A hash of the place and bits of all elements."""
    v, total = bits_of(t.detach().reshape(-1)), 0
    for lo in range(0, v.numel(), CHUNK):
        part = v[lo : lo + CHUNK].to(torch.int64)
        place = torch.arange(lo, lo + part.numel(), dtype=torch.int64, device=v.device)
        total += int(mix(mix(place) + part).sum())
    return total


class Device:
    """What a hello opens. Tests put another one with the same methods in its place."""

    def __init__(self, uuid: str) -> None:
        self.begin(uuid)
        self.clock: Any = Stopwatch() if CPU else Clock()
        self.about = [p.load() for p in PEERS.values()]

    def begin(self, uuid: str) -> None:
        self.device = "cpu" if CPU else f"cuda:{self.find(uuid)}"
        if not CPU:
            torch.cuda.set_device(self.device)
        self.problem: Optional[Problem] = None
        self.last = ""  # problem that was open
        self.forget()

    @staticmethod
    def find(uuid: str) -> int:
        """The ordinal of a GPU; both processes may count in another order."""
        where = f"torch {torch.__version__} of {sys.executable}"
        if not torch.cuda.is_available():
            raise Trouble(f"{where} has no CUDA GPU", "install a PyTorch for CUDA, check `nvidia-smi`, or name another Python with --python")
        if not uuid:
            return 0
        for i in range(torch.cuda.device_count()):
            mine = getattr(torch.cuda.get_device_properties(i), "uuid", None)
            if mine is None or uuid.endswith(str(mine)):  # before PyTorch 2.5 it cannot be told
                return i
        raise Trouble(f"{where} does not see the GPU {uuid}", "check CUDA_VISIBLE_DEVICES")

    def info(self) -> dict[str, Any]:
        compiler = "torch " + torch.__version__
        if CPU:
            return {"id": "cpu-peers", "kind": "cpu", "name": "the CPU of the peers", "arch": "cpu", "sms": 1,
                    "compiler": compiler, "cache_bytes": 1 << 20, "memory_bytes": 0}
        g = torch.cuda.get_device_properties(self.device)
        uuid = getattr(g, "uuid", None)
        return {"id": "-".join(re.findall("[a-z0-9]+", g.name.lower())), "kind": "cuda", "name": g.name, "uuid": f"GPU-{uuid}" if uuid else "",
                "arch": f"sm_{g.major}{g.minor}", "sms": g.multi_processor_count, "driver": torch.version.cuda or "",
                "compiler": compiler, "cache_bytes": getattr(g, "L2_cache_size", 0), "memory_bytes": g.total_memory}

    def forget(self) -> None:
        self.tensors: Tensors = {}
        self.want: Tensors = {}
        self.scale: Tensors = {}
        self.drawn: dict[str, int] = {}  # fingerprints of the inputs
        self.calls: dict[str, list[Call]] = {}
        self.visits = 0
        self.verdicts: dict[str, str] = {}  # of the peers checked: what is wrong, or ""

    def open(self, problem: str, seed: int, how: str = "", first: int = 0) -> None:
        if self.problem:
            self.close()
        self.problem, self.seed, self.how, self.first = Problem.parse(problem), seed, how, first
        if problem != self.last:
            if "torch._dynamo" in sys.modules:
                torch._dynamo.reset()  # else it gives up after eight problems
        self.last = problem

    def close(self) -> None:
        self.problem = None
        self.forget()
        gc.unfreeze()
        gc.collect()
        if not CPU:
            torch.cuda.empty_cache()  # the other process needs the memory too

    def ready(self, name: str) -> list[Call]:
        p, peer = self.problem, PEERS.get(name)
        if peer is None or peer.missing:
            raise Failure("refused", f"peer {name} is not there: {peer.missing if peer else 'unknown'}")
        peer.refuse(p)
        if not self.tensors:
            tensors = {n: draw(p, n, self.seed, self.how, self.device, self.first) for n in p.inputs()}
            self.want, self.scale = answers(p, tensors)
            self.drawn = {n: fingerprint(t) for n, t in tensors.items()}
            self.tensors = tensors  # not before: there may be no memory for the answers
        calls = self.calls.setdefault(name, [])
        if not calls:
            # Each peer has tensors of its own where it might mark or overwrite them; of a library, a copy of the large
            # ones would double the memory.
            own = {n: t.clone() if t.dim() == 1 or peer.own() else t.detach() for n, t in self.tensors.items()}
            calls.append(ready(peer, p, own))
            calls[0].inputs = own
            gc.freeze()  # a visit's collection would else look through all of torch, for longer than the visit takes
        return calls

    def poison(self, call: Call) -> None:
        """Leaves NaN with all bits set in what the call has returned before, which a peer may hand out once more, and in
        the memory that new outputs will be put into, as far as the allocator goes along. No arithmetic makes that NaN."""
        p = self.problem
        for t in (call.left or {}).values():
            poison_tensor(t.detach())
        call.left = None
        for t in [torch.empty(p.shape(n), dtype=dtype_of(p.type(n)), device=self.device) for n in p.outputs()]:
            poison_tensor(t)
            del t

    def check(self, name: str, repeats: int) -> dict[str, Any]:
        start = time.perf_counter()
        call = self.ready(name)[0]

        changed: list[str] = []

        def run() -> Tensors:
            self.poison(call)
            if call.before:
                call.before()
            out = self.whole(call.run())
            changed.extend(n for n in self.changed(call) if n not in changed)
            return out

        first, rounds = run(), call.rounds
        outputs = [compare(self.problem, n, first[n], self.want[n], self.scale[n], rounds.get(n, 0), self.how) for n in self.problem.outputs()]
        differing = 0
        if repeats > 1:
            first = {n: first[n].clone() for n in self.problem.outputs()}  # a peer may write into the same buffers again
        for _ in range(repeats - 1):
            again = run()
            bits = {2: torch.int16, 4: torch.int32}
            differing += sum(int((again[n].view(bits[t.element_size()]) != t.view(bits[t.element_size()])).sum()) for n, t in first.items())
        bad = next((o for o in outputs if o["bad"]), None)
        self.verdicts[name] = f"{bad['name']} is wrong in {bad['bad']} of {bad['elems']} elements" if bad else ""
        if changed:
            self.verdicts[name] = "it has changed its input " + ", ".join(changed)
            self.tensors, self.calls = {}, {}  # all are drawn again
        # Nobody states of a peer that its bits stay the same.
        return {"outputs": outputs, "changed": changed, "repeats": max(repeats, 1), "differing": differing, "unordered": True, "busy": time.perf_counter() - start}

    def hash(self, name: str, rows: int) -> dict[str, list[int]]:
        """A hash of the bits of each of the first rows of the outputs that are computed row by row: kernels.RowHasher."""
        call = self.ready(name)[0]
        self.poison(call)
        if call.before:
            call.before()
        out = self.whole(call.run())
        return {n: [(fingerprint(row) & MASK) >> 11 for row in out[n][:rows]] for n in self.problem.outputs() if n not in ("dw", "db")}

    def changed(self, call: Call) -> list[str]:
        """The inputs that a call has overwritten, by the names that its function has for them."""
        names = {tensor: parameter for parameter, tensor in TENSORS.items()}
        return [names.get(n, n) for n, t in call.inputs.items() if fingerprint(t) != self.drawn[n]]

    def time(self, name: str, o: dict[str, Any]) -> dict[str, Any]:
        if name not in self.verdicts:
            self.check(name, 1)
        if self.verdicts[name]:
            raise Failure("wrong", self.verdicts[name])
        calls = self.ready(name)
        start = time.perf_counter()
        seconds, more = self.visit(calls, o)
        self.timed(self.clock.last, o["samples"])
        calls[0].left = None
        return {"seconds": seconds, "busy": time.perf_counter() - start, **more}

    def visit(self, calls: list[Call], o: dict[str, Any]) -> tuple[list[float], dict[str, Any]]:
        """The seconds of a visit, and what else a timing says."""
        if o.get("trace") and o.get("stages") and not CPU:
            try:
                return trace(self.clock, calls, o["samples"], o["flush"], self.poison)
            except Failure:
                raise
            except Exception as e:  # such as a profiler without CUPTI, without which the times stand
                print(f"no trace: {one_line(e)}", file=sys.stderr)
        seconds = self.clock.visit(calls, o["samples"], o["flush"], self.poison)
        return seconds, {"host": statistics.median(self.clock.hosts)}

    def whole(self, out: Any) -> Tensors:
        if not isinstance(out, dict) or any(not isinstance(out.get(n), torch.Tensor) for n in self.problem.outputs()):
            raise Failure("wrong", f"its outputs are not {' and '.join(self.problem.outputs())}")
        return out

    def timed(self, call: Call, runs: int) -> None:
        """Compares what the last timed run has left, before which its outputs were poisoned: a peer may remember its
        inputs, and do nothing for the same ones. Of a large output a visit compares CHUNK elements, from visit to
        visit others, as all of them would take longer than the visit."""
        got = self.whole(call.left)
        for n in self.problem.outputs():
            size = self.want[n].numel()
            start = self.visits * CHUNK % (-(-size // CHUNK) * CHUNK)
            bad = compare(self.problem, n, got[n], self.want[n], self.scale[n], call.rounds.get(n, 0), self.how, [slice(start, min(start + CHUNK, size))])
            if bad["bad"]:
                raise Failure("wrong", f"after {runs} timed runs {n} is wrong in {bad['bad']} of {bad['elems']} elements, first at "
                                       f"{bad['first']}: got {bad['got']}, want {bad['want']}")
        self.visits += 1
