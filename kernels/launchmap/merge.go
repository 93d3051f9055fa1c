package launchmap

import (
	"cmp"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Preference says whether the new config of a box is faster than its old one beyond doubt.
type Preference func(b Box, old, next kernels.Variant) bool

// Merge makes one map of two maps of one device, cell by cell. If next was filled from all runs of old, and
// nobody wrote a cell of old by hand, next replaces the classes that it has. Otherwise a cell takes
// the config with better evidence, next's where the evidence is alike or where better says that it is
// faster. Tool, runs and protocol are next's.
func Merge(old, next *Map, better Preference) (*Map, error) {
	if old.Device.ID != next.Device.ID || old.Device.SMs != next.Device.SMs {
		return nil, hint.Errorf("keep one tuned table per device",
			"a map of %s does not merge with one of %s",
			old.Device.ID, next.Device.ID)
	}
	out, whole := *next, knowsRuns(next, old)
	out.Rasters, out.Sources, out.Runs = nil, map[string]string{}, slices.Clone(next.Runs)
	for _, r := range old.Rasters {
		if next.Raster(r.Class, r.Align) == nil {
			out.Rasters = append(out.Rasters, r)
		}
	}
	for i := range next.Rasters {
		r := &next.Rasters[i]
		if o := old.Raster(r.Class, r.Align); o != nil && !whole {
			r = mergeRasters(o, r, next.Device.SMs, better)
		}
		out.Rasters = append(out.Rasters, *r)
	}
	for _, r := range out.Rasters {
		for _, v := range r.Legend {
			out.Sources[v.Family] = cmp.Or(next.Sources[v.Family], old.Sources[v.Family])
		}
	}
	for _, r := range old.Runs {
		if !next.hasRun(r) {
			out.Runs = append(out.Runs, r)
		}
	}
	out.Sort()
	return &out, nil
}

// hasRun says whether the run is among the map's.
func (m *Map) hasRun(r RunSummary) bool {
	return slices.ContainsFunc(m.Runs, func(o RunSummary) bool { return o.ID == r.ID })
}

// knowsRuns says whether map m was filled from all runs of an old one, in which no cell was written by
// hand.
func knowsRuns(m, old *Map) bool {
	for i := range old.Rasters {
		if old.Rasters[i].Count(ByHand) > 0 {
			return false
		}
	}
	return len(old.Runs) > 0 && !slices.ContainsFunc(old.Runs, func(r RunSummary) bool { return !m.hasRun(r) })
}

// mergeRasters makes a raster with the lines and the bounds of both, and for each cell next's answer, or
// old's where it has better evidence and better does not prefer next's.
func mergeRasters(o, n *Raster, sms int, better Preference) *Raster {
	out := *n
	out.Legend, out.Lines, out.Problems = nil, nil, max(o.Problems, n.Problems)
	out.Rows = slices.Concat(n.Rows, o.Rows)
	slices.SortStableFunc(out.Rows, func(a, b Bound) int { return int(a.Last(sms) - b.Last(sms)) })
	out.Rows = slices.CompactFunc(out.Rows, func(a, b Bound) bool { return a.Last(sms) == b.Last(sms) })
	for _, l := range slices.Concat(o.Lines, n.Lines) {
		out.Lines = append(out.Lines, Band{From: l.From})
	}
	slices.SortFunc(out.Lines, func(a, b Band) int { return int(a.From - b.From) })
	out.Lines = slices.Compact(out.Lines)
	out.Clear()
	// Next's cells get their letters first: of more than there are letters old's give way.
	for _, mine := range []bool{true, false} {
		for i := range out.Lines {
			for j := range out.Rows {
				box := out.Box(i, j, sms)
				a, b := o.CellAt(box.MLo, box.NLo, sms), n.CellAt(box.MLo, box.NLo, sms)
				keep := a.Raster != nil && (b.Raster == nil || evidenceRank(a.Evidence()) > evidenceRank(b.Evidence()) &&
					!better(box, a.Variant, b.Variant))
				if mine && b.Raster != nil {
					out.Set(i, j, b.Variant, b.Evidence())
				} else if !mine && keep {
					out.Set(i, j, a.Variant, a.Evidence())
				}
			}
		}
	}
	return out.withUsedConfigs()
}

// evidenceRank orders evidence, the best last: a cell written by hand stays until somebody deletes it.
func evidenceRank(evidence byte) int {
	return slices.Index([]byte{Borrowed, Neighbour, Measured, ByHand}, evidence)
}
