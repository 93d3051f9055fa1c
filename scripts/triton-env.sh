#!/usr/bin/env bash
# Installs Triton (190 MB) and numpy from PyPI into a venv, for tests on machines without it. It compiles without a GPU.
# Liger-Kernel, whose kernels examples/public/liger hosts, comes without PyTorch: a stub in kernels/families/manifest/testdata imports.
#
#   eval "$(scripts/triton-env.sh [DIR])"
#
# DIR is .cache/triton by default. Standard output is shell code that exports NORMBENCH_PYTHON. Errors are one line.
set -euo pipefail

die() {
	echo "triton-env.sh: error: $*" >&2
	exit 1
}

[ $# -le 1 ] || die "usage: triton-env.sh [DIR]"
wheels=(triton==3.6.0 "numpy<2.4") # whose interpreter takes no later one
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${1:-$root/.cache/triton}
kernels=(liger-kernel==0.8.5 packaging)
complete=$dir/${kernels[0]}
if [ ! -f "$complete" ]; then
	python3 -m venv "$dir" || die "cannot make a venv in $dir"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "${wheels[@]}" >&2 ||
		die "cannot install ${wheels[*]}"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps "${kernels[@]}" >&2 ||
		die "cannot install ${kernels[*]}"
	touch "$complete"
fi
printf 'export NORMBENCH_PYTHON=%q\n' "$dir/bin/python"
