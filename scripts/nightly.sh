#!/usr/bin/env bash
# What .ci/run leaves out as it takes long: the race detector, fuzzing, every class of faults, pages
# in a browser, every simulation and emulated kernel, three CUDA versions, kernel_tuner's readers, wheels, sshd and
# Slurm.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/ci-tools.sh
have chromium chromium

step 'NVRTC, as a package'
eval "$(scripts/nvrtc-env.sh)"
export NORMBENCH_REQUIRE_NVRTC=1 NORMBENCH_REQUIRE_CXX=1 NORMBENCH_REQUIRE_BROWSER=1 NORMBENCH_CACHE=$PWD/.cache/cubin

step 'vet against the headers of CUDA 11.8, 12 and 13'
make -s cuda-headers cuda
(eval "$(scripts/cuda-env.sh 13)" && go test -tags cuda ./kernels/devices/cuda/... ./cmd/normbench -short)

step 'wheels, and one of them installed'
rm -rf dist
scripts/wheel.sh
scripts/wheel.sh try dist/*x86_64.whl

step 'comparing and reporting build everywhere'
cross {linux,darwin,windows}/{amd64,arm64}

step 'workers behind a real sshd, whose connection freezes for a minute'
have /usr/sbin/sshd openssh-server
NORMBENCH_REQUIRE_SSHD=1 go test -count 1 -timeout 20m -run 'TestWorkerBehindSSHDoesAllThatADeviceDoes|TestFrozenConnectionCostsOneProblem' ./kernels/devices/cpu ./cmd/normbench

step 'a sweep on a real Slurm, in shards and by workers'
scripts/slurm-nightly.sh

step 'exports read by kernel_tuner'
scripts/kt-readers.sh

step 'the job for Kubernetes, by its types'
(cd sweep/shard/k8stest && go vet ./... && go test -count 1 ./...)

step "models and captures, in PyTorch's and transformers' own modules"
eval "$(scripts/torch-env.sh)"
NORMBENCH_REQUIRE_TORCH=1 go test -count 1 -timeout 60m -run 'TestModules|TestCapture|TestPageOfPython' -v ./sweep/models ./cmd/normbench

step 'fuzz targets, their seeds and 5000 inputs each'
# By count: with a time, go test sometimes fails by "context deadline exceeded"
# when it runs out (golang/go issue 75804).
for f in $(grep -rl --include=*_test.go '^func Fuzz' . | xargs grep -H '^func Fuzz' | sed -E 's|^./(.*)/[^/]*:func (Fuzz[A-Za-z0-9]*).*|\1:\2|'); do
	pkg=${f%%:*} name=${f##*:}
	# A failure is printed whole: its input is nowhere else.
	out=$(go test -run '^$' -fuzz "^$name\$" -fuzztime 5000x -fuzzminimizetime 0x "./$pkg" 2>&1) || {
		echo "$out"
		git ls-files -o -- "$pkg/testdata/fuzz" | xargs -r cat
		exit 1
	}
	tail -n 2 <<<"$out"
done

step 'tests with the race detector'
# README's commands and the longest tests run without it, below.
go test -race -short -timeout 30m ./...

step 'the faults of lab/notes/reliability.md'
make -s faults

step 'power cuts of every writer, and the lines that tests must hold'
NORMBENCH_POWERCUTS=400 go test -count 1 -timeout 20m -run PowerCut ./sweep/record
NORMBENCH_POWERCUTS=10 go test -count 1 -timeout 20m -run PowerCut ./cmd/normbench
make -s mutants

step 'faults in the kernels, others each day'
make -s kernel-mutants N=8 SEED="$(date -u +%F)"

step 'all tests, and the whole emulator'
make -s test-all

nothing_left
echo 'all checks passed'
