package shard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
)

func TestParseShard(t *testing.T) {
	s, err := Parse("3/8")
	assert.NoError(t, err)
	assert.Same(t, s, &record.Shard{Index: 3, Count: 8})
	assert.Equal(t, s.String(), "3/8")
	assert.Equal(t, s.Folder(), "shard-3-of-8")
	s, err = Parse(Whole)
	assert.That(t, s == nil && err == nil, "%v, %v", s, err)
	for text, want := range map[string]string{
		"0/4": "--shard 0/4 is out of range", "5/4": "--shard 5/4 is out of range", "1/0": "--shard 1/0 is out of range",
		"-1/4": "--shard -1/4 is out of range", "3": `malformed --shard "3"`, "a/b": `malformed --shard "a/b"`,
		"1/2/3": `malformed --shard "1/2/3"`, "1/1000000": "--shard 1/1000000 is out of range",
		"1/99999999999999999999": `malformed --shard "1/99999999999999999999"`,
	} {
		_, err := Parse(text)
		assert.Refused(t, err, want)
	}
}

// What Slurm, Kubernetes, GitLab, CircleCI and Buildkite set, with counts from 0, from 1 and with steps.
func TestShardOfAScheduler(t *testing.T) {
	slurm := func(id, count, first string, more ...string) []string {
		return append([]string{"SLURM_ARRAY_TASK_ID", id, "SLURM_ARRAY_TASK_COUNT", count, "SLURM_ARRAY_TASK_MIN", first}, more...)
	}
	for _, x := range []struct {
		set  []string
		want string // the shard and its variable, or the error
	}{
		{nil, ""},
		{slurm("0", "8", "0"), "1/8 SLURM_ARRAY_TASK_ID"},
		{slurm("8", "8", "1"), "8/8 SLURM_ARRAY_TASK_ID"},
		{slurm("20", "4", "5", "SLURM_ARRAY_TASK_STEP", "5"), "4/4 SLURM_ARRAY_TASK_ID"},
		{slurm("3", "1", "3"), ""}, // one task of an array that is run again by itself
		{slurm("7", "3", "1", "SLURM_ARRAY_TASK_STEP", "1"), "SLURM_ARRAY_TASK_ID=7 of 3 does not say which shard this is: indices begin with 1"},
		{slurm("6", "4", "5", "SLURM_ARRAY_TASK_STEP", "5"), "SLURM_ARRAY_TASK_ID=6 of 4 does not say which shard this is: indices begin with 5"},
		{slurm("x", "3", "1"), `SLURM_ARRAY_TASK_ID is "x", and no number`},
		{[]string{"JOB_COMPLETION_INDEX", "0", "JOB_COMPLETIONS", "4"}, "1/4 JOB_COMPLETION_INDEX"},
		{[]string{"JOB_COMPLETION_INDEX", "0"}, "JOB_COMPLETION_INDEX is set, and JOB_COMPLETIONS is not"},
		{[]string{"JOB_COMPLETION_INDEX", "4", "JOB_COMPLETIONS", "4"}, "JOB_COMPLETION_INDEX=4 of 4 does not say which shard this is: indices begin with 0"},
		{[]string{"JOB_COMPLETION_INDEX", "0", "JOB_COMPLETIONS", "0"}, "JOB_COMPLETION_INDEX=0 of 0 does not say which shard this is: indices begin with 0"},
		{[]string{"CI_NODE_TOTAL", "1"}, ""}, // GitLab sets it for every job
		{[]string{"CI_NODE_INDEX", "4", "CI_NODE_TOTAL", "4"}, "4/4 CI_NODE_INDEX"},
		{[]string{"CIRCLE_NODE_INDEX", "3", "CIRCLE_NODE_TOTAL", "4"}, "4/4 CIRCLE_NODE_INDEX"},
		{[]string{"BUILDKITE_PARALLEL_JOB", "0", "BUILDKITE_PARALLEL_JOB_COUNT", "3"}, "1/3 BUILDKITE_PARALLEL_JOB"},
		// A job of CI that waits for an array of its own.
		{slurm("2", "4", "1", "CI_NODE_INDEX", "2", "CI_NODE_TOTAL", "4"), "2/4 SLURM_ARRAY_TASK_ID"},
		{slurm("2", "4", "1", "CI_NODE_INDEX", "1", "CI_NODE_TOTAL", "3"), "SLURM_ARRAY_TASK_ID says shard 2/4, and CI_NODE_INDEX says 1/3"},
	} {
		env := map[string]string{}
		for pair := range slices.Chunk(x.set, 2) {
			env[pair[0]] = pair[1]
		}
		s, by, err := FromEnv(func(name string) string { return env[name] })
		got := ""
		if s != nil {
			got = s.String() + " " + by
		}
		if err != nil {
			got, _, _ = strings.Cut(assert.Refusal(t, err), "\n")
		}
		assert.Equal(t, got, x.want, x.set)
	}
}

