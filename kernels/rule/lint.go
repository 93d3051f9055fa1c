package rule

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"normbench/kernels"
)

// Lint says what makes a map wrong with these families on a device: families and knobs that there
// are no more, configs that are refused somewhere in their cell, sources that have changed since.
// Stale says what the source hash of a family is now, where a map's is another.
func (m *Map) Lint(reg *kernels.Registry, d kernels.DeviceInfo,
	stale func(f *kernels.Family, source string) (now string, ok bool)) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(m.Sources)) {
		if f, err := reg.Lookup(name); err == nil {
			if now, ok := stale(f, m.Sources[name]); ok {
				found = append(found, fmt.Sprintf("stale: the sources of %s are %s, and its cells are from %s",
					name, now, m.Sources[name]))
			}
		}
	}
	if len(m.Rasters) == 0 {
		found = append(found, "empty: the map has no raster")
	}
	found = append(found, m.Unknown(reg)...)
	each := make([][]string, len(m.Rasters))
	var wait sync.WaitGroup
	for i := range m.Rasters {
		wait.Go(func() { each[i] = m.Rasters[i].lint(reg, d) })
	}
	wait.Wait()
	return append(found, slices.Concat(each...)...)
}

func (r *Raster) lint(reg *kernels.Registry, d kernels.DeviceInfo) (found []string) {
	for line := range r.Lines {
		for cell := range r.Rows {
			v, ok := r.Pick(line, cell)
			b := r.Box(line, cell, d.SMs)
			if ok && !b.Empty() && unknown(reg, v) == nil && !b.Accepts(reg, d, v) {
				found = append(found, fmt.Sprintf("%s: N %d to %d, M %d to %d: %s is refused in a part of the cell",
					r.Title(), b.NLo, b.NHi, b.MLo, b.MHi, v))
			}
		}
	}
	return found
}

// Unknown says which configs name a family or a knob that the registry does not have: no cell of
// theirs answers.
func (m *Map) Unknown(reg *kernels.Registry) (notes []string) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		for k, v := range r.Legend {
			if err := unknown(reg, v); err != nil {
				notes = append(notes, fmt.Sprintf("%s: letter %c: %v", r.Title(), Letters[k], err))
			}
		}
	}
	return notes
}

func unknown(reg *kernels.Registry, v kernels.Variant) error {
	f, err := reg.Lookup(v.Family)
	if err != nil {
		return err
	}
	return strange(f, v.Config)
}
