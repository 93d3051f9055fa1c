"""Tests timing.Clock on a simulated GPU: a stream is a list of what it will finish when, and time only passes where
something takes it."""

import ctypes
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import finish, want  # noqa: E402

QUEUE = 1000  # operations before the host waits
LAUNCH = 3e-6  # what the host takes for one


class GPU:
    now = 0.0  # the host's clock
    ends: list = []  # of the operations in the stream
    rate = 1.5e9
    log: list = []  # what a profiler would have seen
    boost = 1.0  # the clock rises under load: a spin of so many cycles is shorter than when it was calibrated

    @classmethod
    def enqueue(cls, seconds: float, name: str = "") -> float:
        cls.now += LAUNCH
        cls.ends = [e for e in cls.ends if e > cls.now]
        if len(cls.ends) >= QUEUE:
            cls.now = cls.ends[-QUEUE]
        end = max(cls.now, cls.ends[-1] if cls.ends else 0.0) + seconds
        cls.ends.append(end)
        if name:
            cls.log.append({"cat": "kernel", "name": name, "ts": 1e6 * (end - seconds), "dur": 1e6 * seconds})
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

    def data_ptr(self) -> int:
        return 0x1000


class Stream:
    cuda_stream = 7


class Driver:
    """libcuda.so.1, which writes down what is launched: the entry, its first byte, and how many."""

    launched: list = []
    entries: dict = {}

    def __init__(self, name: str) -> None:
        pass

    def cuModuleLoadData(self, module, text: bytes) -> int:
        return 0 if b".entry keep(" in text and b".entry let_go(" in text else 218

    def cuModuleGetFunction(self, function, module, name: bytes) -> int:
        function._obj.value = len(self.entries) + 1
        self.entries[len(self.entries) + 1] = name.decode()
        return 0

    def cuLaunchKernel(self, entry, gx, gy, gz, bx, by, bz, shared, stream, args, extra) -> int:
        start, end, _ = (ctypes.c_uint64.from_address(a).value for a in args)
        self.launched.append((self.entries[entry.value], start, end - start))
        GPU.enqueue((end - start) / 4e12, self.entries[entry.value])
        return 0 if stream.value == Stream.cuda_stream and (gy, gz, by, bz, shared, extra) == (1, 1, 1, 1, 0, None) else 1


class Profile:
    def __init__(self, activities) -> None:
        GPU.log.clear()

    def __enter__(self) -> "Profile":
        return self

    def __exit__(self, *_) -> None:
        pass

    def export_chrome_trace(self, path: str) -> None:
        with open(path, "w") as f:
            json.dump({"traceEvents": [{"ph": "M"}, *GPU.log]}, f)


class torch:
    class profiler:
        profile = Profile

        class ProfilerActivity:
            CUDA = None

    class cuda:
        Event = Event
        synchronize = staticmethod(lambda: GPU.wait())
        _sleep = staticmethod(lambda cycles: GPU.enqueue(cycles / GPU.rate / GPU.boost, "at::cuda::(anonymous namespace)::spin_kernel(long)"))
        get_device_capability = staticmethod(lambda: CAPABILITY)
        current_stream = staticmethod(lambda: Stream)

    zeros = staticmethod(lambda *a, device: Buffer(1))
    ones = staticmethod(lambda n, device: Buffer(n))
    sum = staticmethod(lambda b, dim, out: GPU.enqueue(b.numel() * 4 / 4e12))


CAPABILITY = (7, 5)  # no policies
sys.modules["torch"] = torch
from peerbench import profiler, timing  # noqa: E402
from peerbench.call import Call  # noqa: E402
from peerbench.flush import Flush  # noqa: E402
from peerbench.trouble import Failure, Trouble  # noqa: E402

time.perf_counter = lambda: GPU.now
KERNEL, FLUSH = 20e-6, 120 << 20
def call(host: float, operations: int = 1, waits: bool = False) -> Call:
    def run() -> dict:
        GPU.now += host
        for _ in range(operations):
            GPU.enqueue(KERNEL / operations)
        if waits:
            GPU.wait()
        return {}

    return Call(run)


