#!/usr/bin/env python3
"""Reads an export of normbench with kernel_tuner.

    python3 -m venv v && v/bin/pip install kernel_tuner==1.5.0
    v/bin/python scripts/kt-readers.py CACHE.json

CACHE is of `normbench export RECORDS --format kt-cache`. kernel_tuner simulates three strategies
on it, without and with a time limit. Exits 1 on the first thing that does not hold.
"""
import argparse, contextlib, io, json, os, random, sys, warnings
from importlib.metadata import version

PINNED = "1.5.0"
STRATEGIES = ["random_sample", "genetic_algorithm", "simulated_annealing"]
EVALUATIONS = 20  # fewer than the configs, so that a strategy has to choose


def fail(text):
    sys.exit(f"kt-readers: error: {text}")


def tune(cache, data, strategy, **options):
    import kernel_tuner
    import numpy

    random.seed(1)
    numpy.random.seed(1)
    with contextlib.redirect_stdout(io.StringIO()):
        return kernel_tuner.tune_cache(cache, restrictions=data.get("restrictions"), strategy=strategy,
                                       strategy_options=options, quiet=True)


def simulate(cache):
    with open(cache) as f:
        data = json.load(f)
    entries = data["cache"]
    best = min(e["time"] for e in entries.values() if "__error__" not in e)
    for strategy in STRATEGIES:
        found, _ = tune(cache, data, strategy, max_fevals=EVALUATIONS)
        keys = {",".join(str(e[k]) for k in data["tune_params_keys"]) for e in found}
        times = [e["time"] for e in found if "__error__" not in e]
        if not keys or not keys <= set(entries) or len(keys) > EVALUATIONS:
            fail(f"{strategy} tried {len(keys)} configs, {len(keys - set(entries))} of them not in {cache}")
        if not times or min(times) < best:
            fail(f"{strategy} found {min(times, default=None)} ms, the best of {cache} is {best}")
        print(f"{strategy}: {len(keys)} of {len(entries)} configs, {min(times):.4g} ms, the best is {best:.4g}")
    every, _ = tune(cache, data, "brute_force")
    least = min(e["time"] for e in every if "__error__" not in e)
    if least != best:
        fail(f"brute_force finds {least} ms, the best of {cache} is {best}")
    # A time limit needs every phase of every config; half of the sum must end a search early.
    phases = ["compile_time", "verification_time", "benchmark_time"]
    if all(k in e for e in entries.values() for k in phases):
        whole = sum(e[k] for e in entries.values() for k in phases) / 1e3
        found, _ = tune(cache, data, "random_sample", time_limit=whole / 2)
        if not 0 < len(found) < len(entries):
            fail(f"within half of its time {len(found)} of {len(entries)} configs of {cache} were tried")
        print(f"time limit of {whole / 2:.3g} s: {len(found)} configs")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("cache")
    a = ap.parse_args()
    if version("kernel_tuner") != PINNED:
        fail(f"kernel_tuner is {version('kernel_tuner')}; pip install kernel_tuner=={PINNED}")
    warnings.simplefilter("ignore")
    simulate(os.path.abspath(a.cache))


if __name__ == "__main__":
    main()
