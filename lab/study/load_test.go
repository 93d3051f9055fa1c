package study

import (
	"fmt"
	"slices"

	"normbench/kernels"
	"normbench/report/export"
	"normbench/sweep/record"
)

// A Grid is all that was recorded of one problem.
type Grid struct {
	Problem  kernels.Problem
	Variants []*record.Record // that were measured right
	Base     int
	Stream   []float64 // samples, microseconds
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
func Load(path string) (*Grids, error) {
	problems, _, err := export.Load(path)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(problems, func(a, b *export.Problem) int {
		return a.Records[0].Time.Compare(b.Records[0].Time)
	})
	g := &Grids{Source: path}
	for i, p := range problems {
		if i == 0 {
			g.Device, g.Protocol = p.Run.Device, p.Run.Protocol
		}
		if p.Run.Protocol != g.Protocol || g.Protocol.Phase != "" {
			return nil, fmt.Errorf("%s has records of two protocols, or of a search", path)
		}
		x := Grid{Problem: p.Problem, Base: -1, Stream: p.Stream}
		for _, r := range p.Records {
			if r.Status != kernels.StatusOK {
				continue
			}
			if len(r.SamplesUS) < minSamples {
				return nil, fmt.Errorf("%s on %s has %d samples, too few to split", r.Variant(),
					r.Problem, len(r.SamplesUS))
			}
			if x.Variants = append(x.Variants, r); r.Base {
				x.Base = len(x.Variants) - 1
			}
		}
		if x.Base < 0 || len(x.Stream) == 0 || len(x.Variants) < 2 {
			g.Skipped++
			continue
		}
		g.Problems = append(g.Problems, x)
	}
	if len(g.Problems) == 0 {
		return nil, fmt.Errorf("%s has no grid to search", path)
	}
	return g, nil
}