def timed(what: str, c: Call, samples: int = 21, flush: int = FLUSH, host: float = 0.0) -> None:
    clock = timing.Clock()
    got = clock.visit([c], samples, flush)
    worst = max(abs(s - KERNEL) for s in got)
    took = sorted(clock.hosts)[len(clock.hosts) // 2]
    want(abs(took - host) < 2e-9 + 3e-3 * host, f"{what}: the host takes {took}, want {host}") if host else None
    want(len(got) == samples and worst < 1e-9, f"{what}: {len(got)} samples, off by up to {worst * 1e6:.3f} us")


# The host takes far longer than the kernel, and none of that is in a sample.
for host in (0.0, 50e-6, 500e-6, 5e-3):
    timed(f"host {host}", call(host), host=host + LAUNCH)
    timed(f"host {host}, warm", call(host), flush=0)
    timed(f"host {host}, several batches", call(host), samples=60)
timed("many small kernels: the queue holds fewer samples than a batch", call(1e-3, operations=100))
GPU.boost = 1.9  # the spin is half as long as asked for
timed("a clock that rises", call(300e-6))
GPU.boost = 1.0

pauses = iter([0.0] * 30 + [50e-3] + [0.0] * 1000)


def paused() -> dict:
    GPU.now += next(pauses)
    GPU.enqueue(KERNEL)
    return {}


timed("the host pauses once", Call(paused))

# Samples that are cold by other tensors go through all of them, from batch to batch.
used: list[int] = []


def of(tensors: int) -> Call:
    def run() -> dict:
        used.append(tensors)
        GPU.enqueue(KERNEL)
        return {}

    return Call(run)


timing.Clock().visit([of(i) for i in range(7)], 21, 0)
want(used == [i % 7 for i in range(len(used))], f"rotated: {used}")  # behind the untimed ones too, which leave theirs in L2

# Without a spin the same host time would be in the samples: the simulation can tell.
spoiled, _, ahead = timing.Clock().batch([call(50e-6)], 3, FLUSH, 0, False)
want(not ahead and max(spoiled) > 2 * KERNEL, f"no spin: ahead {ahead}, up to {max(spoiled) * 1e6:.1f} us")

# What a kernel has left is poisoned once in a visit: ahead of the last sample and of its flush.
seen: list[int] = []


def counted() -> dict:
    seen.append(1)
    GPU.enqueue(KERNEL)
    return {"y": len(seen)}


for samples in (1, timing.BATCH, 7):
    seen.clear()
    poisoned: list[int] = []
    clock = timing.Clock()
    got = clock.visit([Call(counted)], samples, FLUSH, lambda c: poisoned.append(len(seen)))
    want(poisoned == [len(seen) - 1], f"{samples} samples, {len(seen)} runs: poisoned ahead of {poisoned}")
    want(clock.last.left == {"y": len(seen)}, f"the last sample left {clock.last.left}")
    want(max(abs(s - KERNEL) for s in got) < 1e-9, f"with a poison: {got}")

# Where there are policies each flush takes and gives back the whole buffer, one more behind the last sample.
CAPABILITY = (9, 0)
ctypes.CDLL = Driver
timed("with cache policies", call(50e-6), samples=timing.BATCH)
flushes = 2 * timing.BATCH + 1  # the untimed batch, the timed one, and behind them
want(Driver.launched == [("keep", 0x1000, FLUSH), ("let_go", 0x1000, FLUSH)] * flushes, f"flushes: {Driver.launched}")
Driver.launched.clear()
timed("warm, with cache policies", call(50e-6), flush=0)
want(not Driver.launched, f"warm: {Driver.launched}")

# A trace has the kernels of each sample: not those that put back its inputs or poison its outputs, nor the flush.
runs: list[int] = []


def traced(more: bool = False) -> Call:
    def run() -> dict:
        runs.append(1)
        GPU.enqueue(10e-6, "void at::native::(anonymous namespace)::first<4, c10::BFloat16>(int, long)")
        GPU.enqueue(0)  # the next one is launched later
        for _ in range(2 + more * len(runs)):
            GPU.enqueue(3e-6, "_second_kernel")
        return {}

    return Call(run, before=lambda: GPU.enqueue(1e-6, "copy"))


def differs(seconds: list[float], us: float) -> bool:
    return len(seconds) != 5 or max(abs(1e6 * s - us) for s in seconds) > 0.01


for flush in (FLUSH, 0):
    seconds, more = profiler.trace(timing.Clock(), [traced()], 5, flush, lambda c: GPU.enqueue(1e-6, "fill"))
    names = [s["stage"] for s in more["stages"]]
    want(len(seconds) == 5 and more["by"] == "cupti" and names == ["first", "_second_kernel"], f"flush {flush}: traced {more}")
    want(not any(differs(s["seconds"], us) for s, us in zip(more["stages"], (10, 6))) and len(more["gaps"]) == 5, f"flush {flush}: {more}")
seconds, more = profiler.trace(timing.Clock(), [traced(more=True)], 5, FLUSH, lambda c: None)
want(len(seconds) == 5 and more == {}, f"kernels that change: {more}")
Driver.launched.clear()

Flush.PTX, text = "nothing", Flush.PTX
try:
    timing.Clock()
    want(False, "PTX that is refused goes unseen")
except Trouble as e:
    want("cuModuleLoadData: CUDA error 218" in str(e), str(e))


def missing(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


Flush.PTX, ctypes.CDLL = text, missing
try:
    timing.Clock()
    want(False, "a driver that is not there goes unseen")
except Trouble as e:
    want("libcuda.so.1: cannot open" in str(e) and e.hint != "", str(e))
CAPABILITY = (7, 5)

for what, c in (("waits for the GPU", call(0, waits=True)), ("overfills the queue", call(0, operations=2000))):
    try:
        got = timing.Clock().visit([c], 5, FLUSH)
        want(False, f"a peer that {what} got times: {got}")
    except Failure as e:
        want(e.status == "unfit", str(e))
finish()
