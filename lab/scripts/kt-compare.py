#!/usr/bin/env python3
"""kernel_tuner's strategies on a recorded space, as `make lab` judges ours.

    pip install kernel_tuner==1.5.0
    lab/scripts/kt-compare.py FILE... [--seeds 24] [--strategies genetic_algorithm,...]

A FILE is a cache of kernel_tuner, .json or .json.gz, also of `normbench export`.
All its configs are the space, invalid ones too. A strategy has kernel_tuner's default options.
A random valid config counts as the first that a search tried, as it does for ours. Prints
means over files and seeds: the score over 1 to 10% of the configs (0 is what random draws are
expected to find, 1 the optimum at once), the regret in percent at 1, 3, 6 and 10%, and the
share of searches that end within 1% of the best.
"""
import argparse, contextlib, gzip, io, json, logging, math, os, random, signal, sys, tempfile, warnings
from importlib.metadata import PackageNotFoundError, version

PINNED = "1.5.0"
ERRORS = ("ErrorConfig", "InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
SHARES = range(1, 11)
SHOWN = (1, 3, 6, 10)
LIMIT = 60  # seconds of a search: where no config has a neighbour, some strategies do not end


def fail(text, hint):
    print(f"kt-compare: error: {' '.join(str(text).split())}\nkt-compare: hint: {hint}", file=sys.stderr)
    sys.exit(2)


def no_number(text):
    raise ValueError(f"{text} is no JSON number")


def once(pairs):
    d = dict(pairs)
    if len(d) < len(pairs):
        raise ValueError(f"a field of {', '.join(d)[:80]} stands twice")
    return d


def load(path):
    """Returns the knobs' names, and the time of each config, None where it is invalid."""
    bad = lambda text: fail(f"{path}: {text}", "give a cache of kernel_tuner, schema 1.0 or 1.1")
    try:
        with open(path, "rb") as f:
            packed = f.read(2) == b"\x1f\x8b"
        with (gzip.open if packed else open)(path, "rt", encoding="utf-8-sig") as f:
            data = json.load(f, parse_constant=no_number, object_pairs_hook=once)
        if str(data.get("schema_version", "1.0"))[:3] not in ("1.0", "1.1"):
            bad(f"schema {data['schema_version']!r} is not known")
        names = data["tune_params_keys"]
        entries = [(e, "InvalidConfig" if "__error__" in e else e["time"]) for e in data["cache"].values()]
        configs = {}
        for e, time in entries:
            at = tuple(e[k] for k in names)
            if at in configs:
                bad(f"the config {at} stands twice")
            if not (time in ERRORS if isinstance(time, str) else time > 0):
                bad(f"the time {time!r} of the config {at}")
            configs[at] = None if isinstance(time, str) or time >= 1e20 else float(time)
    except (OSError, EOFError, RecursionError, ValueError) as e:
        bad(e)
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError) as e:
        bad(f"no cache: {type(e).__name__} {e}")
    if len(configs) < 2 or len(set(names)) < len(names):
        bad(f"{len(configs)} configs of the knobs {names} are no space")
    if all(t is None for t in configs.values()):
        bad(f"none of its {len(configs)} configs is valid")
    return names, configs


def expected(times, n, draws):
    """What so many draws of n configs, of which the first is valid, are expected to find."""
    m, none, total = len(times), 1.0, 0.0
    for i, t in enumerate(times):
        rest = (m - i - 1) / m
        for d in range(i + 1):
            rest *= max((n - draws - d) / (n - 1 - d), 0)
            if rest == 0:
                break
        total += (none - rest) * t
        none = rest
        if none < 1e-12:
            break
    return total


def stop(*_):
    raise TimeoutError(f"no end within {LIMIT} s")


