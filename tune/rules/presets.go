package rules

import (
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/kernels/presets"
)

// A PresetScore is the launch rule of a published system as a rule by itself:
// its regret where the records have the time of what it picks. What they have
// not is counted, not guessed.
type PresetScore struct {
	Score              // over the shapes that are covered
	Of         int     `json:"of"`         // shapes of the class
	Unmeasured int     `json:"unmeasured"` // where its pick has no time; on the rest it has none to offer
	Rules      float64 `json:"rules"`      // regret of the rules on the shapes covered, each held out
	Default    float64 `json:"default"`    // of the default there
}

// A pickState says what is known of a preset's pick for a shape.
type pickState uint8

const (
	pickNone       pickState = iota // the system does not do it, or ours refuses or fails at what it would launch
	pickUnmeasured                  // there is no time of it
	pickMeasured
)

// A preset is the log regret of a published launch rule per shape, where the
// state says that it is known.
type preset struct {
	name  string
	state []pickState
	loss  []float64
}

// presets looks up what every published launch rule would have taken. They are
// not fitted, so that nothing needs to be held out.
func (t *table) presets() []preset {
	d := t.judge.Device
	d.SMs = t.sms
	plans := make([]plansOf, len(t.shapes))
	for k := range plans {
		plans[k] = plansOf{}
	}
	var ps []preset
	for _, s := range presets.All() {
		p := preset{s.Name, make([]pickState, len(t.shapes)), make([]float64, len(t.shapes))}
		some := false
		for k, shape := range t.shapes {
			vs, err := s.Variants(t.judge.Registry, shape.problem, d)
			if err != nil {
				continue
			}
			us, state := t.timeOf(k, vs, plans[k])
			p.state[k] = state
			some = some || state != pickNone
			if state == pickMeasured {
				p.loss[k] = math.Log(us / t.bestUS[k])
			}
		}
		if some {
			ps = append(ps, p)
		}
	}
	return ps
}

// timeOf is the time of the fastest of a preset's variants, as the system would
// find by timing them. It is known only if each of them was measured, by its
// config or by another one with its plan; those that failed are passed over.
func (t *table) timeOf(k int, vs []kernels.Variant, plans plansOf) (best float64, state pickState) {
	for _, v := range vs {
		us, ok := t.us[k][v]
		if !ok && t.failed[k][v] {
			continue
		}
		if !ok {
			if us, ok = t.byPlan(k, v.Family, plans)[planOf(t.judge, t.shapes[k].problem, v)]; !ok {
				return 0, pickUnmeasured
			}
		}
		if state == pickNone || us < best {
			best, state = us, pickMeasured
		}
	}
	return best, state
}

// plansOf are the times of a shape by family and what was launched, made when
// first needed.
type plansOf map[string]map[string]float64

// byPlan are the times of a family on a shape by what was launched.
func (t *table) byPlan(k int, family string, all plansOf) map[string]float64 {
	if plans, ok := all[family]; ok {
		return plans
	}
	plans := map[string]float64{}
	all[family] = plans
	for v, us := range t.us[k] {
		if v.Family != family {
			continue
		}
		if p := planOf(t.judge, t.shapes[k].problem, v); p != "" {
			if old, ok := plans[p]; !ok || us < old {
				plans[p] = us
			}
		}
	}
	return plans
}

// covered are the shapes on which a preset's time is known.
func (p *preset) covered() []int {
	var use []int
	for k, s := range p.state {
		if s == pickMeasured {
			use = append(use, k)
		}
	}
	return use
}

// together is the fastest preset of each shape: more than any one system has.
func together(ps []preset, shapes int) preset {
	all := preset{ChooserPresets, make([]pickState, shapes), make([]float64, shapes)}
	for _, p := range ps {
		for k, s := range p.state {
			switch {
			case s == pickMeasured && (all.state[k] != pickMeasured || p.loss[k] < all.loss[k]):
				all.loss[k], all.state[k] = p.loss[k], s
			case s > all.state[k]:
				all.state[k] = s
			}
		}
	}
	return all
}

// presetScore scores a preset, with what the rules and the default have on the
// same shapes.
func (t *table) presetScore(p *preset, rules, base []float64) PresetScore {
	use := p.covered()
	s := PresetScore{Score: Score{Class: t.class.String(), Chooser: p.name}, Of: len(t.shapes)}
	for _, state := range p.state {
		if state == pickUnmeasured {
			s.Unmeasured++
		}
	}
	if len(use) == 0 {
		return s
	}
	s.Score = t.score(launchrule.HeldNothing, p.name, p.loss, use)
	s.Rules, s.Default = meanRegret(rules, use), meanRegret(base, use)
	return s
}

func meanRegret(loss []float64, use []int) float64 {
	sum := 0.0
	for _, k := range use {
		sum += loss[k]
	}
	return round(math.Exp(sum / float64(len(use))))
}

// byRegret orders presets by class, then coverage before none, then regret.
func byRegret(ps []PresetScore) {
	slices.SortStableFunc(ps, func(a, b PresetScore) int {
		switch {
		case a.Class != b.Class:
			return 0 // as they came
		case (a.Shapes == 0) != (b.Shapes == 0):
			return map[bool]int{true: 1, false: -1}[a.Shapes == 0]
		case a.Regret < b.Regret:
			return -1
		case a.Regret > b.Regret:
			return 1
		}
		return 0
	})
}
