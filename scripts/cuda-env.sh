#!/usr/bin/env bash
# Prepares the CUDA driver headers and a libcuda.so to link against, so that the cuda-tagged
# packages build on a machine with neither a GPU nor a toolkit.
#
#   eval "$(scripts/cuda-env.sh VERSION [DIR])"      VERSION is 11.8, 12 or 13
#
# DIR (default .cache/cuda/VERSION) gets
#   include/      the headers: links into an installed toolkit of that version ($CUDA_HOME,
#                 /usr/local/cuda), else those of NVIDIA's nvidia-cuda-runtime wheel
#   shim/cuda.h   for CUDA 13 only: gorgonia.org/cu calls six functions whose signatures changed
#   lib/          libcuda.so, which only resolves names at link time and is never loaded
# Standard output is shell code that exports CGO_CFLAGS and CGO_LDFLAGS. Errors are one line.
set -euo pipefail

die() {
	echo "cuda-env.sh: error: $*" >&2
	exit 1
}

[ $# -ge 1 ] && [ $# -le 2 ] || die "usage: cuda-env.sh 11.8|12|13 [DIR]"
version=$1
case $version in
11.8) major=11 wheel=nvidia-cuda-runtime-cu11==11.8.89 ;;
12) major=12 wheel=nvidia-cuda-runtime-cu12==12.9.79 ;;
13) major=13 wheel=nvidia-cuda-runtime==13.0.96 ;;
*) die "unknown CUDA version '$version', want 11.8, 12 or 13" ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${2:-$root/.cache/cuda/$version}
mkdir -p "$dir" || die "cannot make $dir"
dir=$(cd "$dir" && pwd)
case $dir in *[[:space:]\'\"]*) die "cgo flags cannot hold the path '$dir'" ;; esac

# matches HEADER: is it the cuda.h of the version asked for? CUDA_VERSION is 1000*major + 10*minor.
matches() {
	local number
	number=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\)$/\1/p' "$1" 2>/dev/null) || return 1
	case $version in
	11.8) [ "$number" = 11080 ] ;;
	*) [ -n "$number" ] && [ $((number / 1000)) = "$major" ] ;;
	esac
}

# installed: the include folder of a toolkit of this version, if there is one.
installed() {
	local home
	for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda "/usr/local/cuda-$version" /usr/local/cuda-"$version".*; do
		if [ -n "$home" ] && matches "$home/include/cuda.h"; then
			(cd "$home/include" && pwd)
			return
		fi
	done
	return 1
}

make_include() {
	local include tmp
	if include=$(installed); then
		ln -sfn "$include" "$dir/include"
		return
	fi
	tmp=$(mktemp -d "$dir/tmp.XXXXXX")
	# shellcheck disable=SC2064 # the name is wanted as it is now
	trap "rm -rf '$tmp'" EXIT
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$tmp" "$wheel" >&2 ||
		die "cannot download $wheel (a CUDA $version toolkit in CUDA_HOME would do as well)"
	python3 -m zipfile -e "$tmp"/*.whl "$tmp/wheel" || die "cannot unpack $wheel"
	for include in "$tmp"/wheel/nvidia/*/include; do
		matches "$include/cuda.h" || die "$wheel has no cuda.h of CUDA $version"
		rm -rf "$dir/include"
		mv "$include" "$dir/include"
	done
	rm -rf "$tmp"
	trap - EXIT
}

# CUDA 13 made newer forms of these the default. cu needs the older ones; the driver still has
# cuCtxCreate_v2, and normbench uses none of the others.
make_shim() {
	mkdir -p "$dir/shim"
	cat >"$dir/shim/cuda.h.tmp" <<'SHIM'
/* Written by cuda-env.sh: CUDA 13's cuda.h with six names in the form gorgonia.org/cu v0.9.6 calls. */
#ifndef NORMBENCH_CUDA_SHIM_H
#define NORMBENCH_CUDA_SHIM_H
#include_next <cuda.h>

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);
#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2

static inline CUresult nb_cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice dev) {
  (void)p, (void)n, (void)advice, (void)dev;
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuMemAdvise
#define cuMemAdvise nb_cuMemAdvise

static inline CUresult nb_cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice dev, CUstream s) {
  (void)p, (void)n, (void)dev, (void)s;
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuMemPrefetchAsync
#define cuMemPrefetchAsync nb_cuMemPrefetchAsync

static inline CUresult nb_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
  (void)g, (void)from, (void)to, (void)n;
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuGraphAddDependencies
#define cuGraphAddDependencies nb_cuGraphAddDependencies

static inline CUresult nb_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
  (void)g, (void)from, (void)to, (void)n;
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuGraphGetEdges
#define cuGraphGetEdges nb_cuGraphGetEdges

static inline CUresult nb_cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
  (void)g, (void)from, (void)to, (void)n;
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuGraphRemoveDependencies
#define cuGraphRemoveDependencies nb_cuGraphRemoveDependencies
#endif
SHIM
	mv "$dir/shim/cuda.h.tmp" "$dir/shim/cuda.h"
}

# The stub defines every name of the form cuXxx in the header, comments and all: more than there
# are functions, and so each version (cuMemAlloc and cuMemAlloc_v2) of each of them.
make_stub() {
	mkdir -p "$dir/lib"
	grep -oE '\bcu[A-Z][A-Za-z0-9]*(_v[0-9]+)?(_pt[ds]sz?)?\b' "$dir/include/cuda.h" | sort -u |
		sed 's/.*/int &(void) { return 3; }/' >"$dir/lib/stub.c" || die "cannot read $dir/include/cuda.h"
	"${CC:-gcc}" -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$dir/lib/libcuda.so.tmp" "$dir/lib/stub.c" ||
		die "cannot compile $dir/lib/stub.c with ${CC:-gcc}"
	mv "$dir/lib/libcuda.so.tmp" "$dir/lib/libcuda.so"
}

matches "$dir/include/cuda.h" || make_include
cflags="-I$dir/include"
if [ "$major" = 13 ]; then
	[ "$dir/shim/cuda.h" -nt "${BASH_SOURCE[0]}" ] || make_shim
	cflags="-I$dir/shim $cflags"
fi
[ "$dir/lib/libcuda.so" -nt "${BASH_SOURCE[0]}" ] || make_stub

# Go puts these before the #cgo flags of the packages, so the headers here win over those that cu
# asks for (/usr/local/cuda/include), and --as-needed comes before its -lcuda: package
# kernels/devices/cuda/driver defines all the names itself and finds the driver at run time, so nothing
# of libcuda.so is needed and the program starts on machines without a driver. -O2 -g are Go's
# defaults, which setting these variables would drop.
# go-nvml declares what NVML deprecated, and leaves NVML's symbols to be found
# when they are first called, which only lazy binding allows.
echo "export CGO_CFLAGS='-O2 -g $cflags -Wno-deprecated-declarations'"
echo "export CGO_LDFLAGS='-O2 -g -L$dir/lib -Wl,--as-needed -Wl,-z,lazy'"
