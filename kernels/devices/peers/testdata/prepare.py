"""Shows on a CPU, with the torch that is there, that what a Builder compiled is found by the process that measures:
graphs of torch.compile are, those of max-autotune are not, and a problem opened again is not compiled again."""

import faulthandler
import json
import os
import subprocess
import sys
import tempfile

os.environ["NORMBENCH_PEERS_CPU"] = "1"
faulthandler.dump_traceback_later(120, repeat=True)  # where it is, if it takes that long
here = os.path.dirname(os.path.abspath(__file__))
source = os.path.join(here, "..", "peers.py")
sys.path.insert(0, os.path.dirname(source))
import peers  # noqa: E402
from checks import finish, want  # noqa: E402

with tempfile.TemporaryDirectory() as cache:
    cells = [(text, name) for text in ("rmsnorm/fwd/8x64/bf16", "layernorm/bwd/8x64/fp32+bias") for name in ("compile", "compile-max", "torch")]
    requests = [{"op": "hello"}]
    for text, name in cells:
        requests += [{"op": "open", "problem": text, "inputs": {"seed": 1}}, {"op": "check", "variants": [f"peer/{name}@"], "repeats": 1}]
    requests = [{"id": i, **r} for i, r in enumerate(requests)]
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    # The first graph of a process has the imports in it, and the second process must not profit from the first's.
    done = subprocess.run([sys.executable, "-B", source, "--cache", cache, "--prepare"], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    want(len(answers) == len(requests) and not any(a.get("error") or a.get("failure") for a in answers), f"{answers}\n{done.stderr[-3000:]}")
    kept = [f for _, _, files in os.walk(cache) for f in files if f.endswith((".best_config", ".kernel_perf"))]
    want(not kept, f"choices were kept: {kept}")
    want(sorted(os.listdir(cache)) == ["inductor", "quack", "triton"], f"{os.listdir(cache)}")

    peers.use_cache(cache)
    d = peers.start("", prepare=False)
    from torch._dynamo.utils import counters  # noqa: E402

    def counted() -> tuple[int, int]:
        c = counters["inductor"]
        return c["fxgraph_cache_hit"], c["fxgraph_cache_miss"] + c["fxgraph_cache_bypass"]

    for text, name in cells:
        counters.clear()
        d.open(text, 7)
        c = d.check(name, 1)
        want(not any(o["bad"] for o in c["outputs"]), f"{name} on {text}: {c}")
        hits, misses = counted()
        print(f"{name} on {text}: {hits} graphs found, {misses} not, {c['busy']:.2f} s")
        if name == "compile":
            want(hits > 0 and misses == 0, f"{name} on {text}: {dict(counters['inductor'])}")
        elif name == "compile-max":
            want(hits == 0 and misses > 0, f"{name} on {text}: {dict(counters['inductor'])}")
        counters.clear()
        d.open(text, 8)  # the duel after the choice
        d.check(name, 1)
        want(not counters["inductor"]["fxgraph_cache_hit"] and not counters["stats"]["unique_graphs"], f"{name} on {text} was compiled again: {dict(counters['stats'])}")
        want(len(d.time(name, {"samples": 3, "flush": 0})["seconds"]) == 3 and not counters["stats"]["unique_graphs"],
             f"{name} on {text} was compiled once more: {dict(counters['stats'])}")
finish()
