package rule

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
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
	families := map[string]bool{}
	for _, c := range classes {
		for _, n := range columns {
			for _, r := range b.Ranges(c, n) {
				f, err := b.analytic.Lookup(r.Variant.Family)
				if err != nil {
					return nil, err
				}
				families[f.Name] = true
				to := min(r.Last, MaxElems/n)
				knobs := map[string]int{}
				for _, s := range r.Variant.Config.Settings() {
					knobs[s.Knob.Name] = s.Value
				}
				var plans []string
				ms := someRows(c, n, r.First, to)
				for _, m := range ms {
					plan, err := json.Marshal(f.Plan(c.Problem(m, n), r.Variant.Config, b.Device))
					if err != nil {
						return nil, err
					}
					plans = append(plans, string(plan))
				}
				if len(ms) > 0 {
					all = append(all, map[string]any{"class": c, "n": n, "m_from": r.First, "m_to": to,
						"family": f.Name, "knobs": knobs, "plans": launches(ms, plans)})
				}
			}
		}
	}
	text, err := json.MarshalIndent(map[string]any{"about": b.about(families), "runs": all}, "", " ")
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

// number is a whole number in JSON, with what stands before it.
var number = regexp.MustCompile(`[:\[,]-?\d+`)

// launches are plans of one config at some counts of rows, as explain has them: in turn those that
// differ in nothing but numbers, and those as they follow M.
func launches(ms []int64, plans []string) (list []map[string]any) {
	var makes []string
	for _, plan := range plans {
		makes = append(makes, number.ReplaceAllString(plan, "#"))
	}
	for i, j := 0, 0; i < len(plans); i = j {
		var values [][]int64 // of each number
		for j = i; j < len(plans) && makes[j] == makes[i]; j++ {
			for k, text := range number.FindAllString(plans[j], -1) {
				if j == i {
					values = append(values, nil)
				}
				n, _ := strconv.ParseInt(text[1:], 10, 64)
				values[k] = append(values[k], n)
			}
		}
		plan := map[string]any{}
		text := number.ReplaceAllStringFunc(plans[i], func(text string) string {
			follows, _ := json.Marshal(numberOf(ms[i:j], values[0]))
			values = values[1:]
			return text[:1] + string(follows)
		})
		json.Unmarshal([]byte(text), &plan)
		plan["m_from"], plan["m_to"] = ms[i], ms[j-1]
		list = append(list, plan)
	}
	return list
}
