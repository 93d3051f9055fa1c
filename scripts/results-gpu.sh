#!/usr/bin/env bash
# Makes the files of results/CARD on one GPU, in parts that can be stopped and go on.
#
#   make cuda                                  # on the build machine
#   scripts/results-gpu.sh check                # on the GPU machine: other libraries, and whether they are right
#   scripts/results-gpu.sh STATE SECONDS PART... # measure, and stop after that many seconds
#   scripts/results-gpu.sh pack STATE           # anywhere: write results/CARD from STATE
#
# A PART is
#   selftest    the self-test
#   sweep       SHAPES (default), all ops and passes: records and tuned.json, which the peers' parts use
#   sweep-types the shapes of group te in fp16 and fp8, into the same folder
#   same-peers  the default against itself
#   learn       LEARN (575s) of learning, beside the picks of PRIOR (auto). Then it writes what pack checks in: learn/ and
#               tuned.json. learn/ has its records and the finals of results/CARD. The map of tuned.json is filled from
#               these, and from every other learn*/ there
#   audit       60 fresh problems searched in full, beside what was learned
#   real-widths SHAPES (real-widths, of which nothing is learned) searched in full, then live where that found
#               another config than what was learned, or than the program's default if nothing was: how far that is behind
#   learn-types 15 minutes of learning of the TYPES beside plain bf16 (residual fp32 fp8 accumulate)
#   audit-types 10 fresh problems of each of them
#   learned     what was learned against TABLE (base), live, at UNSEEN (peers,random:38:seed=20261129)
#   layernorm-bwd, rmsnorm-bwd, layernorm-fwd, rmsnorm-fwd, qk-norm-bwd
#               other libraries beside tuned.json
#   unseen      other libraries beside the default, at 31 random shapes
#   autotune    the four of them beside torch.compile's max-autotune too, which compiles for long
#
# The state has a file or a folder for each PART, and `done`. The same command goes on from there,
# on another machine of that card too: with the same program, driver and peers. machines.txt says which part but
# learn is of which card, and its floor, an empty launch. A compare whose floor is 0.2 us from the state's others is put
# aside, and measured again, once.
# Floors of one H200 were 2.66 to 2.88 us within half an hour. Those of other hosts differ by more than 1.
# Exit 3: there is more to do.
#
# CARD names the folder of this machine's card, such as nvidia-h200. $DEVICE names another device than cuda: cuda:1, or
# cuda:0,cuda:1 for learn and sweeps on both. $CARD and $DOMAIN, of what is learned, are for a test.
# PYTHON names the Python with PyTorch (python3), PEERS the other libraries that count, LIMIT how long one of them may
# compile for a problem (60s). Without a network Liger-Kernel is one pure wheel,
# put beside it:
#
#   pip download --no-deps -d wheels liger-kernel
#   python3 -m pip install --no-index --no-deps --target site wheels/*.whl; export PYTHONPATH=$PWD/site
#
# quack's compiler lies below: PYTHONPATH=$PWD/site:$PWD/site/nvidia_cutlass_dsl/dsl_packages, as
# nothing on PYTHONPATH has its .pth file read.
set -euo pipefail
usage='usage: scripts/results-gpu.sh check | pack STATE | sums | STATE SECONDS PART...'
python=${PYTHON:-python3}
bin=${BIN:-bin/normbench-cuda}
gpu=(--device "${DEVICE:-cuda}")
declare -A types=([residual]=--residual [fp32]="--dtype fp32" [fp8]="--quant fp8,fp8t --pass fwd" [accumulate]="--accumulate --pass bwd")
declare -A budgets=([residual]=350s [fp32]=180s [fp8]=270s [accumulate]=85s)
libraries=${PEERS:-compile,cudnn,liger,quack,fast-llm,flash-attn,fla,mamba}
# One config of an autotuner may compile for minutes: a peer has this long for a problem, and is refused there.
peers=(--python "$python" --rounds 12 --samples 10 --timeout "${LIMIT:-60s}" --peers)

check() {
	"$bin" list peers --python "$python"
	# Inputs, answers and tolerances against package reference, on the CPU and on the GPU.
	for cpu in 1 0; do
		NORMBENCH_PEERS_CPU=$cpu "$python" -B kernels/devices/peers/testdata/against.py kernels/devices/peers/testdata/reference.json
	done
	# A peer may answer wrong or refuse (1): that is a finding, not a failure of the harness.
	local on=("${gpu[@]}" --python "$python")
	"$bin" verify peer:best base "${on[@]}" --shapes 1024x1024,29x1741 --timeout "${LIMIT:-60s}" || [ $? = 1 ]
	"$bin" verify peer:torch peer:compile "${on[@]}" --shapes odd --dtype bf16,fp16,fp32 || [ $? = 1 ]
}

