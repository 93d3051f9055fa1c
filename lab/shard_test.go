package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"normbench/tune"
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

// Each of three shards of a recorded grid is swept by itself, on two cards. Merged in any order, and again, they have the bytes
// of one folder, and the entries of the shards' tables. The records of one sweep over all, in three folders, merge into
// its table.
func TestMergedShardsHaveTheTableOfOneSweep(t *testing.T) {
	for _, strategy := range []string{search.Grid, search.Random} {
		l, devices := newReplay(t, filepath.Join("..", "results", "nvidia-h200", "grids"))
		problems := devices[0].(*replay.Device).Problems()
		slices.SortFunc(problems, record.CompareProblems)
		problems = problems[:5]
		root := t.TempDir()
		one, parts := filepath.Join(root, "one"), filepath.Join(root, "parts")
		run := func(out string, s *record.Shard) {
			task := newSweep(l, devices, out, strategy, problems, s)
			task.Options.Run.Command = []string{"normbench", "sweep"}
			task.Search.Budget.Share = 0.1
			if s != nil {
				task.Options.Run.Device.UUID = fmt.Sprint("GPU-", s.Index%2)
			}
			assert.NoError(t, l.LayOut(task))
			_, err := l.Sweep(task)
			assert.NoError(t, err)
		}
		run(one, nil)
		folders := []string{}
		for i := range 3 {
			run(parts, &record.Shard{Index: i + 1, Count: 3})
			folders = append(folders, filepath.Join(parts, (&record.Shard{Index: i + 1, Count: 3}).Folder()))
			if i < 2 {
				_, err := l.Merge(&MergeTask{Folders: []string{parts}, Out: parts, Quote: quoted})
				assert.That(t, strings.Contains(assert.Refusal(t, err), "missing"), "%v", err)
			}
		}
		merge := func(out string, folders ...string) (records, table string) {
			sum, err := l.Merge(&MergeTask{Folders: folders, Out: out, Quote: quoted})
			assert.NoError(t, err)
			assert.Equal(t, sum.Problems, len(problems))
			assert.Equal(t, sum.Entries, len(problems))
			assert.Equal(t, sum.Cards, 2)
			dir := filepath.Join(out, sum.Device.ID)
			return string(assert.File(t, filepath.Join(dir, record.FileName))), string(assert.File(t, filepath.Join(dir, tune.FileName)))
		}
		records, table := merge(parts, parts)
		for _, order := range [][]string{{folders[2], folders[0], folders[1]}, {parts, folders[1]}, {parts}} {
			r, x := merge(filepath.Join(t.TempDir(), "out"), order...)
			assert.Equal(t, r, records)
			assert.Equal(t, x, table)
		}
		// Two of them first.
		half := filepath.Join(t.TempDir(), "half")
		_, err := l.Merge(&MergeTask{Folders: folders[1:], Out: half, Partial: true, Quote: quoted})
		assert.NoError(t, err)
		r, x := merge(half, half, folders[0])
		assert.Equal(t, r, records)
		assert.Equal(t, x, table)
		id := devices[0].Info().ID
		got, err := tune.Read(filepath.Join(parts, id, tune.FileName))
		assert.NoError(t, err)
		want := &tune.TunedTable{}
		for _, folder := range folders {
			x, err := tune.Read(filepath.Join(folder, id, tune.FileName))
			assert.NoError(t, err)
			want.Entries = append(want.Entries, x.Entries...)
		}
		slices.SortFunc(want.Entries, func(a, b tune.Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
		assert.Equal(t, len(got.Entries), len(want.Entries))
		for i := range got.Entries {
			x, y := got.Entries[i], want.Entries[i]
			xs, err := json.Marshal(x)
			assert.NoError(t, err)
			ys, err := json.Marshal(y)
			assert.NoError(t, err)
			assert.Equal(t, string(xs), string(ys), strategy)
		}
		// What one sweep over all has recorded, in three folders: they have its table.
		text := string(assert.File(t, filepath.Join(one, id, record.FileName)))
		folders = nil
		for _, mine := range shard.Split(problems, 3) {
			folder := filepath.Join(t.TempDir(), "part")
			kept := ""
			for line := range strings.Lines(text) {
				if strings.Contains(line, `"kind":"run"`) || slices.ContainsFunc(mine, func(p kernels.Problem) bool {
					return strings.Contains(line, `"problem":"`+p.String()+`"`)
				}) {
					kept += line
				}
			}
			assert.NoError(t, os.MkdirAll(filepath.Join(folder, id), 0o755))
			assert.Write(t, filepath.Join(folder, id, record.FileName), kept)
			folders = append(folders, folder)
		}
		joined := t.TempDir()
		_, err = l.Merge(&MergeTask{Folders: folders, Out: joined, Quote: quoted})
		assert.NoError(t, err)
		var tables []string
		for _, folder := range []string{joined, one} {
			x, err := tune.Read(filepath.Join(folder, id, tune.FileName))
			assert.NoError(t, err)
			x.Created = time.Unix(0, 0)
			text, err := x.Text()
			assert.NoError(t, err)
			tables = append(tables, string(text))
		}
		assert.Equal(t, tables[0], tables[1], strategy)
		// And a grid over all has nothing left to do there.
		if strategy != search.Grid {
			continue
		}
		again := newSweep(l, devices, parts, strategy, problems, nil)
		again.Search.Budget.Share = 0.1
		assert.NoError(t, l.LayOut(again))
		before := string(assert.File(t, filepath.Join(parts, id, record.FileName)))
		_, err = l.Sweep(again)
		assert.NoError(t, err)
		assert.Equal(t, string(assert.File(t, filepath.Join(parts, id, record.FileName))), before)
	}
}

func quoted(words []string) string { return strings.Join(words, " ") }

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
