package tune

import (
	"math"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// AddMerged adds the entries for what merged records hold of one problem. All are of one version of the kernels. What
// is picked is held to today's code whole, the others to their sources.
func (f *Fold) AddMerged(records *record.File) {
	f.records = records
	ours := func(x *record.Outcome) bool {
		return x.Variant.Family == record.Stream || f.id.SourceOf(x.Variant.Family) == x.Source
	}
	for es := range f.byProblem(ours) {
		calibrate(es)
		part := &TunedTable{Entries: slices.DeleteFunc(Pick(es), func(e Entry) bool {
			i := slices.IndexFunc(es, func(x record.Outcome) bool { return x.Variant == e.Variant() })
			return i < 0 || !f.isCurrent(&es[i])
		})}
		part.countSearched(f.searched(ours))
		f.table.Entries = append(f.table.Entries, part.Entries...)
	}
}

// calibrate puts the times of a problem that several cards measured on the scale of one of them, the one with most
// records: a card whose stream takes longer has its times divided by as much. Streams within the noise of
// each other leave the times as they are, and so do finals, which are of one card.
func calibrate(es []record.Outcome) {
	streams, count := map[string][]float64{}, map[string]int{}
	for i := range es {
		if x := &es[i]; x.StreamUS > 0 {
			streams[Card(x.Run)] = append(streams[Card(x.Run)], x.StreamUS)
			count[Card(x.Run)]++
		}
	}
	most := ""
	for card, n := range count {
		if n > count[most] || n == count[most] && card > most {
			most = card
		}
	}
	for i := range es {
		x := &es[i]
		of := streams[Card(x.Run)]
		if len(of) == 0 || x.Final != nil {
			continue
		}
		scale := stats.Median(streams[most]) / stats.Median(of)
		if math.Abs(scale-1) <= CardNoise {
			continue
		}
		x.StreamUS *= scale
		x.SamplesUS = slices.Clone(x.SamplesUS)
		for j := range x.SamplesUS {
			x.SamplesUS[j] *= scale
		}
		x.Summary = stats.Summarize(x.SamplesUS)
	}
}

// WriteMerged writes the table, as of the last of the runs. In a table that is there, the entries of other problems
// stay, and the map. It does nothing without entries.
func (f *Fold) WriteMerged(runs []*record.Run) error {
	t := f.table
	if len(t.Entries) == 0 {
		return nil
	}
	slices.SortFunc(t.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	last := runs[len(runs)-1]
	t.Tool, t.Device, t.Created = last.Tool, last.Device, last.Time.Truncate(time.Second)
	t.addRuns(runs...)
	t.complete()
	return Update(f.at, func(now *TunedTable) (*TunedTable, error) {
		if now == nil {
			return t, nil
		}
		if err := now.CheckFamily(f.at.String(), t.BaseOf); err != nil {
			return nil, err
		}
		all := *t
		all.Map = now.Map
		mine := map[kernels.Problem]bool{}
		for i := range t.Entries {
			mine[t.Entries[i].Problem] = true
		}
		for _, e := range now.Entries {
			if !mine[e.Problem] {
				all.Entries = append(all.Entries, e)
			}
		}
		slices.SortFunc(all.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
		all.Runs = all.keepUsedRuns(slices.Concat(now.Runs, t.Runs))
		return &all, nil
	})
}

// Entries counts the table's entries.
func (f *Fold) Entries() int { return len(f.table.Entries) }

// Family returns the family that the table is of, "" for all.
func (f *Fold) Family() string { return f.table.BaseOf }
