package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels/launchmap"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// Join makes one table of two of one device. Neither their order nor how often one is joined matters: it
// takes the entry with better evidence for each problem, and joins the maps with launchmap.Join. Tool,
// date and protocol are those of the later table. Warm times are for comparison only: beside a cold
// table they are left out.
func Join(a, b *TunedTable) (*TunedTable, error) {
	if a.Device.ID != b.Device.ID || a.Device.SMs != b.Device.SMs {
		return nil, hint.Errorf("keep one tuned table per card", "a table of %s (%d SMs) does not merge with one of "+
			"%s (%d SMs)", a.Device.ID, a.Device.SMs, b.Device.ID, b.Device.SMs)
	}
	if hasLaterHead(b, a) {
		a, b = b, a
	}
	out := *a
	out.Schema, out.Entries = Schema, slices.Clone(a.Entries)
	runs := a.Runs
	if a.Protocol.Cold == b.Protocol.Cold {
		runs = launchmap.JoinRuns(a.Runs, b.Runs)
		for _, e := range b.Entries {
			if i, ok := a.find(e.Problem); !ok {
				out.Entries = append(out.Entries, e)
			} else if compareEvidence(&e, &out.Entries[i], runs) > 0 {
				out.Entries[i] = e
			}
		}
	}
	slices.SortFunc(out.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	out.Runs = out.keepUsedRuns(launchmap.JoinRuns(runs, nil))
	out.Noise = medianNoise(out.Entries)
	if a.Map != nil || b.Map != nil {
		var err error
		if out.Map, err = launchmap.Join(cmp.Or(a.Map, b.Map), cmp.Or(b.Map, a.Map)); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// JoinAll joins tables, at least one.
func JoinAll(tables []*TunedTable) (*TunedTable, error) {
	out := tables[0]
	for _, t := range tables { // the first with itself, too: one alone is written as several are
		var err error
		if out, err = Join(out, t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadSides reads a tuned table, or both sides of one in which git has left a conflict.
func ReadSides(path string) ([]*TunedTable, error) {
	data, err := textfile.ReadAny(path, textfile.Large)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), "`normbench sweep` and `normbench map learn` write tuned tables"),
			"tuned table %s: %w", path, durable.Cause(err))
	}
	ours, theirs, conflict := textfile.Sides(data)
	if !conflict {
		t, err := Read(path)
		return []*TunedTable{t}, err
	}
	var sides []*TunedTable
	for i, side := range [][]byte{ours, theirs} {
		t, err := parse(path+[]string{" (ours)", " (theirs)"}[i], side)
		if err != nil {
			return nil, err
		}
		sides = append(sides, t)
	}
	return sides, nil
}

// hasLaterHead says whether the joined table gets a's tool, date and protocol rather than b's: a cold
// table's before a warm one's, then the later one's.
func hasLaterHead(a, b *TunedTable) bool {
	head := func(t *TunedTable) []byte {
		h := TunedTable{Tool: t.Tool, Created: t.Created, Device: t.Device, Protocol: t.Protocol}
		text, _ := json.Marshal(&h)
		return text
	}
	if a.Protocol.Cold != b.Protocol.Cold {
		return a.Protocol.Cold
	}
	return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(head(a), head(b))) > 0
}

// compareEvidence orders two entries of a problem by their evidence: finals above a grid, a speedup with
// an interval, more samples, more variants that were measured, then the later run. It looks only at the
// entries and their runs, so that joining in any order gives the same.
func compareEvidence(a, b *Entry, runs []launchmap.RunSummary) int {
	when := func(e *Entry) time.Time {
		i := slices.IndexFunc(runs, func(r launchmap.RunSummary) bool { return r.ID == e.Run })
		if i < 0 {
			return time.Time{}
		}
		return runs[i].Time
	}
	known := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	text := func(e *Entry) string {
		data, _ := json.Marshal(e)
		return string(data)
	}
	return cmp.Or(known(a.Chosen != "")-known(b.Chosen != ""), len(a.SpeedupCI)-len(b.SpeedupCI),
		a.Samples-b.Samples, a.Variants.OK-b.Variants.OK, when(a).Compare(when(b)), strings.Compare(text(a), text(b)))
}

// medianNoise computes the table's noise as a fraction of the time: the median of its entries' noise, 0
// where none has any.
func medianNoise(entries []Entry) float64 {
	var noise []float64
	for i := range entries {
		if n := entries[i].Noise; n > 0 {
			noise = append(noise, n)
		}
	}
	if len(noise) == 0 {
		return 0
	}
	return math.Round(stats.Median(noise)*1e4) / 1e4
}
