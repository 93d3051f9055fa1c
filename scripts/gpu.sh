#!/usr/bin/env bash
# What is run on a machine with a GPU before a release: builds nothing, checks,
# measures, prints a short summary last and leaves everything else in a folder.
#
#   make cuda cuda-tests        # on the build machine
#   scripts/gpu.sh OUT [GROUP]  # on the GPU machine, in the repository
#
# GROUP is the group of shapes to sweep (fast-llm). Cubins go to OUT/cubin, so a
# fresh OUT is a cold start. Stages can be chosen: STAGES="conformance sweep".
set -uo pipefail
out=${1:?usage: scripts/gpu.sh OUT [GROUP]}
group=${2:-fast-llm}
stages=${STAGES:-conformance selftest verify sanitize rates sweep}
bin=bin/normbench-cuda
export NORMBENCH_REQUIRE_CUDA=1 NORMBENCH_CACHE=${NORMBENCH_CACHE:-$out/cubin}
mkdir -p "$out"
summary=()
failed=0

# stage NAME COMMAND...: run it with its output in OUT/NAME.txt.
stage() {
	local name=$1 start=$SECONDS
	shift
	if "$@" >"$out/$name.txt" 2>&1; then
		summary+=("ok      $name ($((SECONDS - start)) s): $(tail -n 1 "$out/$name.txt" | cut -c 1-150)")
	else
		summary+=("FAILED  $name ($((SECONDS - start)) s): $(grep -m 1 -iE 'error|fail' "$out/$name.txt" | cut -c 1-150)")
		failed=1
	fi
}

# sanitized TOOL: the corner shapes under compute-sanitizer.
sanitized() {
	local log=$out/$1.log
	$bin verify --shapes 1x1,3x541,5x1024,2x4100,300x256 --repeats 1 --timeout 5m \
		--worker "compute-sanitizer --tool $1 --log-file $log $bin worker --device cuda:0" &&
		grep 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$log"
}

for s in $stages; do
	case $s in
	conformance)
		stage driver bin/driver.test -test.v
		stage nvml bin/nvml.test -test.v -test.run 'TestARealGPUIsRead|TestLibrariesAreNotLinked'
		stage conformance bin/cuda.test -test.v
		;;
	selftest) stage selftest $bin selftest --device cuda ;;
	verify)
		stage verify-smoke $bin verify --device cuda --all-configs --shapes smoke --dtype bf16,fp16,fp32
		stage verify-odd $bin verify --device cuda --all-configs --shapes odd
		stage verify-te $bin verify --device cuda --shapes te
		;;
	sanitize)
		for tool in memcheck racecheck; do
			# The worker is the process that drives the GPU; its standard output
			# is the protocol, so the tool reports into a file.
			stage $tool sanitized $tool
		done
		;;
	rates)
		rm -rf "$out/cubin"
		stage rate-cold $bin sweep --device cuda --shapes 4096x8192,16384x2048 --out "$out/rate1"
		stage rate-warm $bin sweep --device cuda --shapes 4096x8192,16384x2048 --out "$out/rate2"
		for r in cold warm; do summary+=("        $r cubins: $(grep 'variants/min,' "$out/rate-$r.txt" | tail -n 1 | cut -c 1-150)"); done
		rm -rf "$out/rate1" "$out/rate2"
		;;
	sweep) stage sweep $bin sweep --device cuda --shapes "$group" --out "$out/results" ;;
	esac
done
printf '%s\n' "${summary[@]}"
exit $failed
