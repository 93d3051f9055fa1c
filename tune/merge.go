package tune

import (
	"cmp"
	"slices"

	"normbench/kernels"
	"normbench/sweep/record"
)

// MinGain is the least that a new entry must be faster than the one it replaces,
// relatively and at the lower bound of its interval: a table that changes with
// the noise of every sweep cannot be reviewed. (aiter's script asks for 3%.)
const MinGain = 0.02

// merge returns old with those entries of next that are for other problems, or that may replace
// old's, and how many of old's they replaced; see replaces. source is the hash of a family's code
// now: what old's entry of another was measured with is gone. What is about the whole table is
// next's, the map old's: launchmap.Merge merges maps. Warm times are for comparison only: of a warm table
// nothing stays beside a cold one.
func merge(old, next *TunedTable, source func(family string) string) (t *TunedTable, replaced int) {
	if !old.Protocol.Cold && next.Protocol.Cold {
		return next, len(old.Entries)
	}
	t = new(*next)
	t.Map = cmp.Or(old.Map, next.Map)
	t.Entries = slices.Clone(next.Entries)
	for _, o := range old.Entries {
		i, there := next.find(o.Problem)
		switch {
		case !there:
			t.Entries = append(t.Entries, o)
		case source(o.Family) == o.Source && !replaces(&o, &next.Entries[i]):
			t.Entries[i] = o
		case o.Variant() != next.Entries[i].Variant():
			replaced++
		}
	}
	slices.SortFunc(t.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	t.Runs = t.keepNamed(slices.Concat(old.Runs, next.Runs))
	return t, replaced
}

// replaces says whether e may take the place of o: another measurement of the
// same variant, of the same kernels under as good a protocol; or another variant
// that is faster by MinGain at the lower bound, from the rounds of both where
// there are some, else from the intervals of both, else not at all. An entry of other
// sources than those of the same family now is out of date, and replaced.
func replaces(o, e *Entry) bool {
	switch {
	case o.Family == e.Family && o.Source != e.Source:
		return true
	case o.Variant() == e.Variant():
		return e.Chosen != "" || o.Chosen == "" && e.Samples >= o.Samples
	}
	if h := e.Held; h != nil && (kernels.Variant{Family: h.Family, Config: h.Config}) == o.Variant() {
		return h.GainLo >= MinGain
	}
	if len(o.CIUS) == 2 && len(e.CIUS) == 2 {
		return o.CIUS[0]/e.CIUS[1]-1 >= MinGain
	}
	return false
}
