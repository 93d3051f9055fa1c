package rules

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// The launch rules that records are fitted to are those of package launchrule.
type (
	Class    = launchrule.Class
	Box      = launchrule.Box
	Rule     = launchrule.Rule
	Recipe   = launchrule.Recipe
	Evidence = launchrule.Evidence
	Hull     = launchrule.Hull
	List     = launchrule.List
	Set      = launchrule.Set
	Score    = launchrule.Score
	Judge    = launchrule.Judge
)

// Fit finds the rules of every class of the data and evaluates them held out.
func Fit(d *Data, j Judge, o Options, tool string) (*Set, *Evaluation, error) {
	protocol, err := json.Marshal(d.Protocol)
	if err != nil {
		return nil, nil, err
	}
	s := &Set{
		Schema: launchrule.Schema, Kind: launchrule.Kind, Tool: tool, Measured: d.Tool, Date: d.Date, Device: d.Device,
		Protocol: protocol, Noise: round(d.Noise), Sources: map[string]string{},
	}
	e := &Evaluation{}
	for _, t := range tables(d, j) {
		barred := t.distrust(o)
		l := t.list(t.all(), barred, o, true)
		for _, r := range l.Rules {
			s.Sources[r.Family] = d.Sources[r.Family]
		}
		s.Lists = append(s.Lists, l)
		e.add(t, l, barred, o)
	}
	s.HeldOut = e.Scores
	return s, e, s.CheckValid()
}

func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// all are the numbers of all shapes.
func (t *table) all() []int {
	use := make([]int, len(t.shapes))
	for k := range use {
		use[k] = k
	}
	return use
}

// list makes the rules of the fit to some shapes. Narrowing asks the registry
// hundreds of questions per rule, so the folds of an evaluation leave it out and
// ask about the held-out shape alone.
func (t *table) list(use, barred []int, o Options, narrow bool) List {
	l := List{Class: t.class, Hull: hullOf(t, use), Rules: []Rule{}}
	f := fit(t, use, barred, o)
	for _, p := range f.pieces() {
		if p.recipe == useDefault {
			continue
		}
		r := Rule{Box: f.box(p), Recipe: t.recipes[p.recipe]}
		if narrow {
			var ok bool
			var ps []kernels.Problem
			for _, k := range use {
				ps = append(ps, t.shapes[k].problem)
			}
			if r.Box, ok = t.narrower.Narrow(r.Box, r.Recipe, l.Hull, ps); !ok {
				continue
			}
			// The rest of the box may no longer be worth a rule.
			if r.Evidence = t.evidence(r, p.recipe, use); r.Evidence.Regret >= r.Evidence.DefaultRegret {
				continue
			}
		}
		l.Rules = append(l.Rules, r)
	}
	// Boxes do not overlap, so the order is the reader's: narrow rows first.
	slices.SortStableFunc(l.Rules, func(a, b Rule) int {
		most := func(v int64) int64 { return cmp.Or(v, math.MaxInt64) }
		return cmp.Or(cmp.Compare(most(a.NMax), most(b.NMax)), cmp.Compare(a.NOver, b.NOver), cmp.Compare(most(a.MMax.Num), most(b.MMax.Num)), cmp.Compare(a.MOver.Num, b.MOver.Num), cmp.Compare(a.RowAlign, b.RowAlign))
	})
	return l
}

// evidence sums up what was measured in a rule's box.
func (t *table) evidence(r Rule, recipe int, use []int) Evidence {
	var e Evidence
	var own, base, worst float64
	for _, k := range use {
		s := t.shapes[k]
		if !r.Holds(&s.at) {
			continue
		}
		l := t.loss[recipe][k]
		own, base = own+l, base+s.base
		if e.Problems == 0 || l > worst {
			worst, e.Worst = l, s.problem.String()
		}
		e.Problems++
	}
	if n := float64(e.Problems); n > 0 {
		e.Regret, e.DefaultRegret, e.WorstRegret = round(math.Exp(own/n)), round(math.Exp(base/n)), round(math.Exp(worst))
	}
	return e
}

// hullOf is the hull of some of a table's shapes.
func hullOf(t *table, use []int) Hull {
	var h Hull
	for i, k := range use {
		s := t.shapes[k]
		e := s.n * s.rows
		if i == 0 {
			h = Hull{NMin: s.n, NMax: s.n, MMin: s.rows, MMax: s.rows, ElemsMax: e}
		}
		h.NMin, h.NMax, h.MMin, h.MMax, h.ElemsMax = min(h.NMin, s.n), max(h.NMax, s.n), min(h.MMin, s.rows), max(h.MMax, s.rows), max(h.ElemsMax, e)
	}
	return h
}
