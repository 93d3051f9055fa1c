"""Tests flush.Flush on a GPU: what a call asked L2 to keep is not there for the next sample.

The call reads a buffer under the policy that keeps it. It must take as long behind a flush as where every sample
has a buffer of its own, of which the L2 holds none. Behind a plain reading it may take less: that was the hole."""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch  # noqa: E402

from peerbench.call import Call  # noqa: E402
from peerbench.timing import Clock  # noqa: E402

if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
    print("NOT TESTED: no GPU with cache policies")
    sys.exit(0)
cache = torch.cuda.get_device_properties(0).L2_cache_size
clock = Clock()


def call(buffer: torch.Tensor) -> Call:
    def run() -> dict:
        flush.launch(flush.entries[0], buffer.data_ptr(), 4 * buffer.numel())
        return {}

    return Call(run)


def micros(calls: list) -> float:
    return 1e6 * statistics.median(clock.visit(calls, 31, 2 * cache)[1:])


class Plain:
    """The flush as it was."""

    buffer, sink = torch.ones(2 * cache // 4, device="cuda"), torch.zeros((), device="cuda")

    def __call__(self, size: int) -> None:
        torch.sum(self.buffer, 0, out=self.sink)


flush, plain = clock.flush, Plain()
failed = False
for size in (cache // 16, cache // 4, cache // 2, cache):
    size -= size % 128
    calls = [call(torch.ones(size // 4, device="cuda")) for _ in range(10)]
    clock.flush = flush
    cold, same = micros(calls), micros(calls[:1])
    clock.flush = plain
    hole = micros(calls[:1])
    print(f"{size / 2**20:.1f} MiB kept: {cold:.2f} us each time elsewhere, {same:.2f} behind a flush, {hole:.2f} behind a plain reading")
    failed = failed or same < 0.95 * cold
if failed:
    print("FAIL: the flush leaves lines of the call")
    sys.exit(1)