# device FILE: the ID of the device that a live compare ran on.
device() {
	"$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["run"]["device"]["id"])' "$1"
}

pack() {
	local state=$1 file files name dir to
	for file in "$state"/peers/*.json; do
		[ -e "$file" ] || continue
		name=$(basename "$file" .json)
		to=results/$(device "$file")/peers
		mkdir -p "$to"
		jq -c 'del(.duels[].visits, .crc)' "$file" | gzip -9n >"$to/$name.json.gz"
	done
	for file in "$state"/live/*.json; do
		[ -e "$file" ] || continue
		name=$(basename "$file" .json)
		to=results/$(device "$file")/live
		mkdir -p "$to"
		"$bin" report --wide "$file" | gzip -9n >"$to/$name.txt.gz"
		[ ! -e "$state/behind-$name.txt" ] || cp "$state/behind-$name.txt" "$to/"
	done
	if [ -e "$state/machines.txt" ]; then # the lines of parts that are not of this state stay
		to=results/$(<"$state/card")
		mkdir -p "$to"
		touch "$to/machines.txt"
		awk 'NR == FNR { made[$1] } NR == FNR || !($1 in made)' "$state/machines.txt" "$to/machines.txt" | LC_ALL=C sort >"$state/machines.all"
		mv "$state/machines.all" "$to/machines.txt"
	fi
	for dir in "$state"/sweep/*/; do
		[ -d "$dir" ] || continue
		to=results/$(basename "$dir")
		mkdir -p "$to"
		"$python" scripts/thin-records.py "$dir/records.jsonl" "$to/records.jsonl.bz2"
		cp "$dir/tuned.json" "$to/"
		"$bin" compare "$to#base" "$to" >"$to/table.txt"
		[ ! -e "$state/selftest.txt" ] || cp "$state/selftest.txt" "$to/"
		[ ! -e "$state/sweep.txt" ] || gzip -9nc "$state/sweep.txt" >"$to/sweep.txt.gz"
	done
	for dir in "$state"/learn/*/ "$state"/learn-types/*/; do
		[ -d "$dir" ] || continue
		name=$(basename "$(dirname "$dir")")
		to=results/$(basename "$dir")/$name
		mkdir -p "$to"
		cp "$dir/records.jsonl.bz2" "$state/tuned-$name.txt" "$to/"
		case $name in
		learn)
			files=("$state"/{learn,judged}.txt "$state/audit/$(basename "$dir")/audit.json")
			cp "$dir/tuned.json" "results/$(basename "$dir")/"
			;;
		*) files=("$state"/{,judged-}{residual,fp32,fp8,accumulate}.txt) ;;
		esac
		for file in "${files[@]}"; do # without the lines of progress
			[ ! -e "$file" ] || grep -v '^normbench: \[' "$file" >"$to/$(basename "$file")"
		done
	done
	sums
	git status --short results
}

# sums: the SHA-256 of each file in results/, as sha256sum -c reads them. A test holds the files to it.
sums() {
	(cd results && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
}

# run NAME COMMAND...: run a command for what is left of the time; what it says is in NAME.txt. INT
# ends it in order, and the same command goes on.
run() {
	local name=$1 left=$((limit - SECONDS)) rc=0
	shift
	grep -qx "$name" "$state/done" && return
	[ "$left" -ge 40 ] || return 3
	echo "== $name, $left s left" >&2
	timeout --signal INT --kill-after 10 $((left - 15)) "$@" 2>&1 | tee "$state/$name.txt" || rc=$?
	case $rc in
	0) echo "$name" >>"$state/done" ;;
	124 | 130 | 137) return 3 ;;
	*) worst=$rc ;; # a cell without a time: asked for again next time, and the rest goes on
	esac
}

