"""Other people's normalization kernels as a device of normbench.

A worker in the sense of package worker: requests are JSON lines on standard
input, answers JSON lines on standard output. It needs PyTorch with CUDA, and
measures whichever peers the Python that runs it can import: the files of libraries,
and functions of users' files. The rest of it is in peerbench: Peer (peer.py) says
what a peer is called with, timing.py what is timed, builder.py what is compiled ahead.

What is in an interval. A forward is called as training calls it, and leaves what
its backward needs: rstd, and mean in layernorm, as our kernels do. (Under no_grad
torch.compile and quack leave them out: 18.1 us and not 18.5 at layernorm 65536x256,
32.9 and not 33.9 at 32768x1024, where they are 0.8 and 0.2% of the bytes.) A
backward is timed alone, its forward run before: by the peer's own entry where there
is one, else by torch.autograd.grad, which for a single autograd function adds no
kernel.
What a peer does itself (zeroing, casts, the sum of partial gradients) counts;
see each file of libraries. Its kernels one by one are timed in a pass of its own, by
torch's profiler.

Arguments: --uuid GPU-... (the GPU to use), --cache FOLDER (of all that is
compiled), --triton FOLDER (of what Triton compiles, if it is to be kept), --prepare (be a process that compiles ahead), --peer NAME (leave out those that
are not named; py:FILE.py:FUNCTION is a user's).
NORMBENCH_PEERS_CPU=1 runs what runs on a CPU, for tests.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from typing import Any, Callable

from peerbench.peer import PEERS, callable_of, located
from peerbench.trouble import Failure, Trouble, one_line

PROTOCOL = 2


LOST = re.compile(r"CUDA (driver )?error|Triton Error \[CUDA\]")  # as PyTorch, its driver API and Triton say it


# A machine without a GPU, as PyTorch and Triton say it.
ABSENT = re.compile(r"exchangeDevice|No CUDA GPUs|no NVIDIA (driver|GPU)|not compiled with CUDA|0 active drivers|cpu tensor\?|"
                    r"Expected a .?cuda.? device|CUDA (unknown error|driver initialization failed)|device is being used.*cpu", re.I)


def failure_of(e: BaseException) -> Failure:
    """Sorts what a peer raised into kernels.Status."""
    if isinstance(e, Failure):
        return e
    if isinstance(e, NotImplementedError):
        return Failure("refused", str(e) or located(e))
    text, where = located(e), type(e).__module__
    if isinstance(e, getattr(sys.modules.get("torch"), "OutOfMemoryError", ())):
        return Failure("resource", text)
    if os.environ.get("NORMBENCH_PEERS_CPU") == "1" and ABSENT.search(str(e)):
        return Failure("unfit", f"it needs a GPU: it raised {text}")
    if LOST.search(str(e)) or type(e).__name__ == "AcceleratorError":
        if "out of memory" in str(e):
            return Failure("resource", text)
        return Failure("launch", text, broken=True)  # the context went with it
    if where.startswith(("torch._dynamo", "torch._inductor", "triton.compiler", "cutlass")):
        return Failure("compile", text)
    if type(e).__name__ == "OutOfResources":  # Triton's
        return Failure("resource", text)
    return Failure("launch", "it raised " + text)


def serve(device: Callable[[], Any], requests: Any, answer: Callable[[str], None]) -> None:
    dev: Any = None
    for line in requests:
        r = json.loads(line)
        a: dict[str, Any] = {"id": r["id"]}
        try:
            if dev is None:
                dev = device()
            op, name = r["op"], (r.get("variants") or [""])[0].partition("@")[0].removeprefix("peer/")
            if op == "hello":
                a["hello"] = {"protocol": PROTOCOL, "kernels": "", "info": dev.info(), "peers": dev.about}
            elif op == "open":
                dev.open(r["problem"], r["inputs"]["seed"], r["inputs"].get("draw", ""), r["inputs"].get("from", 0))
            elif op == "close":
                dev.close()
            elif op == "sense":
                a["reading"] = {}
            elif op not in ("check", "hash", "time"):
                if op != "prefetch":
                    raise Trouble(f"unknown op {op!r}", "install the same normbench on both sides")
            elif dev.problem is None:
                raise Trouble(f"{op} without an open problem")
            else:
                try:
                    if op == "check":
                        a["check"] = dev.check(name, r.get("repeats", 1))
                    elif op == "hash":
                        a["hashes"] = dev.hash(name, r["rows"])
                    else:
                        a["timing"] = dev.time(name, r["options"])
                except (Exception, SystemExit) as e:
                    f = failure_of(e)
                    a["failure"] = {"status": f.status, "reason": str(f), "broken": f.broken}
        except Trouble as e:
            a.update(error=str(e), hint=e.hint)
        except (Exception, SystemExit) as e:
            a["error"] = one_line(e)
        answer(json.dumps(a) + "\n")


def use_cache(folder: str, triton: str = "") -> None:
    """Puts all that is compiled into a folder, and Triton's machine code into another, where it outlasts this process. It
    is read when these libraries are imported."""
    for variable, name in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"), ("QUACK_CACHE_DIR", "quack")):
        os.environ[variable] = triton if triton and name == "triton" else os.path.join(folder, name)
        os.makedirs(os.environ[variable], exist_ok=True)
    # A pool for each process would be more than there are cores, and beside a measurement one is too much.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def start(uuid: str, prepare: bool) -> Any:
    """The device that a hello asks for. torch is imported here, so that its absence is an answer."""
    try:
        importlib.import_module("torch")
    except (Exception, SystemExit) as e:
        raise Trouble(f"{sys.executable} has no torch: {one_line(e)}", "install PyTorch there, or name another Python with --python")
    from peerbench.builder import Builder
    from peerbench.device import Device

    return Builder(uuid) if prepare else Device(uuid)


def main(device: Callable[[str, bool], Any] = start) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uuid", default="")
    parser.add_argument("--cache", default="")
    parser.add_argument("--triton", default="")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--peer", action="append", default=[])
    o = parser.parse_args()
    wanted = {name: PEERS.get(name) or callable_of(name) for name in o.peer or PEERS}
    PEERS.clear()
    PEERS.update(wanted)
    if o.cache:
        use_cache(o.cache, o.triton)
    # Whatever a peer prints must not get between the answers.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(lambda: device(o.uuid, o.prepare), sys.stdin, out.write)


if __name__ == "__main__":
    main()
