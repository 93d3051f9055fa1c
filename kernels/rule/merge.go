package rule

import (
	"encoding/json"
	"maps"
	"slices"

	"normbench/internal/hint"
)

// Merge is the cells of two maps of one device. Where both have a config the better-evidenced stays, next's of two that are
// alike; one of a family whose sources have changed since old gives way, which stale says. What is about the whole map is next's.
func Merge(old, next *Map, stale func(family string) bool) (*Map, error) {
	if old.Device.ID != next.Device.ID || old.Device.SMs != next.Device.SMs {
		return nil, hint.Errorf("keep one tuned table per device", "a map of %s does not merge with one of %s", old.Device.ID, next.Device.ID)
	}
	out := *next
	out.Rasters = nil
	for _, r := range old.Rasters {
		if next.Raster(r.Class, r.Align) == nil {
			out.Rasters = append(out.Rasters, r)
		}
	}
	for i := range next.Rasters {
		r := &next.Rasters[i]
		if o := old.Raster(r.Class, r.Align); o != nil {
			r = mergeRasters(o, r, next.Device.SMs, stale)
		}
		out.Rasters = append(out.Rasters, *r)
	}
	out.Sources = maps.Clone(next.Sources)
	for f, hash := range old.Sources {
		if _, ok := out.Sources[f]; !ok && out.Sources != nil {
			out.Sources[f] = hash
		}
	}
	out.Runs = joinRuns(old.Runs, next.Runs)
	out.Sort()
	return &out, nil
}

// mergeRasters has the lines and the bounds of both.
func mergeRasters(o, n *Raster, sms int, stale func(string) bool) *Raster {
	out := *n
	out.Legend, out.Lines, out.Problems = nil, nil, max(o.Problems, n.Problems)
	out.Rows = slices.Concat(n.Rows, o.Rows)
	slices.SortStableFunc(out.Rows, func(a, b Bound) int { return int(a.Last(sms) - b.Last(sms)) })
	out.Rows = slices.CompactFunc(out.Rows, func(a, b Bound) bool { return a.Last(sms) == b.Last(sms) })
	var froms []int64
	for _, l := range slices.Concat(o.Lines, n.Lines) {
		froms = append(froms, l.From)
	}
	sortUnique(&froms)
	// Next's cells get their letters first: of more than there are letters old's give way.
	for _, mine := range []bool{true, false} {
		for i, from := range froms {
			if mine {
				empty := slices.Repeat([]byte{Nothing}, len(out.Rows))
				out.Lines = append(out.Lines, Line{from, string(empty), string(empty)})
			}
			cells, evidence := []byte(out.Lines[i].Cells), []byte(out.Lines[i].Evidence)
			for j := range out.Rows {
				m := int64(1)
				if j > 0 {
					m = out.Rows[j-1].Last(sms) + 1
				}
				a, b := o.cellAt(m, from, sms), n.cellAt(m, from, sms)
				has := a.Variant.Family != "" && (b.Variant.Family == "" || rank(a.Evidence()) > rank(b.Evidence()) && (stale == nil || !stale(a.Variant.Family)))
				if mine {
					a, has = b, b.Variant.Family != ""
				}
				if !has {
					continue
				}
				if letter, ok := out.Letter(a.Variant); ok {
					cells[j], evidence[j] = letter, a.Evidence()
				}
			}
			out.Lines[i].Cells, out.Lines[i].Evidence = string(cells), string(evidence)
		}
	}
	return out.tidy()
}

// cellAt is the cell of a shape of r's class, zero where it has none.
func (r *Raster) cellAt(m, n int64, sms int) (a Answer) {
	if line, cell, ok := r.At(m, n, sms); ok {
		if v, ok := r.Pick(line, cell); ok {
			return Answer{MatchCell, r, line, cell, v}
		}
	}
	return a
}

// rank orders evidence, the best last: what was written by hand stays until it is deleted there.
func rank(evidence byte) int {
	return slices.Index([]byte{Borrowed, Neighbour, Measured, ByHand}, evidence)
}

// joinRuns is two lists of runs, each run once.
func joinRuns(lists ...json.RawMessage) json.RawMessage {
	var all, list []json.RawMessage
	for _, text := range lists {
		list = nil
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

// Changed counts the cells of m whose config is not old's, of how many.
func (m *Map) Changed(old *Map) (changed, of int) {
	sms := m.Device.SMs
	for i := range m.Rasters {
		r := &m.Rasters[i]
		o := old.Raster(r.Class, r.Align)
		for line := range r.Lines {
			for cell := range r.Rows {
				nLo, _, mLo, _ := r.Span(line, cell, sms)
				if v, ok := r.Pick(line, cell); ok {
					of++
					if o == nil || o.cellAt(mLo, nLo, sms).Variant != v {
						changed++
					}
				}
			}
		}
	}
	return changed, of
}
