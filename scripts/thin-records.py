#!/usr/bin/env python3
"""What tables, verdicts and maps need of records files, in one that can be checked in.

    scripts/thin-records.py RECORDS.jsonl[.gz|.bz2]... OUT.jsonl.bz2

No line keeps its checksum, as the whole file has bzip2's, nor its key, which readers make. What is thin stays as it is.

Of a sweep, runs, streams and the records of finals stay, with all samples, but of a stage the median alone. What a
search measured on its way to them goes, and so do the outputs and resources of checks.

Of `map learn`, runs stay, and of each variant its median on each problem: some 9 KB for 1,000 records. They stand by
variant, and the time of each is that of its run's last record: that takes a third less room.

Where there are both, the map is filled from both. Then a sweep's finals stay with their medians, of the ops, passes and
types that learn measured. Its other records and its streams go.
"""

import argparse
import bz2
import gzip
import json
import statistics
import sys

# What the fill of a map reads of a record, and what each line must have. Readers make the key.
FIELDS = ["schema", "kind", "run", "time", "problem", "family", "config", "status", "reason", "source", "bytes"]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


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
    """The lines that stay, and the number of those of learn, which stand last."""
    kept, learned, runs, last, streams = [], [], {}, {}, {}
    for path in paths:
        opener = {".gz": gzip.open, "bz2": bz2.open}.get(path[-3:], open)
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
    learned.sort(key=lambda line: (line["family"], line["config"]))
    for line in learned:  # the first of each problem has the time of the stream
        if us := streams.pop(line["problem"], None):
            line["stream_us"] = us
    return kept + learned, len(learned)


def pack(lines):
    # bzip2 packs such lines to two thirds of what gzip does.
    return bz2.compress("".join(compact(line) + "\n" for line in lines).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("out")
    args = parser.parse_args()
    lines, learned = thin(args.records)
    data = pack(lines)
    with open(args.out, "wb") as file:
        file.write(data)
    if learned:
        print(f"thin-records.py: {learned} records of learn, {len(data)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
