package study

import (
	"fmt"

	"normbench/kernels"
	"normbench/sweep/record"
)

// A Grid is all that was recorded of one problem.
type Grid struct {
	Problem  kernels.Problem
	Variants []Variant
	Base     int
	Stream   []float64 // samples, microseconds
}

// A Variant is one that was measured right.
type Variant struct {
	kernels.Variant
	Samples []float64 // microseconds
	Check   kernels.Check
}

// Grids are recorded grids of one device.
type Grids struct {
	Source   string
	Device   kernels.DeviceInfo
	Protocol record.Protocol
	Problems []Grid // in the order of the records, which is that of a sweep
	Skipped  int    // problems with a single variant, or without base or stream
}

// Load reads recorded grids: the ok records of one device, one protocol and one source per family.
// Searches leave no grids, so their records are passed over.
func Load(path string) (*Grids, error) {
	g := &Grids{Source: path}
	at := map[kernels.Problem]int{}
	sources := map[string]string{}
	place := map[string]int{} // of variants, by problem and variant
	_, err := record.Read(path, func(r *record.Record, run *record.Run) error {
		if run.Protocol.Phase != "" || r.Status != kernels.StatusOK {
			return nil
		}
		if g.Device.ID == "" {
			g.Device, g.Protocol = run.Device, run.Protocol
		}
		s, ok := sources[r.Family]
		other := ok && s != r.Source && r.Family != record.Stream
		if run.Device.ID != g.Device.ID || run.Protocol != g.Protocol || other {
			return fmt.Errorf("records of two devices, protocols or versions of %s", r.Family)
		}
		sources[r.Family] = r.Source
		if _, ok := at[r.Problem]; !ok {
			at[r.Problem] = len(g.Problems)
			g.Problems = append(g.Problems, Grid{Problem: r.Problem, Base: -1})
		}
		p := &g.Problems[at[r.Problem]]
		if r.Family == record.Stream {
			p.Stream = r.SamplesUS
			return nil
		}
		if len(r.SamplesUS) < minSamples {
			return fmt.Errorf("%s on %s has %d samples, too few to split", r.Variant(), r.Problem,
				len(r.SamplesUS))
		}
		v := Variant{Variant: r.Variant(), Samples: r.SamplesUS}
		if r.Check != nil {
			v.Check = *r.Check
		}
		key := r.Problem.String() + " " + v.String()
		if _, ok := place[key]; !ok {
			place[key] = len(p.Variants)
			p.Variants = append(p.Variants, v)
		}
		p.Variants[place[key]] = v
		if r.Base {
			p.Base = place[key]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := g.Problems
	g.Problems = nil
	for _, p := range all {
		if p.Base < 0 || len(p.Stream) == 0 || len(p.Variants) < 2 {
			g.Skipped++
			continue
		}
		g.Problems = append(g.Problems, p)
	}
	if len(g.Problems) == 0 {
		return nil, fmt.Errorf("%s has no grid to search", path)
	}
	return g, nil
}
