package lab

import (
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
	"normbench/sweep/shapes"
	"normbench/sweep/shard"
)

// newReplay opens a replay of a recording, with one seed for all that is drawn.
func newReplay(t *testing.T, recorded string) (*Lab, []kernels.Device) {
	l := New(t.Context(), console.New(t.Context(), nil, io.Discard), families.New(), func() {})
	devices, err := l.Open(&OpenOptions{Device: "replay:" + recorded, Cache: "cold", Seed: 7, Jobs: -1})
	assert.NoError(t, err)
	t.Cleanup(func() { Close(devices) })
	return l, devices
}

// newSweep is a sweep of a replay. s is nil for all its problems.
func newSweep(l *Lab, devices []kernels.Device, out, strategy string, problems []kernels.Problem, s *record.Shard) *SweepTask {
	info := devices[0].Info()
	task := &SweepTask{Config: &OpenOptions{}, Devices: devices, Problems: problems, Out: out, Shard: s,
		Options: sweep.RunOptions{Run: l.NewRun(info, sweep.ColdProtocol(info, 20)), Seed: 7}}
	task.Search.Strategy = strategy
	if s != nil {
		task.Out = filepath.Join(out, s.Folder())
	}
	return task
}

// A memorySink keeps nothing.
type memorySink struct{}

func (memorySink) AppendAll(...interface{ CheckValid() error }) error { return nil }
func (memorySink) Status(string) (kernels.Status, bool)               { return "", false }

// The searches of the group default, replayed on the times of an H200: the device of the longest of 8 shards
// is at work for at most 1.15 times the mean. What compiling takes is not in it.
func TestReplayedShardsTakeTheSameTime(t *testing.T) {
	l, devices := newReplay(t, filepath.Join("..", "results", "nvidia-h200"))
	problems, err := (&shapes.Selection{}).Problems("default")
	assert.NoError(t, err)
	s := newSweep(l, devices, t.TempDir(), search.Auto, problems, nil)
	for _, p := range problems { // to lay out all spaces takes ten seconds, and a replay has what was recorded
		recorded, _ := devices[0].(*replay.Device).Variants(p)
		base, err := l.Registry.Base(p, devices[0].Info())
		assert.NoError(t, err)
		x := sweep.Task{Problem: p, Base: base, Variants: []kernels.Variant{base}}
		for _, v := range recorded {
			if v != base {
				x.Variants = append(x.Variants, v)
			}
		}
		s.Tasks = append(s.Tasks, x)
	}
	s.Search.Rounds, s.Search.Finals = sweep.FinalRounds, 8
	s.Options.SearchBy(&s.Search.SearchOptions)
	s.Search.Known = &search.History{}
	var longest, sum time.Duration
	for _, mine := range shard.Split(problems, 8) {
		tasks := slices.DeleteFunc(slices.Clone(s.Tasks), func(x sweep.Task) bool { return !slices.Contains(mine, x.Problem) })
		got, err := sweep.Run(t.Context(), l.Registry, devices, tasks, memorySink{}, s.Options)
		assert.NoError(t, err)
		assert.Equal(t, got.Problems, len(mine))
		longest, sum = max(longest, got.Busy), sum+got.Busy
	}
	over := longest.Seconds() / (sum.Seconds() / 8)
	t.Logf("the longest of 8 shards of %d problems takes %.3f of the mean", len(problems), over)
	assert.That(t, over <= 1.15, "the longest of 8 shards takes %.3f times the mean", over)
}

// A shard has the tasks that a sweep of all would have, and its part of a budget of configs.
func TestShardKeepsItsTasks(t *testing.T) {
	l, devices := newReplay(t, filepath.Join("..", "results", "nvidia-h200", "grids"))
	problems, err := (&shapes.Selection{Shapes: "65536x256,8192x4096,2048x16384"}).Problems("")
	assert.NoError(t, err)
	whole := newSweep(l, devices, t.TempDir(), search.Auto, problems, nil)
	assert.NoError(t, l.LayOut(whole))
	var got []sweep.Task
	budget := 0
	for i := range 5 {
		s := newSweep(l, devices, t.TempDir(), search.Auto, problems, &record.Shard{Index: i + 1, Count: 5})
		s.Search.Budget.Configs = 120
		assert.NoError(t, l.LayOut(s))
		got = append(got, s.Tasks...)
		budget += s.Options.Search.Budget.Configs
		assert.Equal(t, s.Options.Run.Protocol.Search, "auto 120configs", "the protocol of all shards")
		assert.Same(t, s.Options.Search.Final.Shard, s.Shard)
		assert.Same(t, s.Options.Run.Shard, s.Shard)
	}
	assert.Equal(t, budget, 120)
	assert.Equal(t, len(got), len(whole.Tasks))
	for _, x := range whole.Tasks {
		i := slices.IndexFunc(got, func(y sweep.Task) bool { return y.Problem == x.Problem })
		assert.That(t, i >= 0 && slices.Equal(got[i].Variants, x.Variants) && got[i].Base == x.Base, "%s", x.Problem)
	}
}
