package verify

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"normbench/kernels"
	"normbench/sweep"
)

// Beside its base config a family of ours is checked in the emulator in some others, and where nobody asked
// for types or options with those that it serves. What is chosen is the same in each run. A user's family is
// checked in what was asked for: its manifest may serve more than its kernel can.

const (
	// spreadLaunches is how many further launches of the emulator a family is checked in that was named, and
	// unnamedLaunches, where all are checked.
	spreadLaunches, unnamedLaunches = 6, 2
	// spreadCandidates is how many checks are laid out to choose from, spreadTries how many are tried for that.
	spreadCandidates, spreadTries = 160, 4000
)

// spreadShapes are those of the further checks: rows that no vector divides, tiles that are not full,
// several rows to a CTA, rows for clusters, and rows longer than a CTA holds at once.
var spreadShapes = [][2]int64{{21, 72}, {9, 541}, {6, 3074}, {48, 512}, {64, 128}, {37, 260}, {16, 1024}, {2, 4099},
	{1, 20000}}

// spreads says whether families are checked beyond what was asked for: not at shapes that were typed, and
// not beside all configs.
func (c *run) spreads() bool { return len(c.Typed) == 0 && !c.All }

// varied draws a problem of a family's op and pass: a shape, and with c.Vary types and options, of which
// a few stand together. Without it they are those of a problem that was asked for.
func (c *run) varied(f *kernels.Family, classes []kernels.Problem, rng *rand.Rand) kernels.Problem {
	p := classes[rng.IntN(len(classes))]
	shape := spreadShapes[rng.IntN(len(spreadShapes))]
	p.M, p.N = shape[0], shape[1]
	if !c.Vary {
		return p
	}
	types := kernels.DTypes()
	p = kernels.Problem{Op: f.Op, Pass: f.Pass, M: p.M, N: p.N, DType: types[rng.IntN(len(types))]}
	p.Weight = p.DType
	if rng.IntN(3) == 0 {
		p.Weight = types[rng.IntN(len(types))]
	}
	for _, o := range kernels.Options() {
		if rng.IntN(3) == 0 {
			o.Set(&p)
		}
	}
	return p
}

// addServed adds problems with options for operands that are families which serve nothing without: their
// own fewest ones, at the shapes that were asked for.
func (c *run) addServed() {
	var more []kernels.Problem
	for _, r := range c.operands {
		f, err := c.Registry.Lookup(r.Text)
		if err != nil || slices.ContainsFunc(c.Problems, func(p kernels.Problem) bool { return f.CheckServes(p) == nil }) {
			continue
		}
		i := slices.IndexFunc(c.Problems, func(p kernels.Problem) bool { return p.Op == f.Op && p.Pass == f.Pass })
		if i < 0 {
			continue
		}
		for _, o := range kernels.Options() {
			p := c.Problems[i]
			if o.Set(&p); p.Validate() != nil || f.Serves(p) != nil {
				continue
			}
			c.NoteOnce(fmt.Sprintf("%s serves nothing without %s: it is checked with it", f.Name, o.Noun))
			for _, q := range c.Problems {
				if q.Op == f.Op && q.Pass == f.Pass {
					o.Set(&q)
					more = append(more, q)
				}
			}
			break
		}
	}
	for _, p := range more {
		if !slices.Contains(c.Problems, p) {
			c.Problems = append(slices.Clip(c.Problems), p)
		}
	}
}

// A spreadCheck is a variant on a problem, with what its kernels are compiled for.
type spreadCheck struct {
	problem  kernels.Problem
	variant  kernels.Variant
	launches int
	pairs    []uint64 // of traits that one launch has
}

// A spreader chooses checks of a family that meet what none has met yet.
type spreader struct {
	names map[string]int // traits
	met   map[uint64]bool
}

// of returns the traits of a plan: the macros of its kernels, and whether CTAs have several rows; all
// pairs of those that one launch has.
func (s *spreader) of(p kernels.Problem, plan *kernels.Plan) (x spreadCheck) {
	x.problem = p
	for i := range plan.Launches {
		l := &plan.Launches[i]
		if !l.IsKernel() {
			continue
		}
		x.launches++
		var traits []int
		add := func(format string, args ...any) {
			name := l.Entry + ":" + fmt.Sprintf(format, args...)
			if _, ok := s.names[name]; !ok {
				s.names[name] = len(s.names) + 1
			}
			traits = append(traits, s.names[name])
		}
		add("%d columns, %d rows", p.N, p.M)
		add("%d CTAs to a row or fewer, cluster %d", min(int64(l.Grid[0])/p.M, 2), l.Cluster)
		for _, d := range l.Defines {
			add("%s=%d", d.Name, d.Value)
		}
		slices.Sort(traits)
		for j, a := range traits {
			for _, b := range traits[j:] { // with itself: the trait alone
				x.pairs = append(x.pairs, uint64(a)<<32|uint64(b))
			}
		}
	}
	return x
}

// newValue is what a value that no check had so far counts: about as much as its pairs with all others.
const newValue = 20

// gain counts per launch what a check covers and no chosen one does: values of macros, and pairs of them. In
// pairs, a value stands for itself where it is paired with itself.
func (s *spreader) gain(x *spreadCheck) (n int) {
	for _, pair := range x.pairs {
		switch {
		case s.met[pair]:
		case pair>>32 == pair&0xffffffff:
			n += newValue
		default:
			n++
		}
	}
	return n / max(x.launches, 1)
}

func (s *spreader) meet(x *spreadCheck) {
	for _, pair := range x.pairs {
		s.met[pair] = true
	}
}

// spread chooses further checks of a family, for some launches: those that together have met each value of
// its macros, and as many pairs of them as can be. tasks are what is checked already.
func (c *run) spread(f *kernels.Family, classes []kernels.Problem, tasks []sweep.Task, info kernels.DeviceInfo,
	launches int) (chosen []spreadCheck) {
	s := &spreader{names: map[string]int{}, met: map[uint64]bool{}}
	for _, t := range tasks {
		for _, v := range t.Variants {
			if v.Family == f.Name {
				x := s.of(t.Problem, new(f.Plan(t.Problem, v.Config, info)))
				s.meet(&x)
			}
		}
	}
	h := fnv.New64a()
	h.Write([]byte(f.Name)) //nolint:errcheck // it has none
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	var from []spreadCheck
	for try := 0; try < spreadTries && len(from) < spreadCandidates; try++ {
		p := c.varied(f, classes, rng)
		if p.Validate() != nil || f.Serves(p) != nil {
			continue
		}
		config := f.Base(p, info)
		var settings []kernels.Setting
		for _, k := range f.Knobs {
			if len(k.Values) > 1 && rng.IntN(2) == 0 {
				settings = append(settings, kernels.Setting{Knob: k.Knob, Value: k.Values[rng.IntN(len(k.Values))]})
			}
		}
		if config = config.With(settings...); f.Refuse(p, config, info) != nil {
			continue
		}
		x := s.of(p, new(f.Plan(p, config, info)))
		x.variant = kernels.Variant{Family: f.Name, Config: config}
		from = append(from, x)
	}
	for launches > 0 && len(from) > 0 {
		best, most := 0, -1
		for i := range from {
			if n := s.gain(&from[i]); n > most {
				best, most = i, n
			}
		}
		if most == 0 {
			break
		}
		x := from[best]
		from = slices.Delete(from, best, best+1)
		if x.launches <= launches || len(chosen) == 0 {
			chosen = append(chosen, x)
			launches -= x.launches
			s.meet(&x)
		}
	}
	return chosen
}
