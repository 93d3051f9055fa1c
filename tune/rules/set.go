package rules

import (
	"cmp"
	"math"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
)

// Schema is the version of the rules files that this package writes, and the
// newest that it reads.
const Schema = 1

// Kind is what the files say they are, to tell them from tuned tables.
const Kind = "rules"

// A Set is the rules of one device, with where they come from: records that they are
// fitted to, or a Ref that they are the launches of.
type Set struct {
	Schema int    `json:"schema"`
	Kind   string `json:"kind"`
	Tool   string `json:"tool"` // version of normbench that fitted
	// Of is the Ref that the rules are the launches of, and UpTo the problems that it was asked about,
	// each with its most rows. Of rules fitted to records both are empty.
	Of       string             `json:"of,omitempty"`
	UpTo     []kernels.Problem  `json:"up_to,omitempty"`
	Measured string             `json:"measured,omitempty"` // version that measured
	Date     time.Time          `json:"date,omitzero"`      // of the latest record
	Device   kernels.DeviceInfo `json:"device"`
	Protocol record.Protocol    `json:"protocol,omitzero"`
	Noise    float64            `json:"noise"` // median spread of the stream's samples
	Sources  map[string]string  `json:"sources"`
	HeldOut  []Score            `json:"held_out"` // see Evaluation
	Classes  []List             `json:"classes"`
}

// An Answer is what the rules say about a problem.
type Answer struct {
	Match   Match
	Rule    int             // its number in its class, from 0; -1 where none fired
	Variant kernels.Variant // zero unless a rule fired
	List    *List           // of the problem's class, nil where there is none
}

// Pick answers for a problem on the device, by its numbers alone.
func (s *Set) Pick(p kernels.Problem) Answer { return s.PickOn(p, max(s.Device.Units, 1)) }

// PickOn answers for a device like it with another number of multiprocessors. Launches answer
// for the problems that they are of alone: a class does not tell fp16 from bf16.
func (s *Set) PickOn(p kernels.Problem, sms int) Answer {
	find := (*List).find
	if s.Of != "" {
		if find = (*List).first; !s.covers(p) {
			return Answer{Match: MatchClass, Rule: -1}
		}
	}
	for i := range s.Classes {
		l := &s.Classes[i]
		if l.Class != ClassOf(p) {
			continue
		}
		a := Answer{List: l}
		if a.Rule, a.Match = find(l, p.M, p.N, sms); a.Rule >= 0 {
			a.Variant = l.Rules[a.Rule].At(p.N, l.Bytes)
		}
		return a
	}
	return Answer{Match: MatchClass, Rule: -1}
}

// Fit finds the rules of every class of the data and evaluates them held out.
func Fit(d *Data, j Judge, o Options, tool string) (*Set, *Evaluation, error) {
	s := &Set{
		Schema: Schema, Kind: Kind, Tool: tool, Measured: d.Tool, Date: d.Date, Device: d.Device,
		Protocol: d.Protocol, Noise: round(d.Noise), Sources: map[string]string{},
	}
	e := &Evaluation{}
	for _, t := range tables(d, j) {
		barred := t.distrust(o)
		l := t.list(t.all(), barred, o, true)
		for _, r := range l.Rules {
			s.Sources[r.Family] = d.Sources[r.Family]
		}
		s.Classes = append(s.Classes, l)
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
			if r.Box, ok = t.narrow(r.Box, r.Recipe, l.Hull, use); !ok {
				continue
			}
			// What is left of the box may no longer be worth a rule.
			if r.Evidence = t.evidence(r, p.recipe, use); r.Evidence.Regret >= r.Evidence.DefaultRegret {
				continue
			}
		}
		l.Rules = append(l.Rules, r)
	}
	// Boxes do not overlap, so the order is the reader's: narrow rows first.
	slices.SortStableFunc(l.Rules, func(a, b Rule) int {
		most := func(v int64) int64 { return cmp.Or(v, math.MaxInt64) }
		return cmp.Or(cmp.Compare(most(a.NMax), most(b.NMax)), cmp.Compare(a.NOver, b.NOver), cmp.Compare(most(a.MMax), most(b.MMax)), cmp.Compare(a.MOver, b.MOver), cmp.Compare(a.RowAlign, b.RowAlign))
	})
	return l
}

// evidence sums up what was measured in a rule's box.
func (t *table) evidence(r Rule, recipe int, use []int) Evidence {
	var e Evidence
	var own, base, worst float64
	for _, k := range use {
		s := t.shapes[k]
		if !r.Holds(s.m, s.n, t.class.Bytes, t.sms) {
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
