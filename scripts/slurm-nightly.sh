#!/usr/bin/env bash
# A sweep on a real Slurm: four nodes with two GPUs each, all on this host, which has none; the cpu device measures.
# The job that `sweep --emit slurm` prints: an array of eight shards, of which one is killed and one requeued, on nodes
# of which one is drained and one goes down, and the merge behind it, which names the shard that is missing. Submitted
# again it measures that shard, and merges. Then the same sweep by workers that srun starts, of which one is killed.
# All must have measured what one sweep measures: nothing lost, nothing twice. It is skipped, with the reason, where
# Slurm's packages cannot be had.
# SAMPLES says how many samples a variant has: of fewer the sweep takes less time, and is harder to stop on its way.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
	echo "slurm: skipped: $*"
	exit 0
}
fail() {
	echo "slurm: error: $*" >&2
	tail -n 20 "$dir"/log/*.log "$dir"/*.out "$dir"/normbench-*.log >&2 || true
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
ReturnToService=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
KillWait=5
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=16 RealMemory=64000 Gres=gpu:2
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

echo 'slurm: the printed job, an array of eight shards and their merge; a node drained, one down, a shard killed, one requeued'
$sweep --device cpu --emit slurm --shards 8 --out shards >job.sh
sh job.sh --gres=gpu:1 --test-only >test-only.out 2>&1 || fail 'sbatch does not take the printed job'
[ "$(grep -c 'to start at' test-only.out)" = 2 ] || fail 'the printed job has not two parts'
submit() { # the printed job: its array, and its merge
	sh job.sh --gres=gpu:1 >submit.out 2>&1 || fail 'the printed job cannot be submitted'
	merge=$(grep -oE '[0-9]+$' submit.out | tail -n 1)
	array=$(squeue -h -j "$merge" -o %E | grep -oE '[0-9]+' | head -n 1)
	[ -n "$array" ] || fail 'the merge waits for no array'
}
submit
records() { [ "$(cat shards/shard-$1-of-8/*/records.jsonl | grep -c '"kind":"record"')" -ge 3 ]; }
for shard in 3 4 6; do until_ 120 "records of shard $shard" records $shard; done
task() { squeue -h -r -j "${array}_$1" -o "$2"; }
# A drained node keeps its jobs and gets no others.
drained=$(task 4 %N)
scontrol update nodename="$drained" state=drain reason=nightly
scancel --signal=KILL "${array}_3" --batch || true
scancel --signal=KILL "${array}_3" 2>/dev/null || true
scontrol requeue "${array}_4"
scontrol update jobid="${array}_4" starttime=now || true
down=$(task 6 %N)
[ -z "$down" ] || [ "$down" = "$drained" ] || scontrol update nodename="$down" state=down reason=nightly
gone() { [ -z "$(squeue -h -r -j "${array}_3" -t running -o %i)" ]; }
until_ 60 'the end of the killed shard' gone
# The node stays down: one that comes back before its jobs have ended refuses them ("Duplicate jobid").
finished() { # what was requeued may start now, and not in two minutes
	for id in $(squeue -h -r -t pending -j "$array" -o %A); do scontrol update jobid="$id" starttime=now; done
	[ -z "$(squeue -h -r -o %i)" ]
}
until_ 300 'the end of the array and of its merge' finished
grep -h 'interrupted' normbench-"$array"_*.log || fail 'no shard was requeued'
for n in 1 2 3 4; do scontrol update nodename=n$n state=resume 2>/dev/null || true; done
# The merge names the shard that was killed, with the command that makes it, and writes nothing.
grep -h -A 1 'error: shard 3/8 ' "normbench-merge-$merge.log" || fail 'the merge misses no shard'
grep -q -- '--shard 3/8. makes it' "normbench-merge-$merge.log" || fail 'the merge does not say how the shard is made'
[ -z "$(ls shards/*/records.jsonl 2>/dev/null)" ] || fail 'shards were merged of which one is missing'

echo 'slurm: the same job again, which measures what is missing, and merges'
killed=$array
submit
[ "$array" != "$killed" ] || fail 'the same array'
until_ 300 'the end of the array and of its merge, again' finished
grep -h 'there already' "normbench-${array}_3.log" || fail 'the killed shard did not go on from its records'
grep -h ' merged into ' "normbench-merge-$merge.log" || fail 'nothing was merged'
# The folders of the shards, named one by one and the other way round, become the same bytes.
normbench merge $(ls -d shards/shard-* | sort -r) --out merged 2>merged.out || fail 'the merge of folders'
for file in $(cd merged && find . -name records.jsonl -o -name tuned.json); do
	cmp "merged/$file" "shards/$file" || fail "merged in another order, $file is another"
done

echo 'slurm: the same by four workers of srun, of which one is killed'
$sweep --out workers --worker "4:srun -n1 -c1 --gres=gpu:1 --unbuffered normbench worker --device cpu" >workers.txt 2>workers.out & sweeping=$!
some() { [ "$(cat workers/*/records.jsonl | grep -c '"kind":"record"')" -ge 20 ]; }
until_ 120 'records of the workers' some
scancel "$(squeue -h -t running -o %A | head -n 1)"
wait $sweeping || fail 'the sweep by workers'
grep -E 'CANCELLED|Force Terminated|aborted' workers.out | head -n 1 || fail 'no worker was killed'
left() { [ -z "$(squeue -h -o %i)" ]; }
until_ 60 'the end of all jobs' left

python3 - <<'EOF'
import glob, json

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

def table(pattern):
    """What a tuned table says of each problem, but for times and what won by them."""
    [path] = glob.glob(pattern)
    t = json.load(open(path))
    found = {e["problem"]: (e["variants"], e["base"]["family"], e["base"]["config"], e["samples"]) for e in t["entries"]}
    assert len(found) == len(t["entries"]), f"{path}: a problem twice"
    return found, t["schema"], t["device"], t["protocol"]

def same(name, got, want):
    assert set(got) == set(want), f"{name}: missing {set(want) - set(got)}, beyond {set(got) - set(want)}"
    differ = [k for k in want if got[k] != want[k]]
    assert not differ, f"{name}: {differ[0]}: {got[differ[0]]}, want {want[differ[0]]}"

one = measured("one/*/records.jsonl")
entries, *head = table("one/*/tuned.json")
for name, records, tuned in (("shards", "shards/shard-*/*/records.jsonl", None),
                             ("their merge", "shards/[!s]*/records.jsonl", "shards/[!s]*/tuned.json"),
                             ("workers of srun", "workers/*/records.jsonl", "workers/*/tuned.json")):
    got = measured(records)
    same(name, got, one)
    said = "each once, with the checks of one sweep"
    if tuned:
        its, *about = table(tuned)
        same(name + ", tuned table", its, entries)
        assert about == head, f"{name}: {about}, want {head}"
        said += f"; a table of {len(its)} problems, with the bases and counts of variants of one sweep"
    print(f"slurm: {name}: {len({k[0] for k in got})} problems, {len(got)} variants, {said}")
EOF
echo 'slurm: passed'
