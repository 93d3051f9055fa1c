# `make` prints what there is to make.
.DEFAULT_GOAL := help
.PHONY: help build test test-all nightly lint fuzz faults lab mutants kernel-mutants weights rates figures

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

build: ## build bin/normbench, without CUDA
	go build -o bin/normbench ./cmd/normbench

test: ## run the tests; of the long ones a part
	go test ./...

test-all: ## run all tests, and what `make test` samples in full
	NORMBENCH_TEST_ALL=1 go test -timeout 30m ./...

nightly: ## all that is checked: race detector, fuzzing, every fault, browser, CUDA 11.8 to 13 (an hour)
	scripts/nightly.sh

lint: build ## gofmt, vet, staticcheck, and normbench lint of the checked-in results
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "gofmt would change: $$bad" >&2; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	@# Sources have changed since the H100's results were measured: of lint's findings, its stale ones are let pass.
	@# When it is measured again, this is `bin/normbench lint results/*/tuned.json` alone.
	@found=$$(bin/normbench lint results/*/tuned.json); [ $$? -le 1 ] && \
		! echo "$$found" | grep -vE '^results/nvidia-h100-80gb-hbm3/[^:]*: stale: |: no findings$$'

fuzz: ## a short run of every fuzz target
	@for pkg in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
		echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime 10s $$pkg || exit 1; done; done

FAULTS ?= 1500
faults: ## inject faults and print what came of them: lab/notes/reliability.md (FAULTS=1500, SEED=1, CLASS=name)
	NORMBENCH_FAULTS=$(FAULTS) NORMBENCH_FAULT_SEED=$(or $(SEED),1) NORMBENCH_FAULT_CLASS='$(CLASS)' go test -count 1 -timeout 30m -run '^TestInjectedFaultsAreSurvived$$' -v ./cmd/normbench

mutants: ## change one line after the other that safety rests on: a test must fail of each (scripts/mutants.txt; M=pattern)
	scripts/mutants.sh '$(M)'

kernel-mutants: ## plant faults in the CUDA kernels: verify must find them, without a GPU (N=30, SEED=1: ten minutes)
	scripts/kernel-mutants.py --seed '$(or $(SEED),1)' -n $(or $(N),30)

weights: ## lines of each room, by language; tests apart
	@git ls-files '*.go' '*.cu' '*.cuh' '*.c' '*.h' '*.cpp' '*.py' '*.sh' '*.yaml' | grep -vE '^(results|examples)/|testdata/' | xargs wc -l | awk '\
		$$2 == "total" { next } \
		{ n = split($$2, d, "/"); room = n > 2 ? d[1] "/" d[2] : n > 1 ? d[1] : "."; ext = $$2; sub(/.*\./, "", ext); \
		  if ($$2 ~ /_test\.go$$/ || $$2 ~ /^(kernels\/devices\/devicetest|internal\/(assert|durable\/powercut))\//) ext = "test"; \
		  sum[room " " ext] += $$1 } \
		END { for (k in sum) { split(k, f, " "); printf "%-24s %-5s %6d\n", f[1], f[2], sum[k] } }' | sort

figures: ## write the measured numbers of the pages anew from results/ (docs/figures.txt says where each is from)
	go test ./cmd/normbench -count 1 -run '^TestFiguresOfPagesFollowFromResults$$' -update

LAB ?= results/nvidia-h200/grids
lab: ## tables of lab/notes/search.md over recorded grids and kernel_tuner caches (LAB="FOLDER CACHE.json", SEEDS=24, PLOT=x.svg)
	NORMBENCH_LAB="$(LAB)" NORMBENCH_LAB_SEEDS=$(SEEDS) NORMBENCH_LAB_PLOT=$(PLOT) go test ./lab/study -count 1 -timeout 60m -run '^TestStrategiesAreComparedOnRecordedSpaces$$' -v

SWEEPS ?= 40
rates: ## how often a first table on this machine is wrong (SWEEPS=40: an hour; on a quiet machine)
	NORMBENCH_RATES=$(SWEEPS) go test ./lab -count 1 -timeout 240m -run '^TestFirstTableIsRarelyWrong$$' -v

include scripts/cuda.mk
