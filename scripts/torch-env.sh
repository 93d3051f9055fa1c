#!/usr/bin/env bash
# Installs PyTorch and transformers from PyPI into a venv (5 GB, as PyTorch brings CUDA's libraries), for the nightly
# tests of models and captures, which run on a CPU. Other versions have other modules.
#
#   eval "$(scripts/torch-env.sh [DIR])"
#
# DIR is .cache/torch by default. Standard output is shell code that exports NORMBENCH_TORCH. Errors are one line.
set -euo pipefail

die() {
	echo "torch-env.sh: error: $*" >&2
	exit 1
}

[ $# -le 1 ] || die "usage: torch-env.sh [DIR]"
wheels=(torch==2.11.0 transformers==5.17.0)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${1:-$root/.cache/torch}
complete=$dir/${wheels[0]}-${wheels[1]}
if [ ! -f "$complete" ]; then
	python3 -m venv "$dir" || die "cannot make a venv in $dir"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "${wheels[@]}" >&2 ||
		die "cannot install ${wheels[*]}"
	touch "$complete"
fi
printf 'export NORMBENCH_TORCH=%q\n' "$dir/bin/python"
