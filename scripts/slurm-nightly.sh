#!/usr/bin/env bash
# A sweep on a real Slurm: four nodes with two GPUs each, all on this host, which has none; the cpu device measures.
# An array of eight shards, of which one is killed and one requeued, on nodes of which one is drained and one goes
# down. Then the same sweep by workers that srun starts, of which one is killed. Both must measure what one sweep
# measures: nothing lost, nothing twice. It is skipped, with the reason, where Slurm's packages cannot be had.
# SAMPLES says how many samples a variant has: of fewer the sweep takes less time, and is harder to stop on its way.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
	echo "slurm: skipped: $*"
	exit 0
}
fail() {
	echo "slurm: error: $*" >&2
	tail -n 20 "$dir"/log/*.log "$dir"/*.out >&2 || true
	exit 1
}
[ "$(id -u)" = 0 ] || skip 'slurmd needs root'
missing() { ! command -v slurmctld slurmd slurmstepd srun sbatch >/dev/null; }
if missing; then
	command -v apt-get >/dev/null || skip 'no Slurm here, and no apt-get to install it'
	echo 'installing Slurm'
	(apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client slurm-wlm-basic-plugins) >/dev/null 2>&1 ||
		skip 'apt-get cannot install slurmctld, slurmd and slurm-client'
	! missing || skip "its packages have no $(for p in slurmctld slurmd slurmstepd srun sbatch; do command -v $p >/dev/null || echo "$p "; done)"
fi

dir=$(mktemp -d)
daemons=()
cleanup() {
	scancel --me 2>/dev/null || true
	for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$dir"
}
trap cleanup EXIT

echo "slurm: $(slurmctld -V)"
mkdir -p "$dir"/{state,spool,log,bin,etc}
mknod "$dir/gpu0" c 1 3 && mknod "$dir/gpu1" c 1 3 || skip 'no device files can be made here'
host=$(hostname -s)
port=$((20000 + RANDOM % 10000))
cat >"$dir/etc/slurm.conf" <<EOF
ClusterName=nightly
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
KillWait=5
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=4 Gres=gpu:2
PartitionName=all Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
EOF
echo "NodeName=n[1-4] Name=gpu File=$dir/gpu[0-1]" >"$dir/etc/gres.conf"
export SLURM_CONF=$dir/etc/slurm.conf
# By these names: under another the daemons drop every GPU without a word.
slurmctld -D >/dev/null 2>&1 & daemons+=($!)
for n in 1 2 3 4; do slurmd -D -N "n$n" >/dev/null 2>&1 & daemons+=($!); done

# until LIMIT WHAT COMMAND...: wait until a command succeeds.
until_() {
	local end=$((SECONDS + $1)) what=$2 told=$SECONDS
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "$what: not within its limit"
		[ $((SECONDS - told)) -lt 5 ] || { told=$SECONDS && echo "slurm: waiting: $what"; }
		sleep 0.2
	done
}
idle() { [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" = 4 ]; }
until_ 60 'four idle nodes' idle

go build -o "$dir/bin/normbench" ./cmd/normbench
export PATH=$dir/bin:$PATH NORMBENCH_CPU_CACHE=16M
cd "$dir"
sweep='normbench sweep --shapes 8x64,3x33,16x512,5x40,32x256,64x128,20x700,9x1000 --op rmsnorm --strategy grid --seed 1 --samples '${SAMPLES:-20}

echo 'slurm: the sweep of one machine'
$sweep --device cpu --out one >one.txt 2>one.out || fail 'the sweep of one machine'

echo 'slurm: an array of eight shards; a node drained, one down, a shard killed, one requeued'
cat >array.sh <<EOF
#!/bin/sh
#SBATCH --array=0-7 --gres=gpu:1 --requeue --open-mode=append --output=shard-%a.out
exec $sweep --device cpu --out shards
EOF
job=$(sbatch --parsable array.sh)
records() { [ "$(cat shards/shard-$1-of-8/*/records.jsonl | grep -c '"kind":"record"')" -ge 3 ]; }
for shard in 3 4 6; do until_ 120 "records of shard $shard" records $shard; done
task() { squeue -h -r -j "${job}_$1" -o "$2"; }
# A drained node keeps its jobs and gets no others.
drained=$(task 3 %N)
scontrol update nodename="$drained" state=drain reason=nightly
scancel --signal=KILL "${job}_2" --batch || true
scancel --signal=KILL "${job}_2"
scontrol requeue "${job}_3"
scontrol update jobid="${job}_3" starttime=now || true
down=$(task 5 %N)
[ -z "$down" ] || [ "$down" = "$drained" ] || scontrol update nodename="$down" state=down reason=nightly
gone() { [ -z "$(squeue -h -r -j "${job}_2" -t running -o %i)" ]; }
until_ 60 'the end of the killed shard' gone
[ -z "$down" ] || scontrol update nodename="$down" state=resume || true
release() { # what was requeued may start now, and not in two minutes
	for id in $(squeue -h -r -t pending -o %A); do scontrol update jobid="$id" starttime=now; done
	[ -z "$(squeue -h -r -j "$job" -o %i)" ]
}
until_ 300 'the end of the array' release
grep -h 'interrupted' shard-*.out || true
# The killed shard is missing; the command that makes it goes on from its records.
sbatch --wait --gres=gpu:1 --output=shard-2.out --open-mode=append --wrap "exec $sweep --device cpu --out shards --shard 3/8" >/dev/null || fail 'the killed shard, again'
grep -h 'there already' shard-2.out | tail -n 1
for n in 1 2 3 4; do scontrol update nodename=n$n state=resume 2>/dev/null || true; done

