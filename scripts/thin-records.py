#!/usr/bin/env python3
"""What tables, verdicts and maps need of records files, in one that can be checked in.

    scripts/thin-records.py [--map TUNED.json] RECORDS.jsonl[.gz]... OUT.jsonl.gz

Of a sweep, runs, streams and the records of finals stay. What a search measured on its way to them goes.

Of `learn`, runs stay, and of each variant its median on each problem. All records of a variant stay or none, by
alignment of rows: a variant that loses where it was measured must not look as if nobody had measured it. First come
the variants of the map that learn made (--map), then those that were the fastest most often, as many as 1 MB holds.
"""

import argparse
import collections
import gzip
import json
import math
import statistics
import sys
import zlib

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (POLYNOMIAL if i & 1 else 0)
    TABLE.append(i)

LIMIT = 1_000_000  # bytes of a file that is checked in
LEARNED = 60_000  # records of learn that it holds at first try

# What the fill of a map reads of a record, and what each line must have. Readers make the key.
FIELDS = ["schema", "kind", "run", "time", "problem", "family", "config", "status", "reason", "source", "bytes"]


def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = c >> 8 ^ TABLE[(c ^ byte) & 0xFF]
    return c ^ 0xFFFFFFFF


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


def thin_learned(line, streams):
    """A record of learn without what no map is filled from."""
    kept = {x: line[x] for x in FIELDS if x in line}
    if line["status"] == "ok":
        kept["samples_us"] = [round(statistics.median(line["samples_us"]), 4)]
    if line.get("stream_us") and streams.get(line["problem"]) != line["stream_us"]:
        kept["stream_us"] = streams[line["problem"]] = line["stream_us"]
    return kept


def thin(paths):
    """The lines that may stay, with the records of learn apart."""
    kept, learned, runs, streams = [], [], {}, {}
    for path in paths:
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                del line["crc"]
                if line["kind"] == "run":
                    runs[line["run"]] = line
                    kept.append(line)
                elif runs[line["run"]]["protocol"].get("search", "").startswith("learn"):
                    if line["family"] != "stream":
                        learned.append(thin_learned(line, streams))
                elif "finals" in line or line["family"] == "stream":
                    if "finals" not in line:
                        line.pop("more", None)  # lines of its append went
                    kept.append(line)
    return kept, learned


def sealed(line):
    body = compact(line)[:-1].encode()
    return body + b',"crc":"%08x"}\n' % crc(body)


def pack(lines):
    # Z_FILTERED leaves the digits of hashes alone.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9, zlib.Z_FILTERED)
    return packer.compress(b"".join(map(sealed, lines))) + packer.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", metavar="TUNED.json")
    parser.add_argument("records", nargs="+")
    parser.add_argument("out")
    args = parser.parse_args()
    kept, learned = thin(args.records)
    units = rank(learned, mapped(args.map) if args.map else set())
    most = LEARNED
    while True:
        total, chosen = 0, set()
        for u, n in units:
            total += n
            if total > most:
                break
            chosen.add(u)
        some = [r for r in learned if unit(r) in chosen]
        data = pack(kept + some)
        if len(data) <= LIMIT or not some:
            break
        most = int(len(some) * LIMIT / len(data) * 0.99)
    with open(args.out, "wb") as file:
        file.write(data)
    if learned:
        print(f"thin-records.py: {len(some)} of {len(learned)} records of learn, {len(data)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
