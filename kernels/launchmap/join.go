package launchmap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Join makes one map of two of one device. Neither their order nor how often one is joined matters. It
// takes the raster with more measured problems, then the one with less regret. Where two are equal in
// that, each cell takes the better evidence. Cells written by hand stay from both.
//
// The result has all that Join compares, so joining in any order gives the same bytes; Merge looks at
// times instead.
func Join(a, b *Map) (*Map, error) {
	if a.Device.ID != b.Device.ID || a.Device.SMs != b.Device.SMs {
		return nil, hint.Errorf("keep one tuned table per device", "a map of %s (%d SMs) does not merge with one "+
			"of %s (%d SMs)", a.Device.ID, a.Device.SMs, b.Device.ID, b.Device.SMs)
	}
	head := func(m *Map) []byte {
		text, _ := json.Marshal([]any{m.Tool, m.Protocol})
		return text
	}
	if cmp.Or(b.Created.Compare(a.Created), bytes.Compare(head(b), head(a))) > 0 {
		a, b = b, a // a is the later
	}
	out := *a
	out.Rasters, out.Runs, out.Sources = nil, JoinRuns(a.Runs, b.Runs), maps.Clone(a.Sources)
	for name, source := range b.Sources {
		if out.Sources == nil {
			out.Sources = map[string]string{}
		}
		out.Sources[name] = max(out.Sources[name], source)
	}
	for _, r := range slices.Concat(a.Rasters, b.Rasters) {
		if out.Raster(r.Class, r.Align) != nil {
			continue
		}
		x, y := cmp.Or(a.Raster(r.Class, r.Align), &r), cmp.Or(b.Raster(r.Class, r.Align), &r)
		both, err := joinRasters(x, y, a.Device.SMs)
		if err != nil {
			return nil, err
		}
		out.Rasters = append(out.Rasters, *both)
	}
	out.Sort()
	return &out, nil
}

// JoinRuns returns the runs of both lists, each once, in the order of time.
func JoinRuns(a, b []RunSummary) []RunSummary {
	byID := map[string]RunSummary{}
	for _, r := range slices.Concat(a, b) {
		if o, ok := byID[r.ID]; !ok || jsonText(r) < jsonText(o) {
			byID[r.ID] = r
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b RunSummary) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID))
	})
}

func jsonText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// joinRasters makes a raster with the lines and the bounds of both, and the better answer in each cell.
func joinRasters(a, b *Raster, sms int) (*Raster, error) {
	measured := cmp.Or(a.Problems-b.Problems, cmp.Compare(b.Regret, a.Regret))
	if measured < 0 {
		a, b = b, a
	}
	out := *a
	out.Legend, out.Lines = nil, nil
	out.Rows = slices.Concat(a.Rows, b.Rows)
	slices.SortFunc(out.Rows, func(a, b Bound) int {
		return cmp.Or(int(a.Last(sms)-b.Last(sms)), cmp.Compare(a.PerSM, b.PerSM))
	})
	out.Rows = slices.CompactFunc(out.Rows, func(a, b Bound) bool { return a.Last(sms) == b.Last(sms) })
	for _, l := range slices.Concat(a.Lines, b.Lines) {
		out.Lines = append(out.Lines, Band{From: l.From})
	}
	slices.SortFunc(out.Lines, func(a, b Band) int { return cmp.Compare(a.From, b.From) })
	out.Lines = slices.Compact(out.Lines)
	out.Clear()
	for i := range out.Lines {
		for j := range out.Rows {
			box := out.Box(i, j, sms)
			x, y := a.CellAt(out.Rows[j].Last(sms), box.NLo, sms), b.CellAt(out.Rows[j].Last(sms), box.NLo, sms)
			byHand := y.Evidence() == ByHand && y.Raster != nil
			switch {
			case y.Raster == nil:
			case x.Raster == nil && (measured == 0 || byHand),
				measured == 0 && compareCells(&y, &x) > 0,
				byHand && (x.Evidence() != ByHand || compareCells(&y, &x) > 0):
				x = y
			}
			if x.Raster == nil {
				continue
			}
			if _, ok := out.AddLetter(x.Variant); !ok {
				return nil, hint.Errorf("fill one map from the records of both: `normbench map fill RECORDS...`",
					"%s: the maps have more than %d configs together", out.Title(), len(Letters))
			}
			out.Set(i, j, x.Variant, x.Evidence())
		}
	}
	return out.withUsedConfigs(), nil
}

// compareCells orders answers of a cell by their evidence, equal ones by name.
func compareCells(a, b *Answer) int {
	return cmp.Or(evidenceRank(a.Evidence())-evidenceRank(b.Evidence()), compareVariants(b.Variant, a.Variant))
}

// CheckKnobs refuses a map with a knob that this version does not know: written again, its configs would
// lose it.
func (m *Map) CheckKnobs(reg *kernels.Registry) error {
	for _, r := range m.Rasters {
		for k, v := range r.Legend {
			if f, err := reg.Lookup(v.Family); v.Config.String() == "" && (err != nil || len(f.Knobs) > 0) {
				return hint.Errorf("use the version of normbench that wrote it; `normbench lint` lists all",
					"%s: letter %c has a knob that is not known here", r.Title(), Letters[k])
			}
		}
	}
	return nil
}

// compareVariants orders variants by name.
func compareVariants(a, b kernels.Variant) int { return strings.Compare(a.String(), b.String()) }
