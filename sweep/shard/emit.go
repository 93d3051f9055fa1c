package shard

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"normbench/kernels"
)

// Formats lists what Emit writes.
func Formats() []string { return []string{"slurm", "k8s"} }

// A BatchJob is a sweep in shards for a scheduler.
type BatchJob struct {
	Command []string // of the sweep, without --shard and --out
	Merge   []string // of the merge, without its folder
	Out     string   // folder of the results, which all machines see
	// Program is how a node of Slurm finds normbench. In an image it is on the PATH.
	Program string
	// Files are those that the command reads, besides normbench's own.
	Files  []string
	Shards int
	// Longest is what the longest shard is predicted to take on a large GPU.
	Longest time.Duration
	GPU     bool
	// Quote writes words as a shell reads them.
	Quote func(words []string) string
}

// What each shard of a job asks for: cores for compilers, of some 100 MB each.
const (
	shardCores  = 8
	shardMemory = 16 // GiB
)

// NewBatchJob plans a job of problems. Without a number of shards it takes as many as are predicted to take half an hour
// each, at least two. times is how much longer than a search each problem takes. fixed, above 0, is what each shard
// takes.
func NewBatchJob(ps []kernels.Problem, shards int, times float64, fixed time.Duration) *BatchJob {
	if shards == 0 {
		shards = 2 + int(PredictAll(ps).Seconds()*times/(30*time.Minute).Seconds())
		shards = min(shards, max(len(ps), 1))
	}
	j := &BatchJob{Shards: shards, Longest: fixed, GPU: true}
	if fixed == 0 {
		for _, one := range Split(ps, shards) {
			j.Longest = max(j.Longest, time.Duration(float64(PredictAll(one))*times))
		}
	}
	return j
}

// limit computes the time that a shard gets: three times what is predicted, as cards and file systems
// differ, and ten minutes to start.
func (j *BatchJob) limit() time.Duration {
	return (3*j.Longest + 10*time.Minute).Truncate(time.Minute)
}

// Emit writes the job for a scheduler.
func (j *BatchJob) Emit(format string) string {
	if format == "k8s" {
		return j.kubernetes()
	}
	return j.slurm()
}

// title writes the comment at a job's head, with what to do with it, a line each.
func (j *BatchJob) title(todo ...string) string {
	lines := append([]string{fmt.Sprintf("%d shards of a sweep, and their merge. The longest shard is predicted to take %s on a large GPU.",
		j.Shards, j.Longest.Round(time.Second))}, todo...)
	return "# " + strings.Join(lines, "\n# ") + "\n"
}

// with puts arguments behind a command's words.
func with(command []string, args ...string) []string {
	return append(append([]string{}, command...), args...)
}

// slurm writes a script that submits an array and, behind it, the merge of what it made.
func (j *BatchJob) slurm() string {
	gres := ""
	if j.GPU {
		gres = "#SBATCH --gres=gpu:1\n"
	}
	run := func(command []string, args ...string) string {
		return j.Quote(with(append([]string{j.Program}, command[1:]...), args...))
	}
	return "#!/bin/sh\n" + j.title("Submit it with `sh FILE`, in the folder from which its paths start, which all nodes see.",
		"Options of sbatch for both jobs stand behind FILE, such as --partition=gpu. For one of them, edit its lines:",
		"--array=1-8%4 runs four shards at a time.") +
		fmt.Sprintf(`set -eu
array=$(sbatch --parsable "$@" <<'END'
#!/bin/sh
#SBATCH --job-name=normbench
#SBATCH --array=1-%d
%s#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=%d
#SBATCH --mem=%dG
#SBATCH --time=%d
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=normbench-%%A_%%a.log
exec %s --shard "$SLURM_ARRAY_TASK_ID/%d"
END
)
sbatch "$@" ${array:+--dependency=afterany:${array%%%%;*}} <<'END'
#!/bin/sh
#SBATCH --job-name=normbench-merge
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=30
#SBATCH --output=normbench-merge-%%j.log
exec %s
END
`, j.Shards, gres, shardCores, shardMemory, int(j.limit().Minutes()), run(j.Command, "--out", j.Out), j.Shards, run(j.Merge, j.Out))
}

// kubernetes writes an Indexed Job, and a Job that merges what it made once all is there, on one volume.
func (j *BatchJob) kubernetes() string {
	const folder = "/results"
	list := func(words ...string) string {
		text, _ := json.Marshal(words) // strings
		return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))
	}
	gpu := ""
	if j.GPU {
		gpu = "            nvidia.com/gpu: \"1\"\n"
	}
	// A Job waits for no other: this one tries until all shards are done, for as long as they take one after the other.
	const pause = 30 * time.Second
	tries := max(int(time.Duration(j.Shards)*j.limit()/pause), 1)
	merge := fmt.Sprintf("n=0; until %s; do n=$((n+1)); if [ $n -ge %d ]; then exec %s; fi; sleep %d; done",
		j.Quote(with(j.Merge, folder)), tries, j.Quote(with(j.Merge, "--partial", folder)), int(pause.Seconds()))
	image := "normbench and a shell"
	if j.GPU {
		image = "normbench, NVRTC and a shell"
	}
	if len(j.Files) > 0 {
		image += ", and in its working folder " + strings.Join(j.Files, ", ")
	}
	return j.title("Fill in IMAGE, twice: one that has "+image+".",
		"The volume must be one that several nodes write. Then `kubectl create -f FILE`.") +
		fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: normbench
spec:
  accessModes: [ReadWriteMany]
  # storageClassName: such as one of NFS, CephFS or EFS; without it, what the cluster has as default
  resources:
    requests:
      storage: 10Gi
---
apiVersion: batch/v1
kind: Job
metadata:
  name: normbench
spec:
  completionMode: Indexed
  completions: %[1]d
  parallelism: %[1]d
  backoffLimitPerIndex: 2
  template:
    spec:
      restartPolicy: Never
      activeDeadlineSeconds: %[2]d
      containers:
      - name: sweep
        image: IMAGE
        command: %[3]s
        env:
        - name: JOB_COMPLETIONS
          value: "%[1]d"
        resources:
          limits:
%[4]s            cpu: "%[5]d"
            memory: %[6]dGi
        volumeMounts:
        - name: results
          mountPath: %[7]s
      volumes:
      - name: results
        persistentVolumeClaim:
          claimName: normbench
---
apiVersion: batch/v1
kind: Job
metadata:
  name: normbench-merge
spec:
  backoffLimit: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: merge
        image: IMAGE
        command: %[8]s
        resources:
          limits:
            cpu: "2"
            memory: 2Gi
        volumeMounts:
        - name: results
          mountPath: %[7]s
      volumes:
      - name: results
        persistentVolumeClaim:
          claimName: normbench
`, j.Shards, int(j.limit().Seconds()), list(with(j.Command, "--out", folder)...), gpu, shardCores,
			shardMemory, folder, list("/bin/sh", "-c", merge))
}
