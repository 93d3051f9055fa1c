#!/usr/bin/env python3
"""The finals of a records file, so that it can be checked in: what tuned tables and verdicts rest on.

    scripts/thin-records.py RECORDS.jsonl[.gz] OUT.jsonl.gz

Runs, streams and the records of finals stay. What a search measured on its way to them goes.
"""

import gzip
import json
import sys

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (POLYNOMIAL if i & 1 else 0)
    TABLE.append(i)


def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = c >> 8 ^ TABLE[(c ^ byte) & 0xFF]
    return c ^ 0xFFFFFFFF


def stays(line):
    return line["kind"] != "record" or "finals" in line or line["family"] == "stream"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: " + __doc__.split("\n\n")[1].strip())
    source, target = sys.argv[1:]
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rt", encoding="utf-8") as lines:
        kept = [line for line in map(json.loads, lines) if stays(line)]
    with open(target, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as out:
        for line in kept:
            del line["crc"]
            if "more" in line and "finals" not in line:
                del line["more"]  # lines of its append went
            body = json.dumps(line, separators=(",", ":"), ensure_ascii=False)[:-1].encode()
            out.write(body + b',"crc":"%08x"}\n' % crc(body))


if __name__ == "__main__":
    main()
