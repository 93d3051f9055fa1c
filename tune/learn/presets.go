package learn

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/kernels/presets"
	"normbench/tune/rules"
)

// ChooserPresets is the fastest published launch rule of each problem, over the problems on which one was measured.
// It is fitted to nothing.
const ChooserPresets = "presets"

// A PresetScore is the launch rule of a published system as a rule by itself: its regret where the
// records have the time of what it picks. What they have not is counted, not guessed.
type PresetScore struct {
	launchrule.Score         // over the problems that are covered
	Of               int     `json:"of"`         // problems of the class
	Unmeasured       int     `json:"unmeasured"` // where its pick has no time; on the rest it has none to offer
	Rules            float64 `json:"rules"`      // regret of the rules on the problems covered, each held out
	Default          float64 `json:"default"`    // of the default there
}

// A pickState says what is known of a preset's pick for a problem.
type pickState uint8

const (
	pickNone       pickState = iota // the system does not do it, or ours refuses or fails at what it would launch
	pickUnmeasured                  // there is no time of it
	pickMeasured
)

// A preset is the log regret of a published launch rule per point, where the state says that it is known.
type preset struct {
	name  string
	state []pickState
	loss  []float64
}

// presets looks up what every published launch rule would have taken, and the fastest of all. They are
// not fitted, so that nothing needs to be held out.
func (c *class) presets() (ps []preset) {
	n := len(c.points)
	all := preset{ChooserPresets, make([]pickState, n), make([]float64, n)}
	plans := make([]map[string]map[string]float64, n) // of each point by family, made when first needed
	for _, s := range presets.All() {
		p := preset{s.Name, make([]pickState, n), make([]float64, n)}
		for i, q := range c.points {
			vs, err := s.Variants(c.judge.Registry, q.Problem, c.judge.Device)
			if err != nil {
				continue
			}
			if plans[i] == nil {
				plans[i] = map[string]map[string]float64{}
			}
			us, state := c.timeOf(q, vs, plans[i])
			p.state[i] = state
			if state == pickMeasured {
				p.loss[i] = math.Log(us / q.BestUS)
			}
			if state > all.state[i] || state == pickMeasured && p.loss[i] < all.loss[i] {
				all.state[i], all.loss[i] = state, p.loss[i]
			}
		}
		if slices.Max(p.state) > pickNone {
			ps = append(ps, p)
		}
	}
	if len(ps) > 1 {
		ps = append(ps, all)
	}
	return ps
}

// timeOf is the time of the fastest of a preset's variants, as the system would find by timing them. It is
// known only if each of them was measured, by its config or by another one with its plan; those that failed are passed over.
func (c *class) timeOf(q *Point, vs []kernels.Variant, plans map[string]map[string]float64) (best float64, state pickState) {
	for _, v := range vs {
		us, ok := q.US[v]
		if !ok && q.Failed[v] {
			continue
		}
		if !ok {
			if plans[v.Family] == nil {
				plans[v.Family] = map[string]float64{}
				for w, us := range q.US {
					if p := ""; w.Family == v.Family {
						p = rules.PlanOf(c.judge, q.Problem, w)
						if old, ok := plans[v.Family][p]; !ok || us < old {
							plans[v.Family][p] = us
						}
					}
				}
				delete(plans[v.Family], "")
			}
			if us, ok = plans[v.Family][rules.PlanOf(c.judge, q.Problem, v)]; !ok {
				return 0, pickUnmeasured
			}
		}
		if state == pickNone || us < best {
			best, state = us, pickMeasured
		}
	}
	return best, state
}

// presetScores are the published launch rules, beside the regret of the held-out rules and of the default on the same
// problems. Those with a time come first, by regret. The fastest of all comes last.
func (c *class) presetScores(held, base []float64) (list []PresetScore) {
	for _, p := range c.presets() {
		var use []int
		s := PresetScore{Score: launchrule.Score{Class: c.Class.String(), Chooser: p.name}, Of: len(c.points)}
		for i, state := range p.state {
			switch state {
			case pickMeasured:
				use = append(use, i)
			case pickUnmeasured:
				s.Unmeasured++
			}
		}
		if len(use) > 0 {
			s.Score = c.score(launchrule.HeldNothing, p.name, p.loss, use)
			s.Rules, s.Default = c.score("", "", held, use).Regret, c.score("", "", base, use).Regret
		}
		list = append(list, s)
	}
	rank := func(s PresetScore) int {
		switch {
		case s.Chooser == ChooserPresets:
			return 2
		case s.Shapes == 0:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b PresetScore) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Regret, b.Regret))
	})
	return list
}
