#!/usr/bin/env python3
"""README's commands for a GPU, run in the page's order on a machine that has one.

    scripts/readme-gpu.py [--binary bin/normbench-cuda] [--seconds N] [--list] [PAGE]

Each command that names `--device cuda` runs from the root of the repository, on a terminal, and
writes below out/. One that takes longer than N seconds (default: no limit) is stopped by INT,
which it must answer with exit code 130. The table has the exit code and the longest time in which
nothing was printed; the script exits 1 if a code is not as the page says, or a silence is above
10 s. Commands through ssh are left out.
"""

import argparse
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time

SILENCE = 10


def commands(text):
    """The lines behind "$ " in console blocks, with their line numbers, continued lines joined."""
    found, inside, lines = [], False, text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("```"):
            inside = not inside and line == "```console"
        elif inside and line.startswith("$ "):
            command, k = line[2:], i
            while command.endswith("\\"):
                k += 1
                command = command[:-1] + " " + lines[k].strip()
            found.append((i + 1, shlex.split(command)))
    return found


def wanted(words):
    return words[0] == "normbench" and any(w.startswith("cuda") for w in words) and "--worker" not in words


def watch(words, seconds):
    """Runs a command on a terminal: exit code, seconds, longest silence in them, what it printed."""
    master, slave = pty.openpty()
    start = last = time.monotonic()
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    quiet, stopped, printed = 0.0, False, b""
    while True:
        ready, _, _ = select.select([master], [], [], 0.1)
        now = time.monotonic()
        if ready:
            try:
                chunk = os.read(master, 1 << 16)
            except OSError:  # the terminal's last user is gone
                break
            if not chunk:
                break
            printed, quiet, last = printed + chunk, max(quiet, now - last), now
        if seconds and now - start > seconds and not stopped:
            stopped = True
            child.send_signal(signal.SIGINT)
    os.close(master)
    code = child.wait()
    end = time.monotonic()
    return code, end - start, max(quiet, end - last), stopped, printed


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("page", nargs="?", default="README.md")
    parser.add_argument("--binary", default="bin/normbench-cuda")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--log", help="a folder for what each command prints")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    options = parser.parse_args()
    with open(options.page, encoding="utf-8") as page:
        chosen = [(line, words) for line, words in commands(page.read()) if wanted(words)]
    if options.list:
        for line, words in chosen:
            print(line, shlex.join(words))
        return 0
    if not chosen:
        print("readme-gpu.py: error: no command for a GPU in", options.page, file=sys.stderr)
        return 2
    bad = 0
    print("line  exit  seconds  silent  command")
    for line, words in chosen:
        code, took, quiet, stopped, printed = watch([options.binary] + words[1:], options.seconds)
        if options.log:
            os.makedirs(options.log, exist_ok=True)
            with open(os.path.join(options.log, f"line{line}.txt"), "wb") as log:
                log.write(printed)
        wrong = code not in ((130, 0) if stopped else (0,)) or quiet > SILENCE
        bad += wrong
        what = re.sub(r"\s+", " ", shlex.join(words))
        print(f"{line:4}  {code:4}  {took:7.1f}  {quiet:6.1f}  {what}{'  <-' if wrong else ''}", flush=True)
    print(f"{len(chosen)} commands, {bad} not as the page says")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
