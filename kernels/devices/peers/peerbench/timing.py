"""What is timed.

An interval lies between two CUDA events around one call of a peer. Before it the L2 is
flushed by reading twice its size, in a way that what a peer asked it to keep does not
outlast (Flush). All samples of a batch are enqueued behind a spin; an event behind the
spin proves, after the last sample is enqueued, that the GPU has not begun with the first:
no host time is in any sample. A batch without the proof is taken again behind a longer
spin, and a peer that never gets it is unfit.
"""

import gc
import time
from typing import Callable, Optional

import torch

from peerbench.call import Call
from peerbench.flush import Flush
from peerbench.trouble import Failure

BATCH = 2  # samples behind one spin, besides the first: with more than 20 operations enqueued behind it a launch starts later
TRIES = 6
WARM_SPIN = 60e-6  # between samples that leave the cache warm


class Clock:
    """CUDA events behind a spin. Its queue is that of the current stream."""

    def __init__(self) -> None:
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * BATCH + 2)]
        self.gate = torch.cuda.Event()
        self.flush = Flush()
        self.hosts: list[float] = []
        self.marks = False  # whether each sample is between two marks
        self.rate = 1e9
        for _ in range(2):  # cycles per second; the first one wakes the clocks
            a, b = self.events[:2]
            a.record()
            torch.cuda._sleep(20_000_000)
            b.record()
            b.synchronize()
            self.rate = 20_000_000 / (a.elapsed_time(b) / 1e3)

    def spin(self, seconds: float) -> None:
        torch.cuda._sleep(int(seconds * self.rate))

    def batch(self, calls: list[Call], n: int, flush: int, spin: float, keep: bool,
              poison: Optional[Callable[[Call], None]] = None) -> tuple[list[float], float, bool]:
        """n samples behind a spin: their seconds, those of the host, and whether the spin outlasted the host. poison
        comes ahead of the last one's flush."""
        torch.cuda.synchronize()
        kept = []  # outputs, where the next sample's must lie elsewhere to be cold
        start = time.perf_counter()
        self.spin(spin)
        self.gate.record()
        for i in range(n):
            call = calls[i % len(calls)]
            if poison and i == n - 1:
                poison(call)
            if call.before:
                call.before()
            if flush:
                self.flush(flush)
            else:
                self.spin(WARM_SPIN)
            if self.marks:
                self.flush.mark()
            self.events[2 * i].record()
            began = time.perf_counter()
            call.left = call.run()
            self.hosts.append(time.perf_counter() - began)
            self.events[2 * i + 1].record()
            if self.marks:
                self.flush.mark()
            if keep:
                kept.append(call.left)
        ahead = not self.gate.query()
        host = time.perf_counter() - start
        torch.cuda.synchronize()
        self.last = call
        pairs = zip(self.events[0 : 2 * n : 2], self.events[1 : 2 * n : 2])
        return [a.elapsed_time(b) / 1e3 for a, b in pairs], host, ahead

    def visit(self, calls: list[Call], samples: int, flush: int,
              poison: Optional[Callable[[Call], None]] = None) -> list[float]:
        """Seconds of samples. The last of them follows a poison, and is of self.last. hosts are what the host took
        for the calls, which is in no sample."""
        self.hosts, keep = [], len(calls) > 1
        most, out, host = BATCH, [], 0.0
        gc.collect()
        gc.disable()  # a collection is a pause of the host
        try:
            while len(out) < samples:
                lead = 1 if out else 0  # the first one after a pause is biased; that of a visit the client drops
                n = min(samples - len(out), most) + lead
                if not out:
                    _, host, _ = self.batch(calls, n, flush, 0, keep)  # untimed: what the host takes
                    calls = calls[n % len(calls) :] + calls[: n % len(calls)]
                spin = 1.5 * host + 1e-3
                for _ in range(TRIES):
                    last = poison if len(out) + n - lead == samples else None
                    got, host, ahead = self.batch(calls, n, flush, spin, keep, last)
                    calls = calls[n % len(calls) :] + calls[: n % len(calls)]  # the next one goes on with other tensors
                    if ahead:
                        break
                    spin, most = max(2 * spin, 1.5 * host), max(most // 2, 1)
                    n = min(n, most + lead)
                else:
                    raise Failure("unfit", f"the GPU was never kept busy until the host had enqueued {n} calls, not by {spin:.3g} s: "
                                           "they wait for the GPU, or are too many operations for its queue")
                out += got[lead:]
            if flush:
                self.flush(flush)  # what the last call asked L2 to keep is nobody else's burden
            return out
        finally:
            gc.enable()


class Stopwatch:
    """The clock of a CPU, for tests: there is no queue to be ahead of."""

    hosts: list[float] = [0.0]

    def visit(self, calls: list[Call], samples: int, flush: int,
              poison: Optional[Callable[[Call], None]] = None) -> list[float]:
        out: list[float] = []
        for i in range(samples):
            call = calls[i % len(calls)]
            if poison and i == samples - 1:
                poison(call)
            if call.before:
                call.before()
            start = time.perf_counter()
            call.left = call.run()
            out.append(max(time.perf_counter() - start, 1e-9))
            self.last = call
        return out
