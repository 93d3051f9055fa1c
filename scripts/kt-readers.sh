#!/usr/bin/env bash
# Sweeps one small problem on the cpu, exports it, and reads the exports with pinned
# kernel_tuner (kt-readers.py, and kt-compare.py of lab/scripts).
#
#   scripts/kt-readers.sh [NORMBENCH]
#
# NORMBENCH (default: built from here) makes the exports. kernel_tuner comes from PyPI into
# .cache/kt once. NORMBENCH_KT_PYTHON=PYTHON names a Python that has it. Without network
# it fails, unless NORMBENCH_SKIP_KT=1 says to skip it. Errors are one line.
set -euo pipefail

die() {
	echo "kt-readers.sh: error: $*" >&2
	exit 1
}

[ $# -le 1 ] || die 'usage: kt-readers.sh [NORMBENCH]'
if [ "${NORMBENCH_SKIP_KT:-}" = 1 ]; then
	echo 'kt-readers.sh: SKIPPED by NORMBENCH_SKIP_KT=1'
	exit 0
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

python=${NORMBENCH_KT_PYTHON:-$root/.cache/kt/bin/python}
if [ -z "${NORMBENCH_KT_PYTHON:-}" ] && [ ! -f "$root/.cache/kt/complete" ]; then
	rm -rf "$root/.cache/kt"
	mkdir -p "$root/.cache"
	# Without pip of its own a venv needs no package of the system's but Python.
	python3 -m venv --without-pip "$root/.cache/kt" || die 'cannot make a venv'
	python3 -m pip --python "$python" install --quiet --disable-pip-version-check --prefer-binary \
		kernel_tuner==1.5.0 ||
		die 'cannot install kernel_tuner; NORMBENCH_SKIP_KT=1 skips this'
	touch "$root/.cache/kt/complete"
fi

normbench=${1:-$tmp/normbench}
[ $# = 1 ] || (cd "$root" && go build -o "$normbench" ./cmd/normbench)
cd "$tmp"
# Of two families, and of one.
for families in rms_bwd/reg_persist,rms_bwd/two_pass rms_bwd/reg_persist; do
	"$normbench" sweep --device cpu --shapes 64x256 --samples 8 --warm --seed 1 --op rmsnorm --pass bwd --strategy grid --family "$families" --out "$families" >log 2>&1 ||
		die "the sweep failed: $(tail -n 2 log)"
	"$normbench" export "$families" --format kt-cache --out "$families/kt-cache" >log 2>&1 || die "the export failed: $(tail -n 2 log)"
	cache=("$families"/kt-cache/rmsnorm_bwd_bf16_64x256/*.json)
	out=$(timeout 60 "$python" "$root/lab/scripts/kt-compare.py" "${cache[@]}" --seeds 2 --strategies random_sample,genetic_algorithm) &&
		grep -q '^| genetic_algorithm | [-0-9.]* |' <<<"$out" || die "kt-compare.py on the export of $families: $out"
	timeout 60 "$python" "$root/scripts/kt-readers.py" "${cache[@]}" || die "kernel_tuner does not read the export of $families (60 s at most)"
done