// defaults lays out the problems of `sweep` on a GPU.
func defaults(t *testing.T) []kernels.Problem {
	ps, err := (&shapes.Selection{}).Problems("default")
	assert.NoError(t, err)
	return ps
}

// Each problem is of one shard, whatever their order, and shards keep it.
func TestShardsOfOneCommandDoNotOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ps := defaults(t)
	for _, n := range []int{2, 3, 8, 64, 300} {
		want := Split(ps, n)
		mixed := slices.Clone(ps)
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		of := map[kernels.Problem]int{}
		for i, one := range Split(mixed, n) {
			for _, p := range one {
				_, twice := of[p]
				assert.That(t, !twice && slices.Contains(want[i], p), "%s is in shard %d of %d too", p, i+1, n)
				of[p] = i
			}
			assert.That(t, len(one) == len(want[i]) && (len(one) > 0) == (i < len(ps)), "%d in shard %d of %d", len(one), i+1, n)
			s := &record.Shard{Index: i + 1, Count: n}
			assert.Same(t, Of(s, mixed), one)
		}
		assert.Equal(t, len(of), len(ps))
	}
}

// The plan of a command does not depend on the order of its problems, but on all else.
func TestPlansOfCommandsDiffer(t *testing.T) {
	ps := defaults(t)
	back := slices.Clone(ps)
	slices.Reverse(back)
	assert.Equal(t, Plan(ps, "sweep", "auto"), Plan(back, "sweep", "auto"))
	seen := map[string]bool{}
	for _, plan := range []string{Plan(ps, "sweep", "auto"), Plan(ps[1:], "sweep", "auto"), Plan(ps, "sweep", "grid"),
		Plan(ps, "sweep", "au", "to"), Plan(ps, "sweep"), Plan(nil, "sweep", "auto")} {
		assert.That(t, !seen[plan], "two commands have the plan %s", plan)
		seen[plan] = true
	}
}

// The sweeps of all problems that are recorded took what is predicted: on an H200 nearly to the second.
func TestPredictedTimesAreThoseOfSweeps(t *testing.T) {
	for _, card := range []string{"nvidia-h200", "nvidia-h100-80gb-hbm3"} {
		var first *record.Run
		var last time.Time
		_, err := record.Read(filepath.Join("..", "..", "results", card), func(r *record.Record, run *record.Run) error {
			first = cmp.Or(first, run)
			if run.Time.Equal(first.Time) && r.Time.After(last) {
				last = r.Time
			}
			return nil
		})
		assert.NoError(t, err)
		share := PredictAll(defaults(t)).Seconds() / last.Sub(first.Time).Seconds()
		assert.That(t, share > 0.8 && share < 1.2, "%s: %.2f of what it took is predicted", card, share)
	}
}

func FuzzParseShard(f *testing.F) {
	for _, s := range []string{"1/1", "3/8", "0/4", "5/4", "x", "1/2/3", "+1/2", "1/ 2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil || s == nil {
			return
		}
		again, err := Parse(s.String())
		assert.NoError(t, err)
		assert.Same(t, again, s)
		_, err = json.Marshal(s)
		assert.That(t, err == nil && s.IsIn() && s.Count > 1, "%s", fmt.Sprint(s, err))
	})
}
