package study

import (
	"normbench/internal/hint"
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
	var bases = map[kernels.Problem]kernels.Variant{}
	_, err := record.Read(path, func(r *record.Record, run *record.Run) error {
		if run.Protocol.Phase != "" {
			return nil
		}
		if r.Status != kernels.StatusOK {
			return nil
		}
		if g.Device.ID == "" {
			g.Device, g.Protocol = run.Device, run.Protocol
		}
		switch {
		case run.Device.ID != g.Device.ID:
			return hint.Errorf("give the records of one device", "records of %s among those of %s", run.Device.ID, g.Device.ID)
		case run.Protocol != g.Protocol:
			return hint.Errorf("give records of one protocol", "records of two protocols, %s with %d samples and %s with %d", g.Protocol.Name, g.Protocol.Samples, run.Protocol.Name, run.Protocol.Samples)
		}
		if s, ok := sources[r.Family]; r.Family != record.Stream && ok && s != r.Source {
			return hint.Errorf("sweep into a new folder", "records of two versions of %s, %s and %s", r.Family, s, r.Source)
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
		return nil, hint.Errorf("`normbench sweep --strategy grid` records some", "%s has no grid to search", path)
	}
	return g, nil
}
