#!/usr/bin/env bash
# What public kernels leave on the table: each family of examples/public by its library's own launch and at its best,
# with normbench's default beside them.
#
#   make cuda                                      # on the build machine
#   lab/scripts/public-gpu.sh STATE SECONDS [LIBRARY...]   # on the GPU machine
#   mkdir -p results/CARD/public && cp STATE/public.* STATE/versions.txt results/CARD/public    # anywhere
#
# A LIBRARY is a folder of examples/public; without one all are. Its packages are those of PYTHON (python3). PYTHONPATH
# and NORMBENCH_INCLUDE name checkouts, as examples/public/README.md says. What is not there is left out, with the reason
# in left-out.txt. A family is swept for BUDGET (60s) over SHAPES, eight of 64 MiB; the sweep checks every config that it
# times, and its finals are paired. STATE/FAMILY.json is what it found; a family that has one is done, so the same command
# goes on. At the end public-table.py writes public.txt, public.csv and public.svg of all that ran, with versions.txt.
# MANIFESTS, DEVICE (cuda) and MORE (further flags) are for a trial on a machine without a GPU. Exit 3: there is more to do.
set -euo pipefail
usage='usage: lab/scripts/public-gpu.sh STATE SECONDS [LIBRARY...]'
state=${1:?$usage} limit=${2:?$usage} rc=0
shift 2
bin=${BIN:-bin/normbench-cuda} python=${PYTHON:-python3} device=${DEVICE:-cuda} manifests=${MANIFESTS:-examples/public}
shapes=${SHAPES:-262144x128,65536x512,32768x1024,16384x2048,8192x4096,4096x8192,2048x16384,1024x32768}
[ $# -gt 0 ] || set -- $(cd "$manifests" && ls -d */)
export NORMBENCH_CACHE=${NORMBENCH_CACHE:-$state/cubin} NORMBENCH_PYTHON=$python
mkdir -p "$state"
: >"$state/left-out.txt"

# flags FAMILY: the problems that a family is for.
flags() {
	case $1 in rms_*) echo --op rmsnorm ;; ln_*) echo --op layernorm ;; esac
	case $1 in *_fwd/*) echo --pass fwd ;; *_bwd/*) echo --pass bwd ;; esac
	case $1 in
	*fused_add | *triton_add) echo --residual ;;
	*_bwd/unsloth) echo --no-dw ;;
	*_bwd/unsloth_gemma) echo --no-dw --zero-centered ;;
	esac
}

# measure FAMILY FOLDER: sweep it, unless it is done. It returns 3 where the time is up.
measure() {
	local file=$state/${1//\//-}.json log=$state/${1//\//-}.log code=0
	[ ! -e "$file" ] || return 0
	[ $((limit - SECONDS)) -ge 120 ] || return 3
	echo "== $1, $((limit - SECONDS)) s left" >&2
	# shellcheck disable=SC2046,SC2086
	timeout --signal INT --kill-after 10 $((limit - SECONDS - 15)) "$bin" sweep --family "$1" --kernels "$2" \
		--device "$device" --shapes "$shapes" --budget "${BUDGET:-60s}" --out "$state/out" \
		--format json $(flags "$1") ${MORE:-} 2> >(tee "$log" >&2) >"$file.part" || code=$?
	case $code in
	0 | 1) mv "$file.part" "$file" ;;
	124 | 130 | 137) rm -f "$file.part" && return 3 ;;
	*) rm -f "$file.part" && echo "$1: $(grep -m 1 'error: ' "$log" || echo "exit code $code")" >>"$state/left-out.txt" ;;
	esac
}

for library; do
	folder=$manifests/${library%/}
	for family in $(sed -n 's/^name: //p' "$folder"/*.yaml); do
		for one in $(case $family in OP_*) echo "rms_${family#OP_} ln_${family#OP_}" ;; *) echo "$family" ;; esac); do
			measure "$one" "$folder" || { rc=$? && break 3; }
		done
	done
done

{
	"$bin" version | head -n 1
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no GPU: times of host stages'
	"$python" - <<'PY'
import importlib.metadata as m
for name in ("torch", "triton", "liger-kernel", "flash-attn", "flash-linear-attention", "fla-core", "unsloth", "Fast-LLM", "flashinfer-python", "vllm"):
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        pass
PY
	tr ':' '\n' <<<"${PYTHONPATH:-}:${NORMBENCH_INCLUDE:-}" | sort -u | while read -r folder; do
		[ -z "$folder" ] || echo "$folder $(git -C "$folder" log -1 --format='%h of %cs' 2>/dev/null || echo 'no checkout')"
	done
} >"$state/versions.txt"
"$python" lab/scripts/public-table.py "$state"
exit "$rc"
