package rule

import (
	"encoding/json"
	"fmt"
	"slices"

	"normbench/kernels"
)

// A number of a launch is the same at all rows of a run, or follows M: times * min(most, ceil(M / rows)). Whole is 1 where M is a
// multiple of so many rows, and else 0, ragged the reverse. Null follows M otherwise: explain knows it for each M.
type number struct {
	Value any
}

type follows struct {
	Times int64 `json:"times"`
	Most  int64 `json:"most,omitempty"` // 0 is no limit
	Rows  int64 `json:"rows"`
}

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }

// numberOf fits a number to its values at some counts of rows, ascending.
func numberOf(ms, values []int64) number {
	same := func(of func(m int64) int64) bool {
		for i, m := range ms {
			if of(m) != values[i] {
				return false
			}
		}
		return true
	}
	if same(func(int64) int64 { return values[0] }) {
		return number{values[0]}
	}
	last := values[len(values)-1]
	for rows := int64(1); rows <= 1<<14; rows++ {
		if rows > 1024 && rows&(rows-1) != 0 {
			continue
		}
		if same(func(m int64) int64 { return min(m%rows, 1) }) {
			return number{map[string]int64{"ragged": rows}}
		}
		if same(func(m int64) int64 { return 1 - min(m%rows, 1) }) {
			return number{map[string]int64{"whole": rows}}
		}
		ceil := func(m int64) int64 { return (m + rows - 1) / rows }
		times := values[0] / ceil(ms[0])
		if times < 1 || values[0]%ceil(ms[0]) != 0 {
			continue
		}
		for _, most := range []int64{0, last / times} {
			if same(func(m int64) int64 {
				if most > 0 {
					return times * min(most, ceil(m))
				}
				return times * ceil(m)
			}) {
				return number{follows{times, most, rows}}
			}
		}
	}
	return number{nil}
}

// Launches are the runs of some classes at some columns as JSON, with what each launches: grid, block, shared bytes, cluster,
// defines and scratch of a problem with the type and the weight that learn measures.
func (b *Book) Launches(classes []Class, columns []int64) ([]byte, error) {
	var all []map[string]any
	for _, c := range classes {
		for _, n := range columns {
			first := int64(1)
			for _, r := range b.Ranges(c, n) {
				from, to := first, min(r.Last, MaxElems/n)
				first = r.Last + 1
				ms := rowsIn(from, to, c)
				for k := int64(0); k < 70; k++ {
					ms = append(ms, from+k, to-k, from+(to-from)*k/70)
				}
				slices.Sort(ms)
				ms = slices.DeleteFunc(slices.Compact(ms), func(m int64) bool { return m < from || m > to || ClassOf(c.Problem(m, n)) != c })
				if len(ms) == 0 {
					continue
				}
				f, err := b.analytic.Lookup(r.Variant.Family)
				if err != nil {
					return nil, err
				}
				knobs := map[string]int{}
				for _, s := range r.Variant.Config.Settings() {
					knobs[s.Knob.Name] = s.Value
				}
				plans := make([]kernels.Plan, len(ms))
				for i, m := range ms {
					plans[i] = f.Plan(c.Problem(m, n), r.Variant.Config, b.Device)
				}
				all = append(all, map[string]any{"class": c, "n": n, "m_from": from, "m_to": to, "family": f.Name, "knobs": knobs, "plans": launches(ms, plans)})
			}
		}
	}
	text, err := json.MarshalIndent(map[string]any{"about": b.about(), "runs": all}, "", " ")
	return append(text, '\n'), err
}

// launches are plans of one config at some counts of rows: in turn those of one make, that have the same stages and macros.
func launches(ms []int64, plans []kernels.Plan) (list []map[string]any) {
	kind := func(p *kernels.Plan) (s string) {
		for _, l := range p.Launches {
			s += fmt.Sprint(l.Stage, l.Source, l.Entry, len(l.Defines), ";")
		}
		return s + fmt.Sprint(len(p.Scratch))
	}
	for i := 0; i < len(plans); {
		j := i
		for j < len(plans) && kind(&plans[j]) == kind(&plans[i]) {
			j++
		}
		of := func(get func(p *kernels.Plan) int64) number {
			values := make([]int64, j-i)
			for k := range values {
				values[k] = get(&plans[i+k])
			}
			return numberOf(ms[i:j], values)
		}
		stages, scratch := []any{}, []any{}
		for k, l := range plans[i].Launches {
			grid, defines := [3]number{}, map[string]number{}
			for x := range grid {
				grid[x] = of(func(p *kernels.Plan) int64 { return int64(p.Launches[k].Grid[x]) })
			}
			for x, d := range l.Defines {
				defines[d.Name] = of(func(p *kernels.Plan) int64 { return p.Launches[k].Defines[x].Value })
			}
			stages = append(stages, map[string]any{"stage": l.Stage, "source": l.Source, "entry": l.Entry, "grid": grid, "defines": defines,
				"block":   of(func(p *kernels.Plan) int64 { return int64(p.Launches[k].Block) }),
				"shared":  of(func(p *kernels.Plan) int64 { return int64(p.Launches[k].Shared) }),
				"cluster": of(func(p *kernels.Plan) int64 { return int64(p.Launches[k].Cluster) })})
		}
		for k, s := range plans[i].Scratch {
			scratch = append(scratch, map[string]any{"name": s.Name, "dtype": s.DType.String(), "elems": of(func(p *kernels.Plan) int64 { return p.Scratch[k].Elems })})
		}
		list = append(list, map[string]any{"m_from": ms[i], "m_to": ms[j-1], "launches": stages, "scratch": scratch})
		i = j
	}
	return list
}
