package rule

import (
	"encoding/json"
	"fmt"
	"slices"

	"normbench/kernels"
)

// numberOf says how a number of a launch follows M, from its values at some counts of rows,
// ascending: the number itself where it is the same at all; times * min(most, ceil(M / rows)),
// without most as far as it goes; whole is 1 where M is a multiple of so many rows, and else 0,
// ragged the reverse. It is nil where M is followed otherwise: explain knows it for each M.
func numberOf(ms, values []int64) any {
	same := func(of func(m int64) int64) bool {
		for i, m := range ms {
			if of(m) != values[i] {
				return false
			}
		}
		return true
	}
	if same(func(int64) int64 { return values[0] }) {
		return values[0]
	}
	for rows := int64(1); rows <= 1<<14; rows++ {
		if rows > 1024 && rows&(rows-1) != 0 {
			continue
		}
		if same(func(m int64) int64 { return min(m%rows, 1) }) {
			return map[string]int64{"ragged": rows}
		}
		if same(func(m int64) int64 { return 1 - min(m%rows, 1) }) {
			return map[string]int64{"whole": rows}
		}
		ceil := func(m int64) int64 { return (m + rows - 1) / rows }
		times := values[0] / ceil(ms[0])
		if times < 1 {
			continue
		}
		if same(func(m int64) int64 { return times * ceil(m) }) {
			return map[string]int64{"times": times, "rows": rows}
		}
		most := values[len(values)-1] / times
		if most > 0 && same(func(m int64) int64 { return times * min(most, ceil(m)) }) {
			return map[string]int64{"times": times, "most": most, "rows": rows}
		}
	}
	return nil
}

// Launches are the ranges of some classes at some columns as JSON, with what each launches: grid,
// block, shared bytes, cluster, defines and scratch of a problem with the type and the weight that
// learn measures.
func (b *Book) Launches(classes []Class, columns []int64) ([]byte, error) {
	var all []map[string]any
	for _, c := range classes {
		for _, n := range columns {
			from := int64(1)
			for _, r := range b.Ranges(c, n) {
				f, err := b.analytic.Lookup(r.Variant.Family)
				if err != nil {
					return nil, err
				}
				to := min(r.Last, MaxElems/n)
				knobs := map[string]int{}
				for _, s := range r.Variant.Config.Settings() {
					knobs[s.Knob.Name] = s.Value
				}
				var plans []kernels.Plan
				ms := someRows(c, n, from, to)
				for _, m := range ms {
					plans = append(plans, f.Plan(c.Problem(m, n), r.Variant.Config, b.Device))
				}
				if len(ms) > 0 {
					all = append(all, map[string]any{"class": c, "n": n, "m_from": from, "m_to": to,
						"family": f.Name, "knobs": knobs, "plans": launches(ms, plans)})
				}
				from = r.Last + 1
			}
		}
	}
	text, err := json.MarshalIndent(map[string]any{"about": b.about(), "runs": all}, "", " ")
	return append(text, '\n'), err
}

// someRows are counts of rows of the class's problems of n columns: some 70 first ones, last ones
// and between, and those that are asked for acceptance.
func someRows(c Class, n, from, to int64) []int64 {
	box := Box{c, AlignOf(n, c.Bytes), n, n, from, to}
	ms := box.rows(n)
	for k := int64(0); k < 70; k++ {
		ms = append(ms, from+k, to-k, from+(to-from)*k/70)
	}
	slices.Sort(ms)
	return slices.DeleteFunc(slices.Compact(ms), func(m int64) bool {
		return m < from || m > to || ClassOf(c.Problem(m, n)) != c
	})
}

// launches are plans of one config at some counts of rows: in turn those of one make, that have the
// same stages and macros.
func launches(ms []int64, plans []kernels.Plan) (list []map[string]any) {
	make := func(p *kernels.Plan) (s string) {
		for _, l := range p.Launches {
			s += fmt.Sprint(l.Stage, l.Source, l.Entry, len(l.Defines), ";")
		}
		return s + fmt.Sprint(len(p.Scratch))
	}
	for i, j := 0, 0; i < len(plans); i = j {
		for j = i; j < len(plans) && make(&plans[j]) == make(&plans[i]); j++ {
		}
		of := func(get func(p *kernels.Plan) int64) any {
			var values []int64
			for k := i; k < j; k++ {
				values = append(values, get(&plans[k]))
			}
			return numberOf(ms[i:j], values)
		}
		stages, scratch := []any{}, []any{}
		for k, l := range plans[i].Launches {
			of := func(get func(l *kernels.Launch) int64) any {
				return of(func(p *kernels.Plan) int64 { return get(&p.Launches[k]) })
			}
			var grid [3]any
			defines := map[string]any{}
			for x := range grid {
				grid[x] = of(func(l *kernels.Launch) int64 { return int64(l.Grid[x]) })
			}
			for x, d := range l.Defines {
				defines[d.Name] = of(func(l *kernels.Launch) int64 { return l.Defines[x].Value })
			}
			stages = append(stages, map[string]any{"stage": l.Stage, "source": l.Source,
				"entry": l.Entry, "grid": grid, "defines": defines,
				"block":   of(func(l *kernels.Launch) int64 { return int64(l.Block) }),
				"shared":  of(func(l *kernels.Launch) int64 { return int64(l.Shared) }),
				"cluster": of(func(l *kernels.Launch) int64 { return int64(l.Cluster) })})
		}
		for k, s := range plans[i].Scratch {
			scratch = append(scratch, map[string]any{"name": s.Name, "dtype": s.DType.String(),
				"elems": of(func(p *kernels.Plan) int64 { return p.Scratch[k].Elems })})
		}
		list = append(list, map[string]any{"m_from": ms[i], "m_to": ms[j-1], "launches": stages,
			"scratch": scratch})
	}
	return list
}
