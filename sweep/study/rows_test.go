package study

import (
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// A Row is what a setup came to over all problems and seeds.
type Row struct {
	Setup
	GPU      float64    // its GPU time over the grid's, of all problems together
	Mean     float64    // regret over problems and seeds
	P95      float64    // its 95th percentile
	Within   float64    // share of problems and seeds within 1% of the grid's best
	Problems float64    // share of problems whose median over the seeds is
	Configs  float64    // variants measured over those there are
	Variants float64    // variants measured per problem, the mean
	Saw      float64    // share of problems and seeds that measured one within 1% of the known best
	Wall     [2]float64 // seconds per problem on CompileCores, the mean
}

// Goal is the regret that counts as having found the grid's best.
const Goal = 0.01

// Summarize makes a setup's row of its outcomes by problem and seed. keep says
// which problems count; nil is all.
func Summarize(g *Grids, s Setup, outcomes [][]Outcome, keep func(Grid) bool) Row {
	r := Row{Setup: s}
	var all []float64
	var spent, grid float64
	problems := 0
	for i, of := range outcomes {
		if keep != nil && !keep(g.Problems[i]) {
			continue
		}
		problems++
		var regrets []float64
		var a, b float64
		for _, o := range of {
			regrets = append(regrets, o.Regret)
			if o.Regret <= Goal {
				r.Within++
			}
			if o.Saw {
				r.Saw++
			}
			for k := range r.Wall {
				r.Wall[k] += o.Wall[k]
			}
			r.Variants += float64(o.Configs)
			a, b = a+o.Seconds, b+o.Grid
			r.Configs += float64(o.Configs) / float64(len(g.Problems[i].Variants))
		}
		spent, grid = spent+a, grid+b
		if stats.Median(regrets) <= Goal {
			r.Problems++
		}
		all = append(all, regrets...)
	}
	if problems == 0 {
		return r
	}
	n := float64(len(all))
	r.GPU = spent / grid
	for _, x := range all {
		r.Mean += x / n
	}
	r.P95 = stats.Quantile(0.95, all)
	r.Within, r.Configs, r.Saw, r.Variants = r.Within/n, r.Configs/n, r.Saw/n, r.Variants/n
	for k := range r.Wall {
		r.Wall[k] /= n
	}
	r.Problems /= float64(problems)
	return r
}

// curveEvery is how much fewer seeds the curves over budgets have than what is
// claimed: a fifth of 100 on 212 problems are 4240 searches a point.
const curveEvery = 5

// Setups are what the table of strategies compares: each strategy at several
// budgets, auto as a sweep runs it, and the grid measured once more, which is the
// most that the noise of the records lets anyone reach.
func Setups() []Setup {
	list := []Setup{
		{Label: "auto", Strategy: search.Auto, Transfer: true},
		{Label: "auto + finals", Strategy: search.Auto, Transfer: true, Finals: 8},
		{Label: "auto alone", Strategy: search.Auto},
	}
	for _, share := range []float64{0.05, 0.1, 0.15, 0.3} {
		list = append(list, Setup{Label: "auto", Strategy: search.Auto, Share: share, Transfer: true, Every: curveEvery})
	}
	for _, name := range []string{search.Evolve, search.Halving, search.Random} {
		for _, share := range []float64{0.05, 0.1, 0.2, 0.4} {
			list = append(list, Setup{Label: name, Strategy: name, Share: share, Every: curveEvery})
		}
	}
	return append(list, Setup{Label: search.Halving, Strategy: search.Halving, Share: 1, Every: curveEvery},
		Setup{Label: search.Grid, Strategy: search.Grid})
}

// Quick is the fewest setups that say anything: auto between the floor and the
// ceiling.
func Quick() []Setup {
	return []Setup{
		{Label: "auto", Strategy: search.Auto, Transfer: true},
		{Label: search.Random, Strategy: search.Random, Share: 0.1},
		{Label: search.Grid, Strategy: search.Grid},
	}
}

// NaiveShares are the budgets of Naive, as shares of the configs.
var NaiveShares = []float64{0.01, 0.03, 0.06, 0.1}

// Naive compares searches from the base with searches from the variant of median time. The base is
// often within 1% of the best already, so the second says more of a strategy. A label stands once
// for each of NaiveShares; a base alone stands once.
func Naive() []Setup {
	list := []Setup{
		{Label: "base alone", Strategy: search.Random, Share: 1e-9},
		{Label: "naive base alone", Strategy: search.Random, Share: 1e-9, Naive: true},
	}
	for _, naive := range []bool{false, true} {
		from, alone := " from the base", "auto alone, base"
		if naive {
			from, alone = " from a naive base", "auto alone, naive base"
		}
		for _, s := range []Setup{
			{Label: search.Auto + from, Strategy: search.Auto, Transfer: true},
			{Label: alone, Strategy: search.Auto},
			{Label: search.Random + from, Strategy: search.Random},
		} {
			s.Naive = naive
			for _, s.Share = range NaiveShares {
				list = append(list, s)
			}
		}
	}
	return list
}
