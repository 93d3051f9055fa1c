package study

import (
	"fmt"

	"normbench/kernels"
	"normbench/sweep/record"
)

// Load reads recorded grids: the ok records of one device, one protocol and one
// source per family. Searches leave no grids, so their records are passed over.
func Load(path string) (*Grids, error) {
	g := &Grids{Source: path}
	at := map[kernels.Problem]int{}
	sources := map[string]string{}
	type key struct {
		p kernels.Problem
		v kernels.Variant
	}
	place := map[key]int{}
	bases := map[kernels.Problem]kernels.Variant{}
	_, err := record.Read(path, func(r *record.Record, run *record.Run) error {
		if run.Protocol.Phase != "" || r.Status != kernels.StatusOK {
			return nil
		}
		if g.Device.ID == "" {
			g.Device, g.Protocol = run.Device, run.Protocol
		}
		s, ok := sources[r.Family]
		if run.Device.ID != g.Device.ID || run.Protocol != g.Protocol || ok && s != r.Source && r.Family != record.Stream {
			return fmt.Errorf("records of two devices, protocols or versions of %s", r.Family)
		}
		sources[r.Family] = r.Source
		i, ok := at[r.Problem]
		if !ok {
			i = len(g.Problems)
			at[r.Problem] = i
			g.Problems = append(g.Problems, Grid{Problem: r.Problem, Base: -1})
		}
		p := &g.Problems[i]
		if r.Family == record.Stream {
			p.Stream = r.SamplesUS
			return nil
		}
		v := Variant{Variant: r.Variant(), Samples: r.SamplesUS}
		if r.Check != nil {
			v.Check = *r.Check
		}
		if r.Base {
			bases[r.Problem] = v.Variant
		}
		if j, ok := place[key{r.Problem, v.Variant}]; ok {
			p.Variants[j] = v
			return nil
		}
		place[key{r.Problem, v.Variant}] = len(p.Variants)
		p.Variants = append(p.Variants, v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := g.Problems[:0]
	for _, p := range g.Problems {
		if base, ok := bases[p.Problem]; ok {
			p.Base = place[key{p.Problem, base}]
		}
		if p.Base < 0 || len(p.Stream) == 0 || len(p.Variants) < 2 {
			g.Skipped++
			continue
		}
		kept = append(kept, p)
	}
	if g.Problems = kept; len(kept) == 0 {
		return nil, fmt.Errorf("%s has no grid to search", path)
	}
	return g, nil
}
