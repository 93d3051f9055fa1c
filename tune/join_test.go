package tune

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/launchmap"
)

// drawnTable is a random table of an H200: entries and cells with few values, so that much is alike.
func drawnTable(t *testing.T, r *rand.Rand) *TunedTable {
	tab := table(t)
	tab.Created = tab.Created.Add(time.Duration(r.IntN(3)) * time.Hour)
	tab.Tool, tab.Protocol.Cold, tab.Entries, tab.Noise = fmt.Sprint("v", r.IntN(3)), r.IntN(5) > 0, nil, 0
	for i := range 6 {
		if r.IntN(3) == 0 {
			continue
		}
		run := r.IntN(4)
		e := Entry{Problem: devicetest.Problem(t, fmt.Sprintf("rmsnorm/fwd/%dx64/bf16", 1+i)), Family: "f",
			Config: devicetest.Config(t, fmt.Sprint("w", 1+r.IntN(3))), Source: "s", MedianUS: float64(1 + r.IntN(3)),
			Samples: 6 + r.IntN(2), Run: fmt.Sprint("run", run), Noise: float64(r.IntN(3)) / 100,
			Variants: Counts{Measured: 3, OK: 2 + r.IntN(2)}}
		if r.IntN(2) == 0 {
			e.Chosen = "fastest"
		}
		tab.Entries = append(tab.Entries, e)
		tab.Runs = append(tab.Runs, launchmap.RunSummary{ID: e.Run, Time: time.Unix(int64(run/2), 0).UTC(), Tool: "v"})
	}
	tab.Runs = tab.keepUsedRuns(tab.Runs)
	if r.IntN(4) == 0 {
		return tab
	}
	m := &launchmap.Map{Device: tab.Device, Tool: tab.Tool, Created: tab.Created,
		Sources: map[string]string{"f": fmt.Sprint("s", r.IntN(2))}}
	for _, c := range launchmap.Classes()[:2] {
		if r.IntN(4) == 0 {
			continue
		}
		x := launchmap.Blank(c, 16, tab.Device.SMs)
		x.Lines, x.Rows = x.Lines[:1+r.IntN(4)], launchmap.Bounds{{Rows: 4}, {Rows: 264}, {Rows: launchmap.MaxM}}
		if r.IntN(2) == 0 {
			x.Rows = launchmap.Bounds{{Rows: 16}, {PerSM: 200}, {PerSM: 400}, {Rows: launchmap.MaxM}}
		}
		x.Clear()
		x.Problems, x.Regret = r.IntN(2), float64(r.IntN(2))
		for line := range x.Lines {
			for cell := range x.Rows {
				if r.IntN(5) > 0 {
					x.Set(line, cell, kernels.Variant{Family: "f", Config: devicetest.Config(t, fmt.Sprint("w", 1+r.IntN(4)))},
						"mnbh"[r.IntN(4)])
				}
			}
		}
		m.Rasters = append(m.Rasters, *x)
	}
	m.Sort()
	tab.Map = m
	return tab
}

// joined is what joining makes of tables as files: each step is written and read.
func joined(t *testing.T, tables ...*TunedTable) *TunedTable {
	x, err := JoinAll(tables)
	assert.NoError(t, err)
	text, err := x.Text()
	assert.NoError(t, err)
	again, err := parse("joined", text)
	assert.NoError(t, err)
	return again
}

func textOf(t *testing.T, x *TunedTable) string {
	text, err := x.Text()
	assert.NoError(t, err)
	return string(text)
}

