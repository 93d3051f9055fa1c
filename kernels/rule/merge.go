package rule

import (
	"encoding/json"
	"maps"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Merge is the cells of two maps of one device. Where both have one with another config the better-evidenced stays, next's of two that are
// alike, unless faster, which may be nil, knows from the records of next which of the two is. Stale says which families' sources
// have changed since old: their cells give way. What is about the whole map is next's.
func Merge(old, next *Map, stale func(family string) bool, faster func(c Class, nLo, nHi, mLo, mHi int64, old, next kernels.Variant) (is, known bool)) (*Map, error) {
	if old.Device.ID != next.Device.ID || old.Device.SMs != next.Device.SMs {
		return nil, hint.Errorf("keep one tuned table per device", "a map of %s does not merge with one of %s", old.Device.ID, next.Device.ID)
	}
	out := *next
	out.Rasters = nil
	for i := range old.Rasters {
		if r := &old.Rasters[i]; next.Raster(r.Class, r.Align) == nil {
			out.Rasters = append(out.Rasters, *r)
		}
	}
	for i := range next.Rasters {
		n := &next.Rasters[i]
		o := old.Raster(n.Class, n.Align)
		if o == nil {
			out.Rasters = append(out.Rasters, *n)
			continue
		}
		out.Rasters = append(out.Rasters, *mergeRasters(o, n, next.Device.SMs, stale, faster))
	}
	out.Sources = maps.Clone(old.Sources)
	if out.Sources == nil {
		out.Sources = map[string]string{}
	}
	maps.Copy(out.Sources, next.Sources)
	out.Runs = joinRuns(old.Runs, next.Runs)
	out.Sort()
	return &out, nil
}

func mergeRasters(o, n *Raster, sms int, stale func(string) bool, faster func(Class, int64, int64, int64, int64, kernels.Variant, kernels.Variant) (bool, bool)) *Raster {
	out := &Raster{Class: n.Class, Align: n.Align, Problems: max(o.Problems, n.Problems), Regret: n.Regret}
	out.Rows = append(slices.Clone(o.Rows), n.Rows...)
	slices.SortStableFunc(out.Rows, func(a, b Bound) int { return int(a.Last(sms) - b.Last(sms)) })
	out.Rows = slices.CompactFunc(out.Rows, func(a, b Bound) bool { return a.Last(sms) == b.Last(sms) })
	var froms []int64
	for _, l := range slices.Concat(o.Lines, n.Lines) {
		froms = append(froms, l.From)
	}
	sortUnique(&froms)
	type kept struct {
		v kernels.Variant
		e byte
	}
	cells := make([][]kept, len(froms))
	for i, from := range froms {
		out.Lines = append(out.Lines, Line{From: from})
		cells[i] = make([]kept, len(out.Rows))
	}
	for i, from := range froms {
		for j := range out.Rows {
			nLo, nHi, mLo, mHi := out.Span(i, j, sms)
			a, b := o.cellAt(mLo, from, sms), n.cellAt(mLo, from, sms)
			next := b.Variant.Family != ""
			if next && a.Variant.Family != "" && a.Variant != b.Variant && !(stale != nil && stale(a.Variant.Family)) {
				next = rank(b.Evidence()) >= rank(a.Evidence())
				if faster != nil {
					if is, known := faster(n.Class, nLo, nHi, mLo, mHi, a.Variant, b.Variant); known {
						next = is
					}
				}
			} else if next && a.Variant == b.Variant && rank(a.Evidence()) > rank(b.Evidence()) {
				next = false
			}
			if next {
				a = b
			}
			if a.Variant.Family != "" {
				cells[i][j] = kept{a.Variant, a.Evidence()}
			}
		}
	}
	// Next's configs get their letters first: of more than there are letters old's give way.
	for _, v := range n.Legend {
		if slices.ContainsFunc(cells, func(row []kept) bool {
			return slices.ContainsFunc(row, func(k kept) bool { return k.v == v })
		}) {
			out.Letter(v)
		}
	}
	for i, from := range froms {
		letters, evidence := []byte{}, []byte{}
		for j, k := range cells[i] {
			letter, ok := byte(Nothing), false
			if k.v.Family != "" {
				if letter, ok = out.Letter(k.v); !ok {
					_, _, mLo, _ := out.Span(i, j, sms)
					if b := n.cellAt(mLo, from, sms); b.Variant.Family != "" {
						letter, ok = out.Letter(b.Variant)
						k.e = b.Evidence()
					}
				}
			}
			if !ok {
				letter, k.e = Nothing, Nothing
			}
			letters, evidence = append(letters, letter), append(evidence, k.e)
		}
		out.Lines[i].Cells, out.Lines[i].Evidence = string(letters), string(evidence)
	}
	return out.tidy()
}

// cellAt is the cell of a shape of r's class, zero where it has none.
func (r *Raster) cellAt(m, n int64, sms int) (a Answer) {
	line, cell, ok := r.At(m, n, sms)
	if !ok {
		return a
	}
	v, ok := r.Pick(line, cell)
	if !ok {
		return a
	}
	return Answer{MatchCell, r, line, cell, v}
}

// rank orders evidence, the best last: what was written by hand stays until it is deleted there.
func rank(evidence byte) int {
	for i, e := range []byte{Nothing, Borrowed, Neighbour, Measured, ByHand} {
		if e == evidence {
			return i
		}
	}
	return 0
}

// joinRuns is two lists of runs, each run once.
func joinRuns(old, next json.RawMessage) json.RawMessage {
	var all []json.RawMessage
	for _, text := range []json.RawMessage{old, next} {
		var list []json.RawMessage
		json.Unmarshal(text, &list)
		for _, r := range list {
			if !slices.ContainsFunc(all, func(o json.RawMessage) bool { return string(o) == string(r) }) {
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	text, _ := json.Marshal(all)
	return text
}

// Changed counts the cells of m's rasters whose config is not old's, of how many. The cells of next's splits are counted.
func (m *Map) Changed(old *Map) (changed, of int) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		o := old.Raster(r.Class, r.Align)
		for line := range r.Lines {
			for cell := range r.Rows {
				_, _, mLo, mHi := r.Span(line, cell, m.Device.SMs)
				v, ok := r.Pick(line, cell)
				if !ok || mHi < mLo {
					continue
				}
				of++
				if o == nil || o.cellAt(mLo, r.Lines[line].From, m.Device.SMs).Variant != v {
					changed++
				}
			}
		}
	}
	return changed, of
}
