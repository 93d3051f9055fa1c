#!/usr/bin/env bash
# What docs/models.md promises, on a machine with a GPU and a Python with torch and transformers:
#
#   make cuda cuda-tests                 # on the build machine
#   lab/scripts/model-gpu.sh OUT [MODEL] # on the GPU machine, in the repository
#
# 1. A sweep of MODEL (llama3-8b) with 8192 tokens on 8 tensor ranks ends within 60 s.
# 2. Its line per step, less the launches, is within 5% of a loop of those launches.
# 3. A captured training of 3 steps has the problems and calls of its config, and runs as fast as without.
# 4. Both against PyTorch, per step: the tables for a page.
set -uo pipefail
out=${1:?usage: lab/scripts/model-gpu.sh OUT [MODEL]}
model=${2:-llama3-8b}
python=${PYTHON:-python3}
bin=${BIN:-bin/normbench-cuda}
export NORMBENCH_CACHE=${NORMBENCH_CACHE:-$out/cubin}
mkdir -p "$out"
of=(--model "$model" --tokens 8192 --tp 8)
failed=0
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }
fail() { say "FAILED  $*"; failed=1; }
: >"$out/summary.txt"

start=$SECONDS
"$bin" sweep "${of[@]}" --device cuda --out "$out/results" --format json >"$out/sweep.json" 2>"$out/sweep.log" ||
	fail "sweep: $(tail -n 1 "$out/sweep.log")"
took=$((SECONDS - start))
say "sweep of $model: $took s"
[ $took -le 60 ] || fail "the sweep took $took s, more than 60"

"$bin" list models "${of[@]}" --format json >"$out/calls.json"
NORMBENCH_STEP=$PWD/$out/sweep.json NORMBENCH_STEP_CALLS=$PWD/$out/calls.json \
	bin/cuda.test -test.v -test.run '^TestStepTakesWhatItsLoopTakes$' >"$out/loop.txt" 2>&1 || fail 'the loop of launches'
grep -E 'loops|calls of' "$out/loop.txt" | tee -a "$out/summary.txt"

# Plain and captured in turns: the seconds of each pair, the first of which warms up.
train() { "$python" lab/scripts/model-train.py "$out/llama"; }
for i in 0 1 2 3; do
	plain=$( { time -p STEPS=200 train >/dev/null; } 2>&1 | awk '/^real/ {print $2}')
	hooked=$( { time -p STEPS=200 "$bin" capture --out "$out/long.yaml" -- "$python" lab/scripts/model-train.py \
		"$out/llama" >/dev/null; } 2>&1 | awk '/^real/ {print $2}')
	say "200 steps of training: $plain s, captured $hooked s"
done
"$bin" capture --out "$out/captured.yaml" --steps 3 -- "$python" lab/scripts/model-train.py "$out/llama" \
	>"$out/train.txt" 2>&1 || fail 'capture'
"$bin" capture --out "$out/checkpointed.yaml" --steps 3 -- "$python" lab/scripts/model-train.py "$out/llama" \
	--checkpoint >>"$out/train.txt" 2>&1 || fail 'capture of checkpointing'
"$bin" list models --model "$out/llama" --tokens 2048 --format csv >"$out/llama.csv"
"$python" - "$out" <<'PY' | tee -a "$out/summary.txt" || failed=1
import csv, re, sys
want = {}
for r in csv.DictReader(open(sys.argv[1] + "/llama.csv")):
    want[r["problem"]] = want.get(r["problem"], 0) + 3 * int(r["calls"])
def got(name):
    seen = {}
    for p, n in re.findall(r"problem: (\S+), calls: (\d+)", open(sys.argv[1] + "/" + name).read()):
        seen[p] = seen.get(p, 0) + int(n)
    return seen
plain, again = got("captured.yaml"), got("checkpointed.yaml")
# Checkpointing runs the norms of the layers forward again, not the final one.
layers = {p: n + (n - 3 if "/fwd/" in p else 0) for p, n in want.items()}
print("captured", plain, "as the config says" if plain == want else "NOT as the config says: %s" % want)
print("checkpointed", again, "as it should be" if again == layers else "NOT as it should be: %s" % layers)
sys.exit(plain != want or again != layers)
PY

id=$(ls "$out/results" | head -n 1)
"$bin" compare peer:torch "tuned:$out/results/$id/tuned.json" "${of[@]}" --device cuda --python "$python" \
	--rounds 12 --samples 10 --out "$out/live" >"$out/table.txt" 2>"$out/table.log"
"$bin" compare peer:compile "tuned:$out/results/$id/tuned.json" "${of[@]}" --device cuda --python "$python" \
	--rounds 12 --samples 10 --out "$out/live" >>"$out/table.txt" 2>>"$out/table.log"
grep -A1 '^per step' "$out/table.txt" | tee -a "$out/summary.txt"
[ $failed = 0 ] && say 'all as promised'
exit $failed
