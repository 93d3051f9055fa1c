package rules

import (
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/sweep/stats"
)

// The choosers.
const (
	// ChooserUnpruned is the rules before what was held out had a say: without the
	// shapes that distrust leaves to the default. Rules are chosen with an eye on
	// the shapes held out, so on new ones expect something between the two.
	ChooserUnpruned = "unpruned"
	ChooserDefault  = "default"
	ChooserSingle   = "single"  // the best single config, the default where it is refused
	ChooserNearest  = "nearest" // the best known variant of the nearest measured shape that can run
	// ChooserPresets is the fastest published launch rule of each shape, over the
	// shapes on which one was measured. It is fitted to nothing.
	ChooserPresets = "presets"
)

// An Evaluation is what is known of a Set beside the Set.
type Evaluation struct {
	Scores  []Score
	Presets []PresetScore // each published launch rule by itself, the best of a class first
	Losses  []Loss        // held-out shapes that the rules do worse on than the default, beyond the band
	Barred  []kernels.Problem
	Unknown int // held-out answers whose time is not known; they count as a third slower than the default
}

// A Loss is a held-out shape with how much slower than the default it became.
type Loss struct {
	Problem kernels.Problem
	Ratio   float64
}

func (e *Evaluation) add(t *table, l List, barred []int, o Options) {
	for _, k := range barred {
		e.Barred = append(e.Barred, t.shapes[k].problem)
	}
	base := make([]float64, len(t.shapes))
	fitted := make([]float64, len(t.shapes))
	for k, s := range t.shapes {
		base[k], fitted[k] = s.base, s.base
		if i, _ := l.Find(&s.at); i >= 0 {
			r := slices.IndexFunc(t.recipes, func(r Recipe) bool { return compareRecipes(r, l.Rules[i].Recipe) == 0 })
			fitted[k] = t.loss[r][k]
		}
	}
	all := t.all()
	e.Scores = append(e.Scores, t.score(launchrule.HeldNothing, launchrule.ChooserRules, fitted, all), t.score(launchrule.HeldNothing, ChooserDefault, base, all))
	published := t.presets()
	best := together(published, len(t.shapes))
	for _, held := range []string{launchrule.HeldShape, launchrule.HeldN} {
		byN := held == launchrule.HeldN
		loss, unknown := t.heldOut(byN, barred, o)
		e.Unknown += unknown
		if !byN {
			for k, s := range t.shapes {
				if loss[k] > s.base+math.Log1p(TieBand) {
					e.Losses = append(e.Losses, Loss{s.problem, math.Exp(loss[k] - s.base)})
				}
			}
		}
		single, nearest := t.baselines(byN)
		unpruned, _ := t.heldOut(byN, nil, o)
		e.Scores = append(e.Scores, t.score(held, launchrule.ChooserRules, loss, all), t.score(held, ChooserUnpruned, unpruned, all), t.score(held, ChooserDefault, base, all),
			t.score(held, ChooserSingle, single, all), t.score(held, ChooserNearest, nearest, all))
		if use := best.covered(); len(use) > 0 {
			e.Scores = append(e.Scores, t.score(held, ChooserPresets, best.loss, use))
		}
		if byN {
			continue
		}
		scores := []PresetScore{}
		for i := range published {
			scores = append(scores, t.presetScore(&published[i], loss, base))
		}
		byRegret(scores)
		if len(scores) > 1 {
			scores = append(scores, t.presetScore(&best, loss, base))
		}
		e.Presets = append(e.Presets, scores...)
	}
}

// resamples are enough for an interval to three digits.
const resamples = 2000

// score is of some shapes, at least one.
func (t *table) score(held, chooser string, loss []float64, use []int) Score {
	s := Score{Class: t.class.String(), Held: held, Chooser: chooser, Shapes: len(use)}
	cells := make([][]float64, len(use))
	regret := make([]float64, len(use))
	for i, k := range use {
		cells[i], regret[i] = []float64{loss[k]}, math.Exp(loss[k])
		if regret[i] > s.Max {
			s.Max, s.Worst = regret[i], t.shapes[k].problem.String()
		}
		if regret[i] <= 1.02 {
			s.Within2++
		}
		if regret[i] <= 1.05 {
			s.Within5++
		}
	}
	n := float64(len(use))
	s.Regret, s.Lo, s.Hi = stats.GeoMeanCI(cells, 0.95, resamples, 1)
	s.P95 = stats.Quantile(0.95, regret)
	for _, f := range []*float64{&s.Regret, &s.Lo, &s.Hi, &s.P95, &s.Max} {
		*f = round(*f)
	}
	s.Within2, s.Within5 = round(s.Within2/n), round(s.Within5/n)
	return s
}

// baselines are what the two simplest ways to choose lose on held-out shapes.
func (t *table) baselines(byN bool) (single, nearest []float64) {
	single, nearest = make([]float64, len(t.shapes)), make([]float64, len(t.shapes))
	t.eachFold(t.folds(byN), func(out, in []int) {
		best, least := -1, math.Inf(1)
		for r := range t.recipes {
			if t.recipes[r].RowBytes > 0 {
				continue
			}
			sum := 0.0
			for _, k := range in {
				sum += min(t.loss[r][k], t.shapes[k].base+unknownLoss)
			}
			if sum < least-tolerance {
				best, least = r, sum
			}
		}
		for _, k := range out {
			s := t.shapes[k]
			single[k], nearest[k] = s.base, s.base
			if best >= 0 {
				single[k] = min(t.loss[best][k], s.base+unknownLoss)
			}
			near, distance := -1, math.Inf(1)
			for _, i := range in {
				d := math.Hypot(math.Log(float64(s.n)/float64(t.shapes[i].n)), math.Log(float64(s.m)/float64(t.shapes[i].m)))
				if d < distance {
					near, distance = i, d
				}
			}
			if near < 0 {
				continue
			}
			// Its best variant may be refused here: then its next best.
			for _, v := range t.ranked[near] {
				if us, ok := t.us[k][v]; ok {
					nearest[k] = math.Log(us / t.bestUS[k])
					break
				}
			}
		}
	})
	return single, nearest
}
