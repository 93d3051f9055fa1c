#!/usr/bin/env bash
# Measures the checkout beside other libraries, adds the run to a history, and prints what moved: docs/history.md
#   17 3 * * *  cd /srv/kernels && git pull -q && HISTORY=/srv/history.jsonl examples/ci/history.sh
# What stands behind it goes to `normbench compare`.
set -euo pipefail
normbench=${NORMBENCH:-normbench} file=${HISTORY:-history.jsonl}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
code=0
"$normbench" compare peer:best base --live --out "$out" "$@" >"$out/table.txt" || code=$?
[ "$code" -le 1 ] || [ "$code" = 3 ] || exit "$code" # 4: the machine is unfit, so that it is no run of the history
find "$out" -name 'compare-*.json' -exec \
	"$normbench" history add {} --file "$file" --commit "$(git rev-parse --short HEAD)" \;
"$normbench" history --file "$file" --since 30 --html "${file%.jsonl}.html"
