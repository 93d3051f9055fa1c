"""A device of scripted peers in place of device.Device: what the protocol does with them needs no torch."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
import peers  # noqa: E402
from peerbench.peer import Peer  # noqa: E402
from peerbench.problem import Problem  # noqa: E402
from peerbench.trouble import Failure, Trouble  # noqa: E402


class Double:
    def __init__(self, uuid: str) -> None:
        if uuid == "GPU-none":
            raise Trouble("no such GPU", "plug one in")
        self.uuid = uuid
        self.about = [{"name": "right", "system": "Right", "version": "right 1.0", "builds": "compiles"},
                      {"name": "absent", "system": "Absent", "missing": "ModuleNotFoundError: No module named 'absent'"}]
        self.about += [{"name": n, "system": n, "version": "1", "builds": "compiles"} for n in ("slow", "crashes", "raises", "plain", "prints", "hangs")]
        self.problem = None

    def info(self):
        return {"id": "nvidia-h200", "kind": "cuda", "name": "NVIDIA H200", "uuid": self.uuid, "arch": "sm_90", "sms": 132,
                "compiler": "double", "cache_bytes": 60 << 20, "memory_bytes": 141 * 10**9}

    def open(self, problem, seed, how, first):
        self.problem, self.seed = Problem.parse(problem), seed

    def close(self):
        self.problem = None

    def act(self, name):
        if name == "absent":
            raise Failure("refused", "peer absent is not there")
        if name == "plain":  # has none of the options
            Peer(name, "", "Plain", functions={"rmsnorm": lambda x, weight: x}).refuse(self.problem)
        if name == "raises":
            raise ValueError("as asked\nand a second line")
        if name == "exits":
            sys.exit("as asked")
        if name == "context":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if name == "crashes":
            print("double: crashing as asked", file=sys.stderr, flush=True)
            os._exit(3)
        if name == "hangs":
            time.sleep(600)
        if name == "prints":
            print("a library says hello")
            os.system("echo so does its child")
        if name == "shape":
            raise Failure("wrong", f"y has shape (1, 1), want {self.problem.shape('y')}")

    def check(self, name, repeats):
        self.act(name)
        out = {"name": "y", "elems": self.problem.M * self.problem.N, "bad": 0, "max_err": 0.5, "rel_l2": 1e-3}
        if name == "wrong":
            out.update(bad=1, first=3, max_err=3.4e38, got="NaN", want=1.5)
        return {"outputs": [out], "repeats": repeats, "differing": 0, "unordered": True, "busy": 0.01}

    def hash(self, name, rows):
        self.act(name)
        return {"y": list(range(min(rows, self.problem.M) - (name == "wrong")))}

    def time(self, name, o):
        self.act(name)
        if name == "wrong":
            raise Failure("wrong", "y is wrong in 1 of 10 elements")
        return {"seconds": [1e-5] * o["samples"], "host": 4e-5, "busy": 0.01}


class Builder(Double):
    """Leaves a file in the cache for each cell that it has compiled. Its peers fail as those above do."""

    def check(self, name, repeats):
        self.act(name)
        path = os.path.join(os.environ["TRITON_CACHE_DIR"], f"{name}-{self.problem.M}")
        with open(path, "a") as f:
            f.write(f"{os.getpid()}\n")
        patience = time.monotonic() + 8
        while name == "slow" and time.monotonic() < patience:  # until another process is at one, too
            if sum(f.startswith("slow-") for f in os.listdir(os.environ["TRITON_CACHE_DIR"])) > 1:
                break
            time.sleep(0.01)
        return {"outputs": [], "repeats": 1, "differing": 0, "unordered": True, "busy": 0.0}


def start(uuid: str, prepare: bool) -> Double:
    if prepare and os.environ.get("NORMBENCH_TEST_BUILDER") == "none":
        raise Trouble("it compiles nothing")
    return Builder(uuid) if prepare else Double(uuid)


if __name__ == "__main__":
    peers.main(start)
