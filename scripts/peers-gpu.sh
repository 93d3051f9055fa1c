#!/usr/bin/env bash
# What shows, on a machine with a GPU, that the peers are measured right: what is
# there, that it answers right, what it takes, and one live A/B.
#
#   make cuda                     # on the build machine
#   scripts/peers-gpu.sh OUT      # on the GPU machine, in the repository
#
# PYTHON names the Python with PyTorch (python3). Without a network Liger-Kernel
# is one pure wheel, put beside it:
#
#   pip download --no-deps -d wheels liger-kernel
#   python3 -m pip install --no-index --no-deps --target site wheels/*.whl; export PYTHONPATH=$PWD/site
#
# quack's compiler lies below: PYTHONPATH=$PWD/site:$PWD/site/nvidia_cutlass_dsl/dsl_packages, as
# nothing on PYTHONPATH has its .pth file read.
#
# Stages can be chosen: STAGES="list verify".
set -uo pipefail
out=${1:?usage: scripts/peers-gpu.sh OUT}
stages=${STAGES:-list against verify odd bench compare}
python=${PYTHON:-python3}
bin=bin/normbench-cuda
export NORMBENCH_CACHE=${NORMBENCH_CACHE:-$out/cubin}
mkdir -p "$out"
summary=()
failed=0

# stage NAME CODES COMMAND...: run it with its output in OUT/NAME.txt; codes other
# than those fail it.
stage() {
	local name=$1 codes=$2 start=$SECONDS rc
	shift 2
	"$@" >"$out/$name.txt" 2>&1
	rc=$?
	if [[ " $codes " == *" $rc "* ]]; then
		summary+=("ok      $name ($((SECONDS - start)) s, code $rc): $(tail -n 1 "$out/$name.txt" | cut -c 1-150)")
	else
		summary+=("FAILED  $name ($((SECONDS - start)) s, code $rc): $(grep -m 1 -iE 'error|fail' "$out/$name.txt" | cut -c 1-150)")
		failed=1
	fi
}

peers="peer:torch peer:compile peer:compile-max"
on="--device cuda --python $python"
for s in $stages; do
	case $s in
	list) stage list 0 $bin list peers --python "$python" ;;
	against) # inputs, answers and tolerances against package reference, on the GPU too
		stage against-cpu 0 env NORMBENCH_PEERS_CPU=1 "$python" -B kernels/peers/testdata/against.py kernels/peers/testdata/reference.json
		stage against-cuda 0 env NORMBENCH_PEERS_CPU=0 "$python" -B kernels/peers/testdata/against.py kernels/peers/testdata/reference.json
		;;
	# A peer may answer wrong or refuse (1): that is a finding, not a failure of the harness.
	verify) stage verify "0 1" $bin verify peer:best base $on --shapes 1024x1024,4096x8192,29x17389 ;;
	odd) stage verify-odd "0 1" $bin verify $peers $on --shapes odd --dtype bf16,fp16,fp32 ;;
	bench) stage bench "0 1" $bin bench $peers base $on --shapes fast-llm --out "$out/results" ;;
	compare)
		# A peer against itself: nothing may be called.
		stage compare-same 0 $bin compare peer:torch peer:torch $on --shapes 8192x4096,1024x1024 --op rmsnorm --gate
		stage compare 0 $bin compare peer:best base $on --shapes peers --op rmsnorm --pass bwd --out "$out/results"
		;;
	esac
done
cat "$out/list.txt" 2>/dev/null
printf '%s\n' "${summary[@]}"
exit $failed
