#!/bin/sh
# 8 shards of a sweep, and their merge. The longest shard is predicted to take 28s on a large GPU.
# Submit it with `sh FILE`, in the folder from which its paths start, which all nodes see.
# Options of sbatch for both jobs stand behind FILE, such as --partition=gpu. For one of them, edit its lines:
# --array=1-8%4 runs four shards at a time.
set -eu
array=$(sbatch --parsable "$@" <<'END'
#!/bin/sh
#SBATCH --job-name=normbench
#SBATCH --array=1-8
#SBATCH --gres=gpu:1
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=11
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=normbench-%A_%a.log
exec /opt/normbench sweep --device cuda --knob ctas=1,2 --kernels 'my kernels' --out 'out/my sweep' --shard "$SLURM_ARRAY_TASK_ID/8"
END
)
sbatch "$@" ${array:+--dependency=afterany:${array%%;*}} <<'END'
#!/bin/sh
#SBATCH --job-name=normbench-merge
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=30
#SBATCH --output=normbench-merge-%j.log
exec /opt/normbench merge --kernels 'my kernels' 'out/my sweep'
END
