"""What a test in Python finds."""

import sys

failed = 0


def want(ok: bool, what: str) -> None:
    global failed
    if not ok:
        failed += 1
        print("FAIL", what)


def begin(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def finish(note: str = "") -> None:
    print("FAILED" if failed else "ok", note)
    sys.exit(1 if failed else 0)