# compare FILE NAME ARGS...: a live compare, whose file is written after every cell.
compare() {
	local file=$1 name=$2 rc=0
	shift 2
	mkdir -p "$(dirname "$file")"
	if [ -f "$file" ]; then
		set -- "$@" --resume "$file"
	else
		set -- "$@" --out "$state/new"
	fi
	run "$name" "$bin" compare "$@" "${gpu[@]}" || rc=$?
	mv "$state"/new/*/compare-*.json "$file" 2>/dev/null || true
	rm -rf "$state/new"
	return "$rc"
}

# learn FOLDER NAME ARGS...: a learn into a folder below the state's `measured`.
learn() {
	local folder=$1 name=$2
	shift 2
	run "$name" "$bin" map learn "${gpu[@]}" --out "$state/measured/$folder" ${DOMAIN:+--domain "$DOMAIN"} "$@"
}

# thin FOLDER [RECORDS]: the records that can be checked in of a learn, beside those of a sweep, and the table that is
# checked in with them: the entries of results/CARD, and the map that these records fill with those of its other learns.
thin() {
	local folder=$1 to=$state/$1/$card others
	shift
	mkdir -p "$to"
	run "thinned-$folder" "$python" scripts/thin-records.py "$@" "$state/measured/$folder/$card/records.jsonl.gz" \
		"$to/records.jsonl.bz2"
	others=$(ls -d "results/$card"/learn*/ 2>/dev/null | grep -v "/$folder/$") || true
	if [ -e "results/$card/tuned.json" ] && [ ! -e "$to/tuned.json" ]; then # a map that is there would keep cells
		"$python" -c 'import json, sys; json.dump({k: v for k, v in json.load(sys.stdin).items() if k != "map"}, sys.stdout)' \
			<"results/$card/tuned.json" >"$to/tuned.json"
	fi
	# shellcheck disable=SC2086
	run "tuned-$folder" "$bin" map fill "$to" $others --prior none --out "$to/tuned.json"
}

# behind TABLE COMPARE: what the winners of a table gain over a map's answers, by a live compare of those that
# differ, which has no file where none does.
behind() {
	"$python" - "$@" <<-'EOF'
		import json, math, os, sys
		table, live = (json.load(open(path)) if os.path.exists(path) else {"duels": [], "judged": []} for path in sys.argv[1:])
		ok = [duel for duel in live["duels"] if duel["status"] == "ok"]
		effects = {duel["problem"]: judged["effect"] for duel, judged in zip(ok, live["judged"])}
		gain = {entry["problem"]: 100 * (effects.get(entry["problem"], 1) - 1) for entry in table["entries"]}
		mean = lambda part: sum(part) / max(len(part), 1)
		most = sorted(gain, key=gain.get)
		print(f"a full search of {len(gain)} problems is faster by {mean(gain.values()):.1f}% in the mean, "
		      f"{mean([x for p, x in gain.items() if '/bwd/' in p]):.1f}% in the backwards, "
		      f"{gain[most[math.ceil(0.95 * len(most)) - 1]]:.1f}% at the 95th percentile, "
		      f"{gain[most[-1]]:.1f}% at worst, at {most[-1]}")
	EOF
}

# machines: the cards and floors of the parts. 3: one was put aside.
machines() {
	"$python" - "$state" <<-'EOF'
		import json, os, pathlib, statistics, sys
		state = pathlib.Path(sys.argv[1])
		runs = {}
		for file in sorted([*state.glob("peers/*.json"), *state.glob("live/*.json")]):
		    live = json.load(open(file))
		    runs[file] = [live["run"], *live.get("resumed", [])]
		for file in sorted([*state.glob("sweep/*/records.jsonl"), *state.glob("real-widths/*/records.jsonl")]):
		    runs[file] = [json.loads(line) for line in open(file) if '"kind":"run"' in line]
		floors = [run.get("floor_us", 0) for all in runs.values() for run in all]
		middle, again = statistics.median(floors or [0]), []
		with open(state / "machines.txt", "w") as out:
		    for file, all in runs.items():
		        name = file.stem if file.suffix == ".json" else file.parent.parent.name
		        for run in all:
		            floor, device = run.get("floor_us", 0), run["device"]
		            print(f"{name:<24} {run['time'][:16]} {run['tool']:<10} {device.get('uuid', 'none'):<40} floor {floor:.3f} us", file=out)
		        aside = file.with_suffix(".aside")
		        off = [run.get("floor_us", 0) for run in all if abs(run.get("floor_us", 0) - middle) > 0.2]
		        if off and file.suffix == ".json" and not aside.exists():
		            file.rename(aside)
		            again.append(name)
		            print(f"results-gpu.sh: {name} has a floor of {off[0]:.2f} us, the others {middle:.2f}: the same command measures it again", file=sys.stderr)
		if again:
		    left = [line for line in open(state / "done") if line.strip() not in again]
		    with open(state / "done.new", "w") as out:
		        out.writelines(left)
		    os.replace(state / "done.new", state / "done")
		sys.exit(3 if again else 0)
	EOF
}

