"""Compiling ahead, in processes beside the one that measures."""

import contextlib
import functools
import inspect
import os
import tempfile
import time
from typing import Any, Iterator

import torch

from peerbench.call import ready
from peerbench.device import CPU, Device
from peerbench.inputs import draw
from peerbench.peer import PEERS, TUNES
from peerbench.trouble import Trouble, one_line


class Builder(Device):
    """A process that compiles for the one that measures, before that begins: what both do with a peer leaves machine
    code in the caches of --cache, where the second one to ask finds it.

    Nothing that such a process finds fastest may be believed: there are as many as there are cores, all on one GPU.
    So it keeps code, and no choices. Inductor's choice of a kernel's config is made when the kernel first runs, and
    kept by AutotuneCache.save, which does nothing here. (Its setting autotune_local_cache would be written into the
    code of every kernel, and keep the choices of the process that measures from lasting, too.) With max-autotune it
    chooses earlier as well: how a backward splits its rows is timed while the code is generated, stands in the
    graph, and the times themselves lie beside the sources. Of such a peer nothing of Inductor's is kept, only what
    Triton compiled; the one that measures generates its own code, and times every candidate alone on the GPU, but
    finds most of them compiled. That holds as far as it walks the same way through the candidates, and therefore a
    Builder times one at a time, under a lock that all of them share. Of Triton's own autotuner every config is compiled and
    run once: what is fastest the process that measures finds by itself, at once, as all are there."""

    def __init__(self, uuid: str) -> None:
        self.begin(uuid)
        self.about = []
        try:
            self.keep_no_choice()
        except (ImportError, AttributeError) as e:
            raise Trouble(f"this PyTorch's Inductor is another than is known here, and compiles where it is measured: {one_line(e)}") from e

    @staticmethod
    def keep_no_choice() -> None:
        from torch._inductor.runtime import autotune_cache, benchmarking

        def save(self: Any, *args: Any, **kwargs: Any) -> None:  # graphs are pickled with it, by this name
            pass

        getattr(autotune_cache.AutotuneCache, "save")  # an Inductor without it keeps its choices elsewhere
        autotune_cache.AutotuneCache.save = save
        clock = type(benchmarking.benchmarker)
        benchmark = clock.benchmark_gpu
        # A backward under max-autotune has some hundred candidates. Short looks, as they wait for each other: of
        # Inductor's own clock, or else of Triton's, in milliseconds.
        known = inspect.signature(benchmark).parameters
        few = {"memory_warmup_iters": 5, "benchmark_iters": 20, "max_benchmark_duration": 5}
        short = {k: v for k, v in few.items() if k in known} or {"warmup": 1, "rep": 4}

        def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
            import fcntl

            with open(os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "..", "gpu.lock"), "w") as lock:
                patience = time.monotonic() + 20  # with one that hangs: its place in the walk is not worth more
                while time.monotonic() < patience:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone with the process, if it is killed
                        break
                    except BlockingIOError:
                        time.sleep(0.002)
                return benchmark(*args, **{**kwargs, **short})

        clock.benchmark_gpu = one_at_a_time
        run_every_config_once()

    def check(self, name: str, repeats: int) -> dict[str, Any]:
        p, start, peer = self.problem, time.perf_counter(), PEERS[name]
        peer.load()
        if peer.builds:
            with thrown_away() if peer.builds == TUNES or tunes() else contextlib.nullcontext():
                call = ready(peer, p, {n: draw(p, n, self.seed, self.how, self.device) for n in p.inputs()})
                if call.before:
                    call.before()
                call.run()
                if not CPU:
                    torch.cuda.synchronize()
        return {"outputs": [], "repeats": 1, "differing": 0, "unordered": True, "busy": time.perf_counter() - start}


def run_every_config_once() -> None:
    """Has Triton's autotuner take one look at each config, where this Triton lets its clock be replaced."""
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        return
    if isinstance(vars(Autotuner).get("do_bench"), functools.cached_property):
        def once(call: Any, quantiles: Any = (0.5,), **_: Any) -> list[float]:
            call()
            return [1.0] * len(quantiles)

        Autotuner.do_bench = property(lambda self: once)


def tunes() -> bool:
    """Whether the user has had Inductor time candidates while it generates code, whatever the mode."""
    from torch._inductor import config

    return any(getattr(config, flag, False) for flag in
               ("max_autotune", "max_autotune_pointwise", "coordinate_descent_tuning", "benchmark_fusion", "benchmark_combo_kernel"))


@contextlib.contextmanager
def thrown_away() -> Iterator[None]:
    """Gives Inductor a folder that goes, and leaves Triton its own. A kernel's key is its source and
    its options: it is found again whatever the folder."""
    import torch._inductor.utils as utils

    clear = getattr(utils, "clear_caches", None) or utils.clear_inductor_caches
    kept = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(kept), ignore_cleanup_errors=True) as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        clear()
        try:
            yield
        finally:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = kept
            clear()
