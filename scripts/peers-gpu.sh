#!/usr/bin/env bash
# Measures the tuned table beside other libraries on one GPU: the files of results/DEVICE/peers.
#
#   make cuda                                # on the build machine
#   scripts/peers-gpu.sh check                # on the GPU machine: what is there, and whether it is right
#   scripts/peers-gpu.sh STATE SECONDS PART...  # measure, and stop after that many seconds
#   scripts/peers-gpu.sh pack STATE           # anywhere: write results/DEVICE/peers from STATE
#
# A PART is layernorm-bwd, rmsnorm-bwd, layernorm-fwd, rmsnorm-fwd, qk-norm-bwd or autotune.
# autotune has all four passes beside torch.compile's max-autotune too, which compiles for long.
# The state is one file for each PART, and `done`. The same command goes on from there, on another
# machine of that card too: with the same program, driver and peers. Exit 3: there is more to do.
#
# PYTHON names the Python with PyTorch (python3). Without a network Liger-Kernel is one pure wheel,
# put beside it:
#
#   pip download --no-deps -d wheels liger-kernel
#   python3 -m pip install --no-index --no-deps --target site wheels/*.whl; export PYTHONPATH=$PWD/site
#
# quack's compiler lies below: PYTHONPATH=$PWD/site:$PWD/site/nvidia_cutlass_dsl/dsl_packages, as
# nothing on PYTHONPATH has its .pth file read.
set -euo pipefail
usage='usage: scripts/peers-gpu.sh check | pack STATE | STATE SECONDS PART...'
python=${PYTHON:-python3}
bin=${BIN:-bin/normbench-cuda}
on=(--device cuda --python "$python")

check() {
	"$bin" list peers --python "$python"
	# Inputs, answers and tolerances against package reference, on the CPU and on the GPU.
	for cpu in 1 0; do
		NORMBENCH_PEERS_CPU=$cpu "$python" -B kernels/peers/testdata/against.py kernels/peers/testdata/reference.json
	done
	# A peer may answer wrong or refuse (1): that is a finding, not a failure of the harness.
	"$bin" verify peer:best base "${on[@]}" --shapes 1024x1024,4096x8192,29x17389 || [ $? = 1 ]
	"$bin" verify peer:torch peer:compile "${on[@]}" --shapes odd --dtype bf16,fp16,fp32 || [ $? = 1 ]
}

pack() {
	local state=$1 file name to
	for file in "$state"/*.json; do
		name=$(basename "$file" .json)
		to=results/$(device "$file")/peers
		mkdir -p "$to"
		gzip -9nc "$file" >"$to/$name.json.gz"
		"$bin" report "$to/$name.json.gz" >"$to/$name.txt"
		echo "$to/$name.json.gz"
	done
}

# device FILE: the ID of the device that a live compare ran on.
device() {
	"$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["run"]["device"]["id"])' "$1"
}

# chunk NAME SHAPES FLAGS...: measure what is missing of a part's group of shapes.
chunk() {
	local name=$1 shapes=$2 state_file=$state/$1.json rc=0 left
	shift 2
	grep -qx "$name $shapes" "$state/done" && return
	left=$((limit - SECONDS))
	[ "$left" -ge 40 ] || return 3
	if [ -f "$state_file" ]; then
		set -- "$@" --resume "$state_file"
	else
		set -- "$@" --out "$state/new"
	fi
	echo "== $name $shapes, $left s left" >&2
	# INT ends a compare in order. Its file is written after every cell.
	timeout --signal INT --kill-after 10 $((left - 15)) "$bin" compare peer:best "tuned:$tuned" "${on[@]}" \
		--rounds 12 --samples 10 --shapes "$shapes" "$@" >/dev/null || rc=$?
	mv "$state"/new/*/compare-*.json "$state_file" 2>/dev/null || true
	rm -rf "$state/new"
	case $rc in
	0) echo "$name $shapes" >>"$state/done" ;;
	124 | 130 | 137) return 3 ;;
	*) worst=$rc ;; # a cell without a time: asked for again next time, and the rest goes on
	esac
}

part() {
	local name=$1 groups="fast-llm te peers-more" flags=() group
	case $name in
	layernorm-* | rmsnorm-*) flags=(--op "${name%-*}" --pass "${name#*-}" --peers compile,liger,quack,fast-llm) ;;
	qk-norm-bwd) groups=qk-norm flags=(--pass bwd --peers compile,liger,quack,fast-llm) ;;
	autotune) flags=(--peers compile,compile-max,liger,quack,fast-llm) ;;
	*) echo "peers-gpu.sh: error: unknown part '$name'" >&2 && return 2 ;;
	esac
	for group in $groups; do
		chunk "$name" "$group" "${flags[@]}" || return
	done
}

case ${1:?$usage} in
check) check ;;
pack) pack "${2:?$usage}" ;;
*)
	state=$1 limit=${2:?$usage} worst=0
	shift 2
	export NORMBENCH_CACHE=${NORMBENCH_CACHE:-/tmp/peers-cubin}
	card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')
	tuned=results/$card/tuned.json
	mkdir -p "$state"
	touch "$state/done"
	for name; do
		part "$name" || exit
	done
	exit "$worst"
	;;
esac
