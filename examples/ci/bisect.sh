#!/usr/bin/env bash
# Finds the commit that made your kernels slower than those of GOOD: docs/history.md
#   cp examples/ci/bisect.sh /tmp/ && git bisect start BAD GOOD
#   GOOD=... git bisect run /tmp/bisect.sh --kernels mykernels --shapes 8192x4096
# What stands behind it goes to `normbench gate`. It is copied out of the checkout because git changes that.
set -u
: "${GOOD:?the commit that is fast}"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"${NORMBENCH:-normbench}" gate --base "$GOOD" --comment never --out "$out" "$@"
code=$?
case $code in
0 | 1) exit "$code" ;;  # git: as fast, slower
3 | 4 | 5) exit 125 ;;  # git: skip it. It is unclear, the machine is unfit, or a kernel answers wrong
*) exit 255 ;;          # git: stop. Wrong usage, or interrupted
esac
