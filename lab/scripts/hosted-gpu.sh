#!/usr/bin/env bash
# Holds the hosted kernels of Liger-Kernel and Fast-LLM against their libraries. public-gpu.sh says what their authors left.
#   make cuda                                          # on the build machine
#   lab/scripts/hosted-gpu.sh STATE SECONDS [PART...]  # on the GPU machine, where the packages are installed
#   mkdir -p results/CARD/hosted && cp STATE/*.txt results/CARD/hosted    # anywhere
#
# A PART is
#   compile  what an empty cache costs: the 88 kernels of a backward of Liger-Kernel's, then all from the cache
#   verify   bf16, fp16 and fp32, odd columns, one row, and the shapes below
#   peers    the library's call against its hosted kernels, launched as it launches them; then kernel by kernel
#
# Tables are in STATE, those of single kernels in *-kernels.txt. What is done stays done: the same command goes on,
# a comparison at the shape at which it stopped. Exit 3: there is more to do.
# PYTHON names the Python with PyTorch (python3), LIBRARIES (liger fast-llm) what it has.
set -euo pipefail
usage='usage: lab/scripts/hosted-gpu.sh STATE SECONDS [PART...]'
state=${1:?$usage} limit=${2:?$usage} worst=0
shift 2
[ $# -gt 0 ] || set -- compile verify peers
bin=${BIN:-bin/normbench-cuda} python=${PYTHON:-python3}
shapes=262144x128,65536x512,32768x1024,16384x2048,8192x4096,4096x8192,2048x16384,1024x32768
export NORMBENCH_CACHE=${NORMBENCH_CACHE:-$state/cubin}
mkdir -p "$state"
declare -A ops=([rms]=rmsnorm [ln]=layernorm)

# run NAME COMMAND...: run it on a library's kernels for what is left of the time; its table is in STATE/NAME.txt.
# It returns 3 where the time was up.
run() {
	local name=$1 file=$state/$1.txt left=$((limit - SECONDS)) began=$SECONDS rc=0
	shift
	[ ! -e "$file" ] || return 0
	[ "$left" -ge 40 ] || return 3
	echo "== $name, $left s left" >&2
	timeout --signal INT --kill-after 10 $((left - 15)) "$bin" "$@" --kernels "examples/public/$library" --python "$python" |
		tee "$file.part" || rc=$?
	echo "== $name took $((SECONDS - began)) s, exit code $rc" >&2
	case $rc in
	0 | 1) mv "$file.part" "$file" ;; # 1: something is wrong, which the table says
	124 | 130 | 137) return 3 ;;
	esac
	[ "$worst" -ge "$rc" ] || worst=$rc
}

# duel NAME A B: compare B with A at the shapes; every sample is in STATE/NAME.json.
duel() {
	local name=$1 a=$2 b=$3 json=$state/$1.json rc=0
	if [ -e "$json" ]; then set -- --resume "$json"; else set -- --out "$state/new"; fi
	[[ $a != peer:* ]] || set -- --peer-jobs 0 "$@"
	run "$name" compare "$a" "$b" "${gpu[@]}" --live "$@" || rc=$?
	mv "$state"/new/*/compare-*.json "$json" 2>/dev/null || true
	rm -rf "$state/new"
	return "$rc"
}

part() {
	local file=$1-$library-$kind family=$kind/${library//-/_} rc=0
	local gpu=(--op "${ops[${kind%_*}]}" --pass "${kind#*_}" --shapes "$shapes" --device cuda --timeout 3m)
	case $1-$kind in
	compile-rms_bwd)
		[ "$library" = liger ] || return 0 # the other's space has thousands
		NORMBENCH_CACHE=$state/cold compile "$file-cold"
		NORMBENCH_CACHE=$state/cold compile "$file-cached"
		rm -rf "$state/cold"
		;;
	verify-rms_fwd) # of all its families in one go
		run "verify-$library" verify {rms,ln}_{fwd,bwd}/"${library//-/_}" --shapes "odd,$shapes" \
			--dtype bf16,fp16,fp32 --device cuda --timeout 3m
		;;
	peers-*)
		duel "$file" "peer:$library" "$family" || rc=$?
		[ ! "$state/$file.json" -nt "$state/$file-kernels.txt" ] ||
			"$python" lab/scripts/hosted-kernels.py "$state/$file.json" "examples/public/$library" | tee "$state/$file-kernels.txt"
		;;
	compile-* | verify-*) ;;
	*) echo "hosted-gpu.sh: error: unknown part '$1'" >&2 && return 2 ;;
	esac
	return "$rc"
}

# compile NAME: lay out and compile the space of a backward at one shape. Nothing is run, which it ends with.
compile() {
	local file=$state/$1.txt
	[ ! -e "$file" ] || return 0
	[ $((limit - SECONDS)) -ge 40 ] || return 3
	timeout --signal INT --kill-after 10 $((limit - SECONDS - 15)) "$bin" verify rms_bwd/liger --all-configs --host-only \
		--device cpu --op rmsnorm --pass bwd --shapes 8192x4096 --kernels examples/public/liger --python "$python" 2>&1 |
		tee >(cat >&2) | grep -v 'compiling, for' >"$file" || true
}

for part; do
	for library in ${LIBRARIES:-liger fast-llm}; do
		for kind in rms_fwd rms_bwd ln_fwd ln_bwd; do
			part "$part" || exit
		done
	done
done
exit "$worst"
