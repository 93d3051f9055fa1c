#!/usr/bin/env bash
# Holds the hosted kernels of Liger-Kernel and Fast-LLM against their libraries, and says what their authors left.
#   make cuda                                     # on the build machine
#   scripts/hosted-gpu.sh STATE SECONDS [PART...]  # on the GPU machine, where the packages are installed
#   mkdir -p results/CARD/hosted && cp STATE/*.txt results/CARD/hosted    # anywhere
#
# A PART is
#   verify  bf16, fp16 and fp32, odd columns, one row, and the shapes below
#   peers   the library's call against its hosted kernels, launched as it launches them
#   left    the hosted backwards: a sweep of BUDGET (150) configs a shape, then its fastest against the library's
#           launch in interleaved rounds
#
# Tables are in STATE. What is done stays done: the same command goes on. Exit 3: there is more to do.
# PYTHON names the Python with PyTorch (python3), LIBRARIES (liger fast-llm) what it has.
set -euo pipefail
usage='usage: scripts/hosted-gpu.sh STATE SECONDS [PART...]'
state=${1:?$usage} limit=${2:?$usage} worst=0
shift 2
[ $# -gt 0 ] || set -- verify peers left
bin=${BIN:-bin/normbench-cuda}
shapes=262144x128,65536x512,32768x1024,16384x2048,8192x4096,4096x8192,2048x16384,1024x32768
export NORMBENCH_CACHE=${NORMBENCH_CACHE:-$state/cubin}
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')
mkdir -p "$state"
declare -A ops=([rms]=rmsnorm [ln]=layernorm)

# run NAME COMMAND...: run it on this kernel for what is left of the time; its table is in STATE/NAME.txt.
run() {
	local file=$state/$1.txt left=$((limit - SECONDS)) rc=0
	shift
	[ ! -e "$file" ] || return 0
	[ "$left" -ge 40 ] || exit 3
	echo "== $file, $left s left" >&2
	timeout --signal INT --kill-after 10 $((left - 15)) "$bin" "$@" --kernels "examples/$library" --op "${ops[${kind%_*}]}" \
		--pass "${kind#*_}" --device cuda --python "${PYTHON:-python3}" --timeout 3m | tee "$file.part" || rc=$?
	case $rc in
	0 | 1) mv "$file.part" "$file" ;; # 1: something is wrong, which the table says
	124 | 130 | 137) exit 3 ;;
	esac
	[ "$worst" -ge "$rc" ] || worst=$rc
}

for part; do
	for library in ${LIBRARIES:-liger fast-llm}; do
		for kind in rms_fwd rms_bwd ln_fwd ln_bwd; do
			family=$kind/${library//-/_} file=$part-$library-$kind out=$state/$part
			case $part-$kind in
			verify-*) run "$file" verify "$family" --shapes "odd,$shapes" --dtype bf16,fp16,fp32 ;;
			peers-*) run "$file" compare "peer:$library" "$family" --shapes "$shapes" --out "$out" ;;
			left-*_fwd) ;;
			left-*)
				run "$file-sweep" sweep --family "$family" --keep "$family" --shapes "$shapes" --budget "${BUDGET:-150}" --out "$out"
				run "$file" compare "$family" "$out/$card#$family" --live --shapes "$shapes" --out "$out"
				;;
			*) echo "hosted-gpu.sh: error: unknown part '$part'" >&2 && exit 2 ;;
			esac
		done
	done
done
exit "$worst"