class Space:
    """A file's configs as a space of kernel_tuner, with a cache that it closes itself."""

    def __init__(self, names, configs, path):
        from constraint import FunctionConstraint

        class Among(FunctionConstraint):
            """The configs of the file. It judges a part of a config too: the product of all knobs may be 1e16."""

            def __init__(self):
                super().__init__(lambda *at: at in configs)
                self.parts = {}

            def __deepcopy__(self, _):
                return self

            def __call__(self, variables, domains, assignments, *_, **__):
                at = tuple(i for i, k in enumerate(names) if k in assignments)
                if at not in self.parts:
                    self.parts[at] = {tuple(c[i] for i in at) for c in configs}
                return tuple(assignments[names[i]] for i in at) in self.parts[at]

        self.names, self.configs, self.path, self.among = names, configs, path, Among()
        self.params = {k: list(dict.fromkeys(c[i] for c in configs)) for i, k in enumerate(names)}
        if all(not isinstance(x, str) for v in self.params.values() for x in v):
            self.params = {k: sorted(v) for k, v in self.params.items()}
        self.valid = sorted(t for t in configs.values() if t is not None)
        self.draws = {s: max(math.ceil(s * len(configs) / 100), 2) for s in SHARES}
        self.random = {s: expected(self.valid, len(configs), d) / self.valid[0] - 1 for s, d in self.draws.items()}
        with open(path, "w") as f:
            head = {"device_name": "G", "kernel_name": "k", "problem_size": [1], "tune_params_keys": names, "tune_params": self.params, "objective": "time"}
            f.write(json.dumps(head)[:-1] + ',\n"cache": {\n')  # closed as kernel_tuner closes it
            f.write(",\n".join(json.dumps(",".join(map(str, c))) + ": " + json.dumps(dict(zip(names, c)) | {"time": "InvalidConfig" if t is None else t})
                               for c, t in configs.items()))
            f.write("}\n}")

    def regrets(self, start, found):
        """The regret at each share. A config that comes again costs nothing: the results list it again."""
        times = [start] + [self.configs[c] or math.inf for c in dict.fromkeys(tuple(e[k] for k in self.names) for e in found)]
        return {s: min(times[:d]) / self.valid[0] - 1 for s, d in self.draws.items()}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("files", nargs="+", metavar="FILE")
    ap.add_argument("--seeds", type=int, default=24)
    ap.add_argument("--strategies", default="random_sample,genetic_algorithm,pso,simulated_annealing,hybrid_vndx,adaptive_tabu_greywolf")
    a = ap.parse_args()
    try:
        if version("kernel_tuner") != PINNED:
            raise PackageNotFoundError(f"kernel_tuner {version('kernel_tuner')}")
    except PackageNotFoundError as e:
        fail(f"no kernel_tuner {PINNED}: {e}", f"pip install kernel_tuner=={PINNED}; scripts/kt-readers.sh keeps one in .cache/kt")
    if a.seeds < 1:
        fail(f"--seeds {a.seeds} is out of range", "use 1 or more")
    loaded = [load(f) for f in a.files]
    import kernel_tuner
    import numpy
    from kernel_tuner.interface import strategy_map

    for s in a.strategies.split(","):
        if s not in strategy_map:
            fail(f"unknown strategy {s!r}", "use " + ", ".join(strategy_map))

    def row(name, score, at, within):
        print("| " + " | ".join([name, f"{score:.3f}"] + [f"{100 * at[s]:.2f}" for s in SHOWN] + [within]) + " |", flush=True)

    warnings.simplefilter("ignore")
    logging.disable()
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory() as tmp:
        spaces = [Space(names, configs, os.path.join(tmp, f"{i}.json")) for i, (names, configs) in enumerate(loaded)]
        mean = lambda of: sum(of) / len(spaces)
        for path, s in zip(a.files, spaces):
            print(f"{path}: {len(s.configs)} configs of {len(s.names)} knobs, {len(s.configs) - len(s.valid)} invalid", file=sys.stderr)
        columns = ["strategy", "score", "regret at 1 % %"] + [f"{s} % %" for s in SHOWN[1:]] + ["searches within 1 %"]
        print("| " + " | ".join(columns) + " |\n|:--|" + "--:|" * (len(columns) - 1))
        row("random draws, expected", 0, {s: mean(x.random[s] for x in spaces) for s in SHARES}, "")
        for strategy in a.strategies.split(","):
            score, sums, within, runs = 0.0, dict.fromkeys(SHARES, 0.0), 0, len(spaces) * a.seeds
            try:
                for x in spaces:
                    for seed in range(a.seeds):
                        random.seed(seed)
                        numpy.random.seed(seed)
                        start = random.choice(x.valid)
                        signal.alarm(LIMIT)
                        with contextlib.redirect_stdout(io.StringIO()):
                            found, _ = kernel_tuner.tune_kernel(
                                "k", "", (1,), [], x.params, cache=x.path, simulation_mode=True, restrictions=[x.among], strategy=strategy,
                                strategy_options={"max_fevals": x.draws[10]}, quiet=True)
                        at = x.regrets(start, found)
                        score += sum(1 - at[s] / x.random[s] if x.random[s] > 0 else 1 for s in SHARES) / len(SHARES) / runs
                        sums = {s: sums[s] + at[s] / runs for s in SHARES}
                        within += at[10] <= 0.01
            except Exception as e:  # of kernel_tuner's, which has no class of its own
                print(f"| {strategy} | failed: {type(e).__name__} {' '.join(str(e).split())[:100]} |", flush=True)
                continue
            finally:
                signal.alarm(0)
            row(strategy, score, sums, f"{100 * within / runs:.1f}")


if __name__ == "__main__":
    main()
