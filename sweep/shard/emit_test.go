package shard

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
)

// The jobs of a sweep of all problems, as they are printed. k8stest decodes the one for Kubernetes by its types.
func TestEmittedJobs(t *testing.T) {
	j := NewBatchJob(defaults(t), 8, 1, 0)
	j.Command, j.Out = []string{"normbench", "sweep", "--device", "cuda", "--knob", "ctas=1,2", "--kernels", "my kernels"}, "out/my sweep"
	j.Merge, j.Program = []string{"normbench", "merge", "--kernels", "my kernels"}, "/opt/normbench"
	j.Files = []string{"my kernels"}
	j.Quote = func(words []string) string {
		for i, w := range words {
			if strings.Contains(w, " ") {
				words[i] = "'" + w + "'"
			}
		}
		return strings.Join(words, " ")
	}
	assert.Golden(t, filepath.Join("testdata", "job.sh"), j.Emit("slurm"))
	assert.Golden(t, filepath.Join("testdata", "job.yaml"), j.Emit("k8s"))
	j.GPU = false
	assert.That(t, !strings.Contains(j.Emit("slurm"), "gpu:") && !strings.Contains(j.Emit("k8s"), "nvidia.com/gpu"), "a GPU for a cpu")
}

// A job's limits follow what it is predicted to take.
func TestLimitsOfJobs(t *testing.T) {
	ps := defaults(t)
	short, long := NewBatchJob(ps, 8, 1, 0), NewBatchJob(ps, 8, 10, 0)
	assert.That(t, 9*short.Longest < long.Longest && short.limit() < long.limit(), "%v, %v", short, long)
	assert.That(t, short.limit() > 10*time.Minute, "%v", short.limit())
	assert.Equal(t, NewBatchJob(ps, 0, 1, 0).Shards, 2)
	assert.That(t, NewBatchJob(ps, 0, 100, 0).Shards > 10, "shards of a long sweep")
	assert.Equal(t, NewBatchJob(ps[:1], 0, 1, 0).Shards, 1)
	assert.Equal(t, NewBatchJob(ps, 3, 1, time.Hour).limit(), 190*time.Minute)
}

// A shard's command is that of any other, with its own --shard.
func TestCommandOfAShard(t *testing.T) {
	s, err := Parse("3/8")
	assert.NoError(t, err)
	for _, words := range []string{"normbench sweep --out x", "normbench sweep --shard 1/8 --out x", "normbench sweep --shard=1/8 --out x",
		"normbench sweep --out x -shard 1/8"} {
		assert.Equal(t, strings.Join(Command(strings.Fields(words), s), " "), "normbench sweep --out x --shard 3/8", words)
	}
	assert.Equal(t, strings.Join(Without([]string{"sweep", "--shapes", "8x8", "shard", "--shards", "3"}, "shard"), " "), "sweep --shapes 8x8 shard --shards 3")
}
