package rule

import (
	"encoding/json"
	"slices"

	"normbench/kernels"
)

// A launchRun is a range of rows with one config, and what that launches for the fewest and for the
// most of them: other counts of rows differ from these by numbers only, which explain has.
type launchRun struct {
	Class  Class          `json:"class"`
	N      int64          `json:"n"`
	MFrom  int64          `json:"m_from"`
	MTo    int64          `json:"m_to"`
	Family string         `json:"family"`
	Knobs  map[string]int `json:"knobs"`
	First  kernels.Plan   `json:"first"` // of MFrom
	Last   kernels.Plan   `json:"last"`  // of MTo
}

// Launches are the ranges of some classes at some columns as JSON, with what each launches: grid,
// block, shared bytes, cluster, defines and scratch of a problem with the type and the weight that
// learn measures.
func (b *Book) Launches(classes []Class, columns []int64) ([]byte, error) {
	var all []launchRun
	families := map[string]bool{}
	for _, c := range classes {
		for _, n := range columns {
			for _, r := range b.Ranges(c, n) {
				f, err := b.analytic.Lookup(r.Variant.Family)
				if err != nil {
					return nil, err
				}
				box := Box{c, AlignOf(n, c.Bytes), n, n, r.First, r.Last}
				ms := slices.DeleteFunc(box.rows(n), func(m int64) bool { return ClassOf(c.Problem(m, n)) != c })
				if len(ms) == 0 {
					continue
				}
				families[f.Name] = true
				run := launchRun{Class: c, N: n, MFrom: ms[0], MTo: ms[len(ms)-1], Family: f.Name,
					Knobs: map[string]int{}}
				for _, s := range r.Variant.Config.Settings() {
					run.Knobs[s.Knob.Name] = s.Value
				}
				run.First = f.Plan(c.Problem(run.MFrom, n), r.Variant.Config, b.Device)
				run.Last = f.Plan(c.Problem(run.MTo, n), r.Variant.Config, b.Device)
				all = append(all, run)
			}
		}
	}
	text, err := json.MarshalIndent(map[string]any{"about": b.about(families), "runs": all}, "", " ")
	return append(text, '\n'), err
}
