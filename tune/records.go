package tune

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
)

// current goes through the outcomes that count for the table, problem by problem: those of its protocol,
// with today's code and today's launches.
func (f *Fold) current() iter.Seq[[]record.Outcome] {
	return f.byProblem(f.isCurrent)
}

// byProblem yields those of the table's protocol for which isOurs holds, problem by problem.
func (f *Fold) byProblem(isOurs func(*record.Outcome) bool) iter.Seq[[]record.Outcome] {
	info := f.table.Device
	now := f.records.LatestOutcomes(func(x *record.Outcome) bool {
		return x.BaseOf == f.table.BaseOf && x.Run.Protocol == f.table.Protocol && isOurs(x)
	})
	return func(yield func([]record.Outcome) bool) {
		for es := range now.ByProblem() {
			base, err := f.registry.Base(es[0].Problem, info)
			has := slices.ContainsFunc(es, func(x record.Outcome) bool { return x.Variant == base })
			// A recording may lack today's base, and its search had another.
			if has || !strings.HasPrefix(info.ID, replay.Prefix) {
				for i := range es {
					es[i].Base = err == nil && es[i].Variant == base
				}
			}
			if !yield(es) {
				return
			}
		}
	}
}

// isCurrent says whether an outcome was measured with today's code.
func (f *Fold) isCurrent(x *record.Outcome) bool {
	if x.Variant.Family == record.Stream {
		return true
	}
	code, err := sweep.HashCode(f.registry, f.id, x.Problem, x.Variant, x.Run.Device)
	return err == nil && x.Is(code)
}

// AddHistory gives a search the fastest variants that the records have of the same kernels on the same
// kind of device, to start from.
func (f *Fold) AddHistory(h *search.History) {
	best := map[kernels.Problem]float64{}
	cold := func(x *record.Outcome) bool { return x.BaseOf == f.table.BaseOf && x.Run.Protocol.Cold }
	for _, x := range slices.Concat(f.records.LatestOutcomes(cold), f.records.SearchOutcomes(cold)) {
		if x.Status != kernels.StatusOK || x.StreamUS <= 0 || !x.Rivals() || x.Run.Device.ID != f.table.Device.ID ||
			x.Variant.Family == record.Stream || f.id.SourceOf(x.Variant.Family) != x.Source {
			continue
		}
		if time := x.Median / x.StreamUS; best[x.Problem] == 0 || time < best[x.Problem] {
			best[x.Problem] = time
			h.AddWinner(x.Problem, x.Variant)
		}
	}
}

// countVariants counts the variants that the searches before the finals measured, and completes the
// table. It returns notes for a person.
func (f *Fold) countVariants() (notes []string) {
	f.table.countSearched(f.searched(f.isCurrent))
	return f.table.complete()
}

// searched lists what the searches before the table's finals measured, of those for which isOurs holds.
func (f *Fold) searched(isOurs func(*record.Outcome) bool) record.Outcomes {
	searching := f.table.Protocol
	searching.Phase = record.PhaseSearch
	return f.records.SearchOutcomes(func(x *record.Outcome) bool {
		p := x.Run.Protocol
		p.Samples = searching.Samples // a search has its own
		return x.BaseOf == f.table.BaseOf && x.Rivals() && p == searching && isOurs(x)
	})
}

// complete sets the fields that summarize all entries, such as the noise, and returns notes for a
// person.
func (t *TunedTable) complete() (notes []string) {
	unstable := 0
	for i := range t.Entries {
		if t.Entries[i].Unstable {
			unstable++
		}
	}
	if noise := medianNoise(t.Entries); noise > 0 {
		t.Noise = noise
	}
	if unstable > 0 {
		notes = append(notes, fmt.Sprintf("%s give other bits from run to run; see \"unstable\" in %s",
			console.Count(unstable, "winner"), FileName))
	}
	return notes
}