part() {
	local name=$1 best=(peer:best "tuned:results/$card/tuned.json") answers=base
	case $name in
	selftest) run selftest "$bin" selftest "${gpu[@]}" ;;
	sweep | sweep-types) # into a copy, as a sweep replaces entries alone
		local shapes=${SHAPES:-default}
		[ "$name" = sweep ] || shapes=te@fp16,te@fp8,te@fp8t
		mkdir -p "$state/sweep/$card"
		[ -e "$state/sweep/$card/tuned.json" ] || cp "results/$card/tuned.json" "$state/sweep/$card/" 2>/dev/null || true
		run "$name" "$bin" sweep "${gpu[@]}" --shapes "$shapes" --out "$state/sweep"
		mkdir -p "results/$card"
		cp "$state/sweep/$card/tuned.json" "results/$card/"
		;;
	same-peers)
		[ -d "$state/copy" ] || cp -r kernels/families "$state/copy"
		compare "$state/live/same-peers.json" same-peers base base --baseline-kernels "$state/copy" --shapes peers
		;;
	learn)
		learn learn learn --prior "${PRIOR:-auto}" --budget "${LEARN:-575s}" &&
			thin learn $(ls "results/$card/records.jsonl.bz2" 2>/dev/null || true) # a card's first has none
		;;
	learn-types) # each into the same folder: budgets are of the classes that are asked for
		for name in ${TYPES:-residual fp32 fp8 accumulate}; do
			learn learn-types "$name" ${types[$name]} --prior none --budget "${budgets[$name]}" || return
		done
		thin learn-types
		;;
	audit)
		[ -d "$state/audit" ] || cp -r "$state/learn" "$state/audit"
		# A budget that is spent: nothing more is measured for the map.
		run judged "$bin" map learn "${gpu[@]}" --budget 1s --prior none --out "$state/audit" --audit 60
		;;
	real-widths)
		local found=$state/real-widths/$card/tuned.json shapes=(--shapes "${SHAPES:-real-widths}")
		[ ! -e "$state/learn/$card/tuned.json" ] || answers=tuned:$state/learn/$card/tuned.json
		run searched "$bin" sweep "${gpu[@]}" "${shapes[@]}" --out "$state/real-widths" &&
			compare "$state/live/real-widths.json" real-widths "tuned:$found" "$answers" "${shapes[@]}" \
				--live --changed --rounds 9 --samples 10 &&
			behind "$found" "$state/live/real-widths.json" | tee "$state/behind-real-widths.txt"
		;;
	audit-types)
		[ -d "$state/audit-types" ] || cp -r "$state/learn-types" "$state/audit-types"
		for name in ${TYPES:-residual fp32 fp8 accumulate}; do
			run "judged-$name" "$bin" map learn "${gpu[@]}" ${types[$name]} --budget 1s --prior none \
				--out "$state/audit-types" --audit 10 || return
		done
		;;
	learned)
		compare "$state/live/learned-against-base.json" learned-against-base "${TABLE:-base}" \
			"tuned:$state/learn/$card/tuned.json" \
			--live --changed --shapes "${UNSEEN:-peers,random:38:seed=20261129}" --rounds 9 --samples 10
		;;
	layernorm-* | rmsnorm-*)
		compare "$state/peers/$name.json" "$name" "${best[@]}" "${peers[@]}" "$libraries" \
			--op "${name%-*}" --pass "${name#*-}" --shapes peers
		;;
	qk-norm-bwd)
		compare "$state/peers/$name.json" "$name" "${best[@]}" "${peers[@]}" "$libraries" \
			--pass bwd --shapes qk-norm
		;;
	unseen)
		compare "$state/peers/$name.json" "$name" peer:best base "${peers[@]}" "$libraries" \
			--shapes random:31:seed=20261126
		;;
	autotune)
		compare "$state/peers/$name.json" "$name" "${best[@]}" "${peers[@]}" "$libraries,compile-max" \
			--shapes peers
		;;
	*) echo "results-gpu.sh: error: unknown part '$name'" >&2 && return 2 ;;
	esac
}

case ${1:?$usage} in
check) check ;;
pack) pack "${2:?$usage}" ;;
sums) sums ;;
*)
	state=$1 limit=${2:?$usage} worst=0
	shift 2
	export NORMBENCH_CACHE=${NORMBENCH_CACHE:-$state/cubin}
	card=${CARD:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')}
	mkdir -p "$state"
	touch "$state/done"
	[ -e "$state/card" ] || echo "$card" >"$state/card"
	was=$(<"$state/card")
	if [ "$was" != "$card" ]; then
		echo "results-gpu.sh: error: $state is of $was, and this machine has $card" >&2
		exit 2
	fi
	for name; do
		part "$name" || exit
	done
	machines || exit
	exit "$worst"
	;;
esac
