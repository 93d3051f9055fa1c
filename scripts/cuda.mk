# Targets of the cuda build tag; included by the Makefile.
.PHONY: cuda wheel release install-cuda cuda-tests cuda-headers

# The program with the CUDA device. It runs without a driver too, so it must not be linked to one.
cuda: ## build bin/normbench-cuda (needs no GPU)
	@env=$$(scripts/cuda-env.sh 13) && eval "$$env" && \
	go build -tags cuda -o bin/normbench-cuda ./cmd/normbench
	@if readelf -d bin/normbench-cuda | grep -q 'NEEDED.*libcuda'; then \
		echo 'make cuda: error: bin/normbench-cuda is linked to libcuda, see kernels/devices/cuda/driver/symbols.h' >&2; exit 1; fi

wheel: ## build dist/*.whl for machines with Python and no Go, x86-64 and aarch64
	@scripts/wheel.sh

release: ## build dist/: wheels and archives of x86-64 and aarch64, and SHA256SUMS
	@scripts/wheel.sh release

install-cuda: ## go install normbench with the CUDA device
	@env=$$(scripts/cuda-env.sh 13) && eval "$$env" && go install -tags cuda ./cmd/normbench

cuda-tests: ## build the tests that need a GPU, for scripts/gpu.sh
	@env=$$(scripts/cuda-env.sh 13) && eval "$$env" && \
	go test -c -tags cuda -o bin/cuda.test ./kernels/devices/cuda && \
	go test -c -tags cuda -o bin/driver.test ./kernels/devices/cuda/driver && \
	go test -c -tags cuda -o bin/nvml.test ./kernels/devices/cuda/nvml

cuda-headers: ## vet the cuda build against the headers of CUDA 11.8, 12 and 13
	@for version in 11.8 12 13; do \
		echo "go vet -tags cuda ./... (CUDA $$version)"; \
		env=$$(scripts/cuda-env.sh $$version) && eval "$$env" && go vet -tags cuda ./... || exit 1; \
	done