echo 'slurm: the same by four workers of srun, of which one is killed'
$sweep --out workers --worker "4:srun -n1 -c1 --gres=gpu:1 --unbuffered normbench worker --device cpu" >workers.txt 2>workers.out & sweeping=$!
some() { [ "$(cat workers/*/records.jsonl | grep -c '"kind":"record"')" -ge 20 ]; }
until_ 120 'records of the workers' some
scancel "$(squeue -h -t running -o %A | head -n 1)"
wait $sweeping || fail 'the sweep by workers'
grep -E 'CANCELLED|Force Terminated|aborted' workers.out | head -n 1 || fail 'no worker was killed'
left() { [ -z "$(squeue -h -o %i)" ]; }
until_ 60 'the end of all jobs' left

echo 'slurm: the merge of the shards, and the job that is printed, read by sbatch'
normbench merge shards --out merged || fail 'the merge'
normbench merge shards/shard-*/*/tuned.json --out merged.json
# The nodes have two cores.
$sweep --device cpu --emit slurm --shards 8 --out shards >job.sh
sh job.sh --test-only --cpus-per-task=1 --mem=0 || fail 'the job that is printed'
python3 - "$dir" <<'EOF'
import glob, json, sys

def measured(pattern):
    """What records of a sweep say, but for their times."""
    found, twice = {}, []
    for path in glob.glob(pattern):
        for line in open(path):
            r = json.loads(line)
            if r["kind"] != "record" or r["family"] == "stream":
                continue
            key = r["problem"], r["family"], r["config"]
            if key in found:
                twice.append(key)
            check = dict(r.get("check") or {})
            check.pop("busy_s", None)
            check.pop("busy", None)
            found[key] = json.dumps([r["status"], check, r.get("base"), r.get("source"), r.get("launch")], sort_keys=True)
    assert not twice, f"{pattern}: measured twice: {twice}"
    return found

one = measured("one/*/records.jsonl")
for name, pattern in ("shards", "shards/*/*/records.jsonl"), ("merge", "merged/*/records.jsonl"), ("workers of srun", "workers/*/records.jsonl"):
    got = measured(pattern)
    assert set(got) == set(one), f"{name}: missing {set(one) - set(got)}, beyond {set(got) - set(one)}"
    differ = [k for k in one if got[k] != one[k]]
    assert not differ, f"{name}: {differ[0]}: {got[differ[0]]}, want {one[differ[0]]}"
    print(f"slurm: {name}: {len({k[0] for k in got})} problems, {len(got)} variants, each once, with the checks of one sweep")
problems = lambda path: sorted(e["problem"] for e in json.load(open(path))["entries"])
assert problems("merged.json") == problems(glob.glob("one/*/tuned.json")[0]), "the merged table has other problems"
assert problems(glob.glob("merged/*/tuned.json")[0]) == problems("merged.json"), "the table of the merged records has other problems"
EOF
echo 'slurm: passed'
