package rule

import (
	"fmt"
	"slices"
	"sync"

	"normbench/kernels"
)

// Refused says which configs are refused somewhere in their cell on a device. Those that are not
// known there are Unknown's.
func (m *Map) Refused(reg *kernels.Registry, d kernels.DeviceInfo) []string {
	found := make([][]string, len(m.Rasters))
	var wait sync.WaitGroup
	for i := range m.Rasters {
		r := &m.Rasters[i]
		wait.Go(func() {
			for b, a := range r.Cells(d.SMs) {
				if _, err := familyOf(reg, a.Variant); err == nil && !b.Accepts(reg, d, a.Variant) {
					found[i] = append(found[i], fmt.Sprintf("%s: N %d to %d, M %d to %d: %s is "+
						"refused in a part of the cell",
						r.Title(), b.NLo, b.NHi, b.MLo, b.MHi, a.Variant))
				}
			}
		})
	}
	wait.Wait()
	return slices.Concat(found...)
}

// Unknown says which configs name a family or a knob that the registry does not have: no cell of
// theirs answers.
func (m *Map) Unknown(reg *kernels.Registry) (notes []string) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		for k, v := range r.Legend {
			if _, err := familyOf(reg, v); err != nil {
				notes = append(notes, fmt.Sprintf("%s: letter %c: %v", r.Title(), Letters[k], err))
			}
		}
	}
	return notes
}
