package launchmap

import (
	"fmt"
	"slices"
	"sync"

	"normbench/kernels"
)

// RefusedConfigs lists configs that are refused somewhere in their cells on a device. It leaves out
// unknown ones, which UnknownConfigs lists.
func (m *Map) RefusedConfigs(reg *kernels.Registry, d kernels.DeviceInfo) []string {
	found := make([][]string, len(m.Rasters))
	var wait sync.WaitGroup
	for i := range m.Rasters {
		wait.Go(func() { found[i] = m.Rasters[i].refusedConfigs(reg, d) })
	}
	wait.Wait()
	return slices.Concat(found...)
}

// refusedConfigs is RefusedConfigs of one raster. It checks neighbouring cells with one config together,
// which saves time as most are accepted.
func (r *Raster) refusedConfigs(reg *kernels.Registry, d kernels.DeviceInfo) (found []string) {
	var run Box
	var of Answer // the last of the run
	ask := func() {
		if _, err := findFamily(reg, of.Variant); err == nil && !run.Accepts(reg, d, of.Variant) {
			found = append(found, fmt.Sprintf("%s: N %d to %d, M %d to %d: %s is refused in a part of its cells",
				r.Title(), run.NLo, run.NHi, run.MLo, run.MHi, of.Variant))
		}
	}
	for b, a := range r.Cells(d.SMs) {
		if a.Line == of.Line && a.Cell == of.Cell+1 && a.Variant == of.Variant {
			run.MHi, of = b.MHi, a
			continue
		}
		ask()
		run, of = b, a
	}
	ask()
	return found
}

// UnknownConfigs lists configs with a family or a knob that the registry does not have: their cells do
// not answer.
func (m *Map) UnknownConfigs(reg *kernels.Registry) (notes []string) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		for k, v := range r.Legend {
			if _, err := findFamily(reg, v); err != nil {
				notes = append(notes, fmt.Sprintf("%s: letter %c: %v", r.Title(), Letters[k], err))
			}
		}
	}
	return notes
}
