#!/usr/bin/env python3
"""kernel_tuner's strategies on a cache, in the replay of `normbench search-table`.

    pip install kernel_tuner==1.5.0
    scripts/kt-compare.py CACHE.json[.gz] [--seeds 24] [--strategies genetic_algorithm,...]

Each seed starts where the strategy likes; the valid configs are the space, as
kernel_tuner's tune_cache takes them, and a share counts all configs of the file. Prints
the mean regret at 1, 3, 6 and 10% of the configs, in %.
"""
import argparse, contextlib, gzip, io, json, os, random, tempfile, warnings

import kernel_tuner
import numpy

PINNED = "1.5.0"


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("cache")
    ap.add_argument("--seeds", type=int, default=24)
    ap.add_argument("--strategies", default="random_sample,genetic_algorithm,pso,greedy_ils,simulated_annealing")
    a = ap.parse_args()
    from importlib.metadata import version
    if version("kernel_tuner") != PINNED:
        ap.error(f"kernel_tuner is {version('kernel_tuner')}; pip install kernel_tuner=={PINNED}")
    opener = gzip.open if a.cache.endswith(".gz") else open
    with opener(a.cache, "rt") as f:
        data = json.load(f)
    valid = [e["time"] for e in data["cache"].values() if isinstance(e["time"], (int, float))]
    for e in data["cache"].values():  # tune_cache finds the invalid by this key
        if isinstance(e["time"], str):
            e.setdefault("__error__", e["time"])
    best, n = min(valid), len(data["cache"])
    shares = [1, 3, 6, 10]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "cache.json")
        with open(path, "w") as f:  # closed as kernel_tuner closes it
            head = {k: v for k, v in data.items() if k != "cache"}
            f.write(json.dumps(head, indent="")[:-2] + ',\n"cache": {\n')
            f.write(",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in data["cache"].items()))
            f.write("}\n}")
        print(f"{'strategy':24}" + "".join(f"{s:>8}%" for s in shares))
        for strategy in a.strategies.split(","):
            sums = [0.0] * len(shares)
            for seed in range(a.seeds):
                random.seed(seed)
                numpy.random.seed(seed)
                with contextlib.redirect_stdout(io.StringIO()):
                    found, _ = kernel_tuner.tune_cache(path, restrictions=data.get("restrictions") or None, strategy=strategy,
                                                       strategy_options={"max_fevals": n * shares[-1] // 100}, quiet=True)
                # A config that comes again costs nothing: the results list it again.
                seen = {}
                for e in found:
                    seen.setdefault(tuple(e[k] for k in data["tune_params_keys"]), e["time"])
                times = [t if isinstance(t, (int, float)) else float("inf") for t in seen.values()]
                for i, s in enumerate(shares):
                    sums[i] += min(times[: max(n * s // 100, 2)]) / best - 1
            print(f"{strategy:24}" + "".join(f"{100 * x / a.seeds:9.2f}" for x in sums), flush=True)


if __name__ == "__main__":
    main()
