"""Tests peers.Clock on a simulated GPU: a stream is a list of what it will finish when, and time only passes where
something takes it."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import peers  # noqa: E402

QUEUE = 1000  # operations before the host waits
LAUNCH = 3e-6  # what the host takes for one


class GPU:
    now = 0.0  # the host's clock
    ends: list = []  # of the operations in the stream
    rate = 1.5e9
    boost = 1.0  # the clock rises under load: a spin of so many cycles is shorter than when it was calibrated

    @classmethod
    def enqueue(cls, seconds: float) -> float:
        cls.now += LAUNCH
        cls.ends = [e for e in cls.ends if e > cls.now]
        if len(cls.ends) >= QUEUE:
            cls.now = cls.ends[-QUEUE]
        end = max(cls.now, cls.ends[-1] if cls.ends else 0.0) + seconds
        cls.ends.append(end)
        return end

    @classmethod
    def wait(cls) -> None:
        cls.now = max([cls.now] + cls.ends)


class Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = GPU.enqueue(0)

    def query(self) -> bool:
        return self.at <= GPU.now

    def synchronize(self) -> None:
        GPU.now = max(GPU.now, self.at)

    def elapsed_time(self, other: "Event") -> float:
        return (other.at - self.at) * 1e3


class Buffer:
    def __init__(self, n: int) -> None:
        self.n = n

    def numel(self) -> int:
        return self.n


class torch:
    class cuda:
        Event = Event
        synchronize = staticmethod(lambda: GPU.wait())
        _sleep = staticmethod(lambda cycles: GPU.enqueue(cycles / GPU.rate / GPU.boost))

    zeros = staticmethod(lambda *a, device: Buffer(1))
    ones = staticmethod(lambda n, device: Buffer(n))
    sum = staticmethod(lambda b, dim, out: GPU.enqueue(b.numel() * 4 / 4e12))


peers.torch = torch
peers.time.perf_counter = lambda: GPU.now
KERNEL, FLUSH = 20e-6, 120 << 20
failed = 0


def want(ok: bool, what: str) -> None:
    global failed
    if not ok:
        failed += 1
        print("FAIL", what)


def call(host: float, operations: int = 1, waits: bool = False) -> peers.Call:
    def run() -> peers.Tensors:
        GPU.now += host
        for _ in range(operations):
            GPU.enqueue(KERNEL / operations)
        if waits:
            GPU.wait()
        return {}

    return peers.Call(run)


def timed(what: str, c: peers.Call, samples: int = 21, flush: int = FLUSH) -> None:
    got = peers.Clock().visit([c], samples, flush)
    worst = max(abs(s - KERNEL) for s in got)
    want(len(got) == samples and worst < 1e-9, f"{what}: {len(got)} samples, off by up to {worst * 1e6:.3f} us")


# The host takes far longer than the kernel, and none of that is in a sample.
for host in (0.0, 50e-6, 500e-6, 5e-3):
    timed(f"host {host}", call(host))
    timed(f"host {host}, warm", call(host), flush=0)
    timed(f"host {host}, several batches", call(host), samples=60)
timed("many small kernels: the queue holds fewer samples than a batch", call(1e-3, operations=100))
GPU.boost = 1.9  # the spin is half as long as asked for
timed("a clock that rises", call(300e-6))
GPU.boost = 1.0

pauses = iter([0.0] * 30 + [50e-3] + [0.0] * 1000)


def paused() -> peers.Tensors:
    GPU.now += next(pauses)
    GPU.enqueue(KERNEL)
    return {}


timed("the host pauses once", peers.Call(paused))

# Samples that are cold by other tensors go through all of them, from batch to batch.
used: list[int] = []


def of(tensors: int) -> peers.Call:
    def run() -> peers.Tensors:
        used.append(tensors)
        GPU.enqueue(KERNEL)
        return {}

    return peers.Call(run)


peers.Clock().visit([of(i) for i in range(7)], 21, 0)
timed_only = used[peers.BATCH :]  # what comes first is untimed
want(timed_only == [i % 7 for i in range(len(timed_only))], f"rotated: {timed_only}")

# Without a spin the same host time would be in the samples: the simulation can tell.
spoiled, _, ahead = peers.Clock().batch([call(50e-6)], 3, FLUSH, 0, False)
want(not ahead and max(spoiled) > 2 * KERNEL, f"no spin: ahead {ahead}, up to {max(spoiled) * 1e6:.1f} us")

for what, c in (("waits for the GPU", call(0, waits=True)), ("overfills the queue", call(0, operations=2000))):
    try:
        got = peers.Clock().visit([c], 5, FLUSH)
        want(False, f"a peer that {what} got times: {got}")
    except peers.Failure as e:
        want(e.status == "unfit", str(e))
print("FAILED" if failed else "ok")
sys.exit(1 if failed else 0)
