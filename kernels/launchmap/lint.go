package launchmap

import (
	"fmt"
	"slices"
	"sync"

	"normbench/kernels"
)

// RefusedConfigs says which configs are refused somewhere in their cell on a device. Those that are not
// known there are UnknownConfigs'.
func (m *Map) RefusedConfigs(reg *kernels.Registry, d kernels.DeviceInfo) []string {
	found := make([][]string, len(m.Rasters))
	var wait sync.WaitGroup
	for i := range m.Rasters {
		wait.Go(func() { found[i] = m.Rasters[i].refusedConfigs(reg, d) })
	}
	wait.Wait()
	return slices.Concat(found...)
}

// refusedConfigs asks about all cells of one config, one behind the other, at once: most are accepted.
func (r *Raster) refusedConfigs(reg *kernels.Registry, d kernels.DeviceInfo) (found []string) {
	var run Box
	var of Answer // the last of the run
	ask := func() {
		if _, err := familyOf(reg, of.Variant); err == nil && !run.Accepts(reg, d, of.Variant) {
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

// UnknownConfigs says which configs name a family or a knob that the registry does not have: no cell of
// theirs answers.
func (m *Map) UnknownConfigs(reg *kernels.Registry) (notes []string) {
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
