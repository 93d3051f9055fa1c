#!/usr/bin/env bash
# Fetches the NVRTC library (90 MB) and CUDA's headers (6 MB) from PyPI, for machines that have no CUDA toolkit.
#
#   eval "$(scripts/nvrtc-env.sh [DIR])"
#
# DIR (default .cache/nvrtc/13.0) gets the libraries, and include beside it the headers, where normbench looks. Standard output is shell code that exports
# NORMBENCH_NVRTC. LD_LIBRARY_PATH is not needed: normbench loads the builtins that lie beside
# NVRTC by itself. Errors are one line.
set -euo pipefail

die() {
	echo "nvrtc-env.sh: error: $*" >&2
	exit 1
}

[ $# -le 1 ] || die "usage: nvrtc-env.sh [DIR]"
wheel=nvidia-cuda-nvrtc==13.0.88
headers=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${1:-$root/.cache/nvrtc/13.0}
mkdir -p "$dir" || die "cannot make $dir"
dir=$(cd "$dir" && pwd)

if [ ! -f "$dir/libnvrtc.so.13" ]; then
	tmp=$(mktemp -d "$dir/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$tmp" "$wheel" >&2 ||
		die "cannot download $wheel"
	python3 -m zipfile -e "$tmp"/*.whl "$tmp/wheel" || die "cannot unpack $wheel"
	mv "$tmp"/wheel/nvidia/*/lib/libnvrtc-builtins.so.13.0 "$dir" || die "$wheel has no builtins"
	mv "$tmp"/wheel/nvidia/*/lib/libnvrtc.so.13 "$dir" || die "$wheel has no libnvrtc.so.13" # last: it marks the folder complete
	rm -rf "$tmp"
fi
if [ ! -d "$dir/../include" ]; then
	tmp=$(mktemp -d "$dir/tmp.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$tmp" "${headers[@]}" >&2 ||
		die "cannot download ${headers[*]}"
	for wheel in "$tmp"/*.whl; do python3 -m zipfile -e "$wheel" "$tmp/wheel" || die "cannot unpack $wheel"; done
	mv "$tmp/wheel/nvidia/cu13/include" "$dir/../include" || die "the wheels have no nvidia/cu13/include"
fi
printf 'export NORMBENCH_NVRTC=%q\n' "$dir/libnvrtc.so.13"
