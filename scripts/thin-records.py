#!/usr/bin/env python3
"""What tables, verdicts and maps need of records files, in one that can be checked in.

    scripts/thin-records.py [--map TUNED.json] RECORDS.jsonl[.gz]... OUT.jsonl.gz

No line keeps its checksum, as the whole file has gzip's, nor its key, which readers make. What is thin stays as it is.

Of a sweep, runs, streams and the records of finals stay, with all samples, but of a stage the median alone. What a
search measured on its way to them goes, and so do the outputs and resources of checks.

Of `learn`, runs stay, and of each variant its median on each problem. All records of a variant stay or none, by
alignment of rows: a variant that loses where it was measured must not look as if nobody had measured it. First come
the variants of the map that learn made (--map), then those that were the fastest most often, up to 72,000 records.
They stand by variant, and the time of each is that of its run's last record: that takes a third less room.

If a file has both, the map is filled from both. Then a sweep's finals stay with their medians, of the ops, passes and
types that learn measured. Its other records and its streams go.
"""

import argparse
import collections
import gzip
import json
import math
import statistics
import sys
import zlib

LEARNED = 72_000  # records of learn that are kept at most, some 650 KB

# What the fill of a map reads of a record, and what each line must have. Readers make the key.
FIELDS = ["schema", "kind", "run", "time", "problem", "family", "config", "status", "reason", "source", "bytes"]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def alignment(problem):
    """The bytes that all rows of a problem start at a multiple of."""
    shape, dtype = problem.split("/")[2:4]
    row = int(shape.split("x")[1]) * (4 if dtype.startswith("fp32") else 2)
    return math.gcd(row, 16)


def unit(record):
    return alignment(record["problem"]), record["family"], record["config"]


def mapped(path):
    """The units of a map's legends, and those of the same designs of the other op."""
    with open(path, encoding="utf-8") as file:
        rasters = json.load(file)["map"]["rasters"]
    found = set()
    for raster in rasters:
        knobs, *lines = [line.split() for line in raster["legend"]]
        for letter, family, *values in lines:
            config = ".".join(knob + value for knob, value in zip(knobs[1:], values) if value != "-")
            for name in (family, family.replace("rms_", "ln_"), family.replace("ln_", "rms_")):
                found.add((raster["align"], name, config))
    return found


def rank(records, first):
    """The units in the order in which they are kept, each with its number of records."""
    best, size, wins = {}, collections.Counter(), collections.Counter()
    for r in records:
        if r["status"] == "ok":
            best[r["problem"]] = min(best.get(r["problem"], math.inf), r["samples_us"][0])
    for r in records:
        size[unit(r)] += 1
        wins[unit(r)] += r["status"] == "ok" and r["samples_us"][0] == best[r["problem"]]
    return sorted(size.items(), key=lambda x: (x[0] not in first, -wins[x[0]], x[1], x[0]))


def thin_learned(line):
    """A record of learn without what no map is filled from."""
    kept = {x: line[x] for x in FIELDS if x in line}
    if line["status"] == "ok":
        kept["samples_us"] = [round(statistics.median(line["samples_us"]), 4)]
    return kept


def thin_measured(line):
    """A line of a sweep or a bench without what no reader wants."""
    for field in ["crc", "more", "of"] + ["key"] * (line.get("family") != "stream"):
        line.pop(field, None)
    for stage in line.get("stages", []):
        stage["samples_us"] = [round(statistics.median(stage["samples_us"]), 4)]
    for field in "outputs", "resources", "digest":
        line.get("check", {}).pop(field, None)
    return line


def kind(record):
    """Op, pass and types of a record's problem, with its options: all but its shape."""
    op, way, _, options = record["problem"].split("/")
    return op, way, options


def thin(paths):
    """The lines that may stay, those of learn apart, and the time of the stream on each of its problems."""
    kept, learned, runs, last, streams = [], [], {}, {}, {}
    for path in paths:
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                run = line["run"]
                if line["kind"] == "run":
                    runs[run] = line["protocol"]
                    kept.append(thin_measured(line))
                elif not runs[run].get("search", "").startswith("learn"):
                    if runs[run].get("phase") != "search" or line["family"] == "stream":
                        kept.append(thin_measured(line))
                elif line["family"] != "stream":
                    learned.append(thin_learned(line))
                    last[run] = max(last.get(run, ""), line["time"].rstrip("Z"))  # 36 s are before 36.4
                    if line.get("stream_us"):
                        streams[line["problem"]] = line["stream_us"]
    for line in learned:
        line["time"] = last[line["run"]] + "Z"
    if learned:
        kinds = {kind(line) for line in learned}
        finals = [x for x in kept if x["kind"] == "record" and x["family"] != "stream" and kind(x) in kinds]
        measured = set(last) | {x["run"] for x in finals}
        kept = [x for x in kept if x["kind"] == "run" and x["run"] in measured] + [thin_learned(x) for x in finals]
    return kept, sorted(learned, key=lambda line: (line["family"], line["config"])), streams


def choose(learned, chosen, streams):
    """The records of some units, the first of each problem with the time of the stream."""
    some, seen = [], set()
    for line in learned:
        if unit(line) in chosen:
            us = line["problem"] not in seen and streams.get(line["problem"])
            some.append({**line, "stream_us": us} if us else line)
            seen.add(line["problem"])
    return some


def pack(lines):
    # Z_FILTERED leaves the digits of hashes alone.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9, zlib.Z_FILTERED)
    return packer.compress("".join(compact(line) + "\n" for line in lines).encode()) + packer.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", metavar="TUNED.json")
    parser.add_argument("records", nargs="+")
    parser.add_argument("out")
    args = parser.parse_args()
    kept, learned, streams = thin(args.records)
    units = rank(learned, mapped(args.map) if args.map else set())
    total, chosen = 0, set()
    for u, n in units:
        total += n
        if total > LEARNED:
            break
        chosen.add(u)
    some = choose(learned, chosen, streams)
    data = pack(kept + some)
    with open(args.out, "wb") as file:
        file.write(data)
    if learned:
        print(f"thin-records.py: {len(some)} of {len(learned)} records of learn, {len(data)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
