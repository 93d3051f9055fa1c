package tune

import (
	"cmp"
	"slices"

	"normbench/kernels"
	"normbench/sweep/record"
)

// MinGain is the fraction by which a new entry must be faster than the one it replaces, at the lower
// bound of its interval: a table that changes with the noise of every sweep cannot be reviewed. (aiter's
// script asks for 3%.)
const MinGain = 0.02

// merge adds to next those entries of old that are for other problems, or that next's may not replace
// (see replaces). replaced counts the entries of old that another variant replaced. source returns the
// hash of a family's code now: an entry that was measured with other code is always replaced.
//
// Entries of a width that has one config now (Entry.BatchInvariant) replace all that old has of the width. What
// old has of a width whose config is no more the only one, is one of several.
//
// Tool, date and protocol are next's, the map old's: launchmap.Merge merges maps. Warm times are for
// comparison only: a cold table keeps nothing of a warm one.
func merge(old, next *TunedTable, source func(family string) string) (t *TunedTable, replaced int) {
	if !old.Protocol.Cold && next.Protocol.Cold {
		return next, len(old.Entries)
	}
	t = new(*next)
	t.Map = cmp.Or(old.Map, next.Map)
	t.Entries = slices.Clone(next.Entries)
	one := map[kernels.Problem]bool{} // whether a width has one config, of those that next has
	for _, e := range next.Entries {
		one[WidthOf(e.Problem)] = e.BatchInvariant > 0
	}
	for _, o := range old.Entries {
		i, there := next.find(o.Problem)
		now, known := one[WidthOf(o.Problem)]
		if known && !now {
			o.BatchInvariant = 0
		}
		switch {
		case now:
			if !there || o.Variant() != next.Entries[i].Variant() {
				replaced++
			}
		case !there:
			t.Entries = append(t.Entries, o)
		case source(o.Family) == o.Source && !replaces(&o, &next.Entries[i]):
			t.Entries[i] = o
		case o.Variant() != next.Entries[i].Variant():
			replaced++
		}
	}
	slices.SortFunc(t.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	t.Runs = t.keepUsedRuns(slices.Concat(old.Runs, next.Runs))
	return t, replaced
}

// replaces says whether entry e may take the place of o. It may if it is another measurement of the same
// variant under as good a protocol, or if o's source is out of date. Another variant must be faster by
// MinGain at the lower bound: by the rounds of both where there are some, else by the intervals of both.
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