// Tables join to the same bytes in any order, in any grouping, and however often one of them comes.
func TestJoinIsTheSameInAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	kept := 0
	for range 60 {
		tables := []*TunedTable{drawnTable(t, r), drawnTable(t, r), drawnTable(t, r), drawnTable(t, r)}
		whole := joined(t, tables...)
		want := textOf(t, whole)
		mixed := slices.Clone(tables)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		for name, got := range map[string]*TunedTable{
			"another order":    joined(t, mixed...),
			"pairs":            joined(t, joined(t, mixed[0], mixed[1]), joined(t, mixed[2], mixed[3])),
			"from the right":   joined(t, mixed[0], joined(t, mixed[1], joined(t, mixed[2], mixed[3]))),
			"each twice":       joined(t, append(mixed, tables...)...),
			"again":            joined(t, whole),
			"one of them more": joined(t, whole, mixed[0]),
		} {
			assert.Must(t, textOf(t, got) == want, "seed %d, %s: %s", seed, name, textOf(t, got)+"\nwant\n"+want)
		}
		// Nothing is lost: each problem of a table of its protocol, and each cell by hand.
		for _, x := range tables {
			for _, e := range x.Entries {
				if _, ok := whole.Lookup(e.Problem); x.Protocol.Cold == whole.Protocol.Cold {
					assert.Must(t, ok, "seed %d: %s is lost", seed, e.Problem)
					kept++
				}
			}
			if x.Map == nil {
				continue
			}
			for i := range x.Map.Rasters {
				for box, a := range x.Map.Rasters[i].Cells(x.Device.SMs) {
					b := whole.Map.Raster(box.Class, box.Align).CellAt(box.MHi, box.NLo, x.Device.SMs)
					assert.Must(t, a.Evidence() != launchmap.ByHand || b.Evidence() == launchmap.ByHand,
						"seed %d: a cell by hand is lost: %+v", seed, box)
				}
			}
		}
	}
	assert.That(t, kept > 0, "no entry")
}

// The better-evidenced entry stays.
func TestJoinKeepsTheBetterEvidence(t *testing.T) {
	entry := Entry{Problem: devicetest.Problem(t, p1), Family: "f", Config: devicetest.Config(t, "w4"), MedianUS: 3,
		Samples: 20, Run: "old"}
	runs := []launchmap.RunSummary{{ID: "old", Time: time.Unix(1, 0)}, {ID: "new", Time: time.Unix(2, 0)}}
	for name, better := range map[string]func(e *Entry){
		"finals":   func(e *Entry) { e.Chosen, e.Samples = "fastest", 6 },
		"interval": func(e *Entry) { e.SpeedupCI, e.Samples = []float64{1, 2}, 6 },
		"samples":  func(e *Entry) { e.Samples = 21 },
		"variants": func(e *Entry) { e.Variants.OK = 9 },
		"later":    func(e *Entry) { e.Run = "new" },
	} {
		x, y := table(t), table(t)
		e := entry
		better(&e)
		x.Entries, y.Entries, x.Runs, y.Runs = []Entry{entry}, []Entry{e}, runs, runs
		assert.Same(t, joined(t, x, y).Entries, joined(t, y).Entries, name, sameConfig)
	}
}

// Both sides of a conflict of git are merged; every other reader refuses the file and names the command. Tables of
// different cards are refused.
func TestBothSidesOfAGitConflictAreMerged(t *testing.T) {
	a, b := table(t), table(t)
	a.Entries, b.Entries = a.Entries[:1], b.Entries[1:]
	lines := func(x *TunedTable) []string { return strings.SplitAfter(textOf(t, x), "\n") }
	la, lb := lines(a), lines(b)
	same := 0
	for same < len(la) && same < len(lb) && la[same] == lb[same] {
		same++
	}
	text := strings.Join(la[:same], "") + "<<<<<<< HEAD\n" + strings.Join(la[same:], "") +
		"||||||| 123abc\n{\n=======\n" + strings.Join(lb[same:], "") + ">>>>>>> other\n"
	path := filepath.Join(t.TempDir(), "tuned.json")
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	sides, err := ReadSides(path)
	assert.NoError(t, err)
	assert.Equal(t, textOf(t, joined(t, sides...)), textOf(t, joined(t, a, b)))
	assert.Must(t, len(joined(t, sides...).Entries) == len(table(t).Entries), "not the entries of both")
	_, err = Read(path)
	assert.Refused(t, err, "conflict markers of git")
	assert.That(t, strings.Contains(hint.Of(err), "normbench merge"), "%s", hint.Of(err))
	assert.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, "{\n", "<<", 1)), 0o644))
	_, err = ReadSides(path)
	assert.Refused(t, err, "(ours)")
	b.Device.ID = "nvidia-b200"
	_, err = JoinAll([]*TunedTable{a, b})
	assert.Refused(t, err, "does not merge with one of")
	assert.That(t, !bytes.Contains([]byte(err.Error()), []byte("\n")), "%v", err)
}
