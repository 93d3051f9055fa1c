#!/usr/bin/env bash
# What several GPUs of one host give a sweep, as in lab/notes/several-gpus.txt, and whether they find the same.
#
#   make cuda                              # on the build machine
#   lab/scripts/several-gpus.sh STATE      # on the GPU machine, in the repository
#
# 1. A sweep of SHAPES (default) on the first GPU, then on all, each with an empty cubin cache.
# 2. Live, where the two tables differ, on the first GPU and on the last.
# 3. `map learn` of LEARN (3m) on all.
# 4. A sweep on all, of which the last one's worker is killed after KILL (20) seconds.
#
# It prints a line for each command: its seconds, the longest time without a line on standard error, and what normbench
# said of itself. A part whose STATE/NAME.txt is there is done. COUNT says how many GPUs are used (all).
# WORKER, such as 'bin/normbench worker --device cpu', stands for each of COUNT GPUs, for a trial without one.
set -euo pipefail
state=${1:?usage: lab/scripts/several-gpus.sh STATE}
bin=${BIN:-bin/normbench-cuda} shapes=${SHAPES:-default}
count=${COUNT:-$(nvidia-smi --query-gpu=uuid --format=csv,noheader | wc -l)}
mkdir -p "$state"

# on FIRST LAST: the flags that choose these GPUs.
on() {
	local i list=()
	for ((i = $1; i <= $2; i++)); do
		if [ -n "${WORKER:-}" ]; then list+=(--worker "$WORKER"); else list+=("cuda:$i"); fi
	done
	if [ -n "${WORKER:-}" ]; then flags=("${list[@]}"); else flags=(--device "$(IFS=, && echo "${list[*]}")"); fi
}

# run NAME COMMAND...: its output goes to STATE/NAME.txt and its standard error to STATE/NAME.log.
run() {
	local name=$1 start=$SECONDS code=0
	shift
	[ ! -e "$state/$name.txt" ] || return 0
	"$@" 2> >(python3 -u -c '
import sys, time
last, most = time.monotonic(), 0.0
with open(sys.argv[1], "w") as log:
    for line in sys.stdin:
        most, last = max(most, time.monotonic() - last), time.monotonic()
        log.write(line)
    print(f"longest silence: {most:.1f} s", file=log)
' "$state/$name.log") >"$state/$name.part" || code=$?
	sleep 1 # until the log is whole
	mv "$state/$name.part" "$state/$name.txt"
	printf '%-12s %4d s, exit code %d, %s\n' "$name" $((SECONDS - start)) "$code" "$(tail -n 1 "$state/$name.log")"
	grep -hE 'variants measured|problems in|worker.*(died|killed|ended|lost)|down [0-9]+ of' "$state/$name.log" | tail -n 3 | sed 's/^/    /' || true
	tail -n 2 "$state/$name.txt" | sed 's/^/    /'
}

# sweep NAME FIRST LAST
sweep() {
	on "$2" "$3"
	NORMBENCH_CACHE=$state/cubin-$1 run "$1" "$bin" sweep "${flags[@]}" --shapes "$shapes" --out "$state/out-$1"
}

last=$((count - 1))
sweep one 0 0
sweep all 0 "$last"
tables=("tuned:$(ls "$state"/out-one/*/tuned.json)" "tuned:$(ls "$state"/out-all/*/tuned.json)")
export NORMBENCH_CACHE=$state/cubin-all
for gpu in 0 "$last"; do
	on "$gpu" "$gpu"
	run "live-$gpu" "$bin" compare "${tables[@]}" "${flags[@]}" --live --changed --shapes "$shapes"
done
on 0 "$last"
run learn "$bin" map learn "${flags[@]}" --budget "${LEARN:-3m}" --prior none --out "$state/out-learn" ${DOMAIN:+--domain "$DOMAIN"}
if [ ! -e "$state/killed.txt" ]; then
	(sleep "${KILL:-20}" && pkill -KILL -n -f "$(basename "$bin") worker") &
fi
sweep killed 0 "$last"
