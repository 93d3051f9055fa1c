package learn

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// A sim is a device with a clock of its own. The times of a variant are a function of its family,
// its knobs and the problem: each family has an offset and, for each knob, a value that is best,
// which moves with the row and the rows. So its optimum over the real spaces is known, and no
// config is the best everywhere.
type sim struct {
	info kernels.DeviceInfo
	seed uint64
	off  float64 // how far its families and knobs differ from those of seed: another card

	mu       sync.Mutex
	clock    time.Time
	ready    map[string]time.Time // when a unit is compiled
	free     []time.Time          // when each compiler is
	wishes   []wish
	launches int
	fams     map[string]*simFamily
	bests    map[kernels.Problem]float64 // the least times that were asked for
}

type simFamily struct {
	offset, row, rows, uneven float64
	knobs                     map[string]*simKnob
}

type simKnob struct{ steep, at, row, rows, uneven float64 }

const compilers = 16

var registry = families.New()

// bare knows no maps.
var bare = families.With()

func newSim(seed uint64, off float64) *sim {
	return &sim{info: devicetest.H200(), seed: seed, off: off, clock: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		ready: map[string]time.Time{}, free: make([]time.Time, compilers), fams: map[string]*simFamily{},
		bests: map[kernels.Problem]float64{}}
}

// normal is a number that belongs to its parts, of a standard normal distribution.
func normal(parts ...any) float64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	return rand.New(rand.NewPCG(h.Sum64(), 1)).NormFloat64()
}

// trait is a property of a family or a knob: another card's is off.
func (s *sim) trait(parts ...any) float64 {
	x := normal(append([]any{s.seed}, parts...)...)
	if s.off > 0 {
		x = x*math.Sqrt(1-s.off*s.off) + s.off*normal(append([]any{s.seed + 1}, parts...)...)
	}
	return x
}

func (s *sim) family(p kernels.Problem, name string) *simFamily {
	f := s.fams[name]
	if f == nil {
		f = &simFamily{offset: 0.05 * s.trait(name), row: 0.05 * s.trait(name, "row"), rows: 0.05 * s.trait(name, "rows"),
			uneven: 0.08 * s.trait(name, "uneven"), knobs: map[string]*simKnob{}}
		s.fams[name] = f
	}
	return f
}

func (f *simFamily) knob(s *sim, name, key string) *simKnob {
	k := f.knobs[key]
	if k == nil {
		k = &simKnob{steep: 0.004 * math.Exp(0.8*s.trait(name, key, "steep")), at: 2 + 1.2*s.trait(name, key),
			row: 1.2 * s.trait(name, key, "row"), rows: 0.5 * s.trait(name, key, "rows"), uneven: 0.5 * s.trait(name, key, "uneven")}
		f.knobs[key] = k
	}
	return k
}

// seconds is the time of a variant without noise.
func (s *sim) seconds(p kernels.Problem, v kernels.Variant) float64 {
	ideal := 2e-6 + float64(p.Bytes())/4.2e12
	if strings.HasSuffix(v.Family, "/stream") {
		return ideal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := (math.Log2(float64(p.N*p.DType.Size())) - 12) / 4
	rows := (math.Log2(float64(p.M)/float64(s.info.SMs)) - 3) / 6
	uneven := 0.0
	if p.N*p.DType.Size()%16 != 0 {
		uneven = 1
	}
	f := s.family(p, v.Family)
	lost := 0.25 + f.offset + f.row*row + f.rows*rows + f.uneven*uneven
	for _, x := range v.Config.Settings() {
		k := f.knob(s, v.Family, x.Knob.Key)
		d := math.Log2(1+float64(x.Value)) - k.at - k.row*row - k.rows*rows - k.uneven*uneven
		lost += k.steep * min(d*d, 9)
	}
	return ideal * (1 + max(lost, 0.02))
}

// best is the least time of all variants.
func (s *sim) best(p kernels.Problem) float64 {
	if best, ok := s.bests[p]; ok {
		return best
	}
	best := math.Inf(1)
	for _, f := range registry.Candidates(p) {
		configs, _ := f.Configs(p, s.info)
		for _, c := range configs {
			best = min(best, s.seconds(p, kernels.Variant{Family: f.Name, Config: c}))
		}
	}
	s.bests[p] = best
	return best
}

func (s *sim) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *sim) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

func (s *sim) Info() kernels.DeviceInfo { return s.info }
func (s *sim) Close() error             { return nil }

// A wish is the units of a problem that were announced.
type wish struct {
	p     kernels.Problem
	units []string
	at    time.Time
}

// work lets the compilers run until a time: of what is announced the newest first.
func (s *sim) work(until time.Time) {
	for len(s.wishes) > 0 {
		w := &s.wishes[len(s.wishes)-1]
		if len(w.units) == 0 {
			s.wishes = s.wishes[:len(s.wishes)-1]
			continue
		}
		first := s.idle()
		start := s.free[first]
		if start.Before(w.at) {
			start = w.at
		}
		if !start.Before(until) {
			return
		}
		if _, done := s.ready[w.units[0]]; !done {
			s.free[first] = start.Add(compileTime)
			s.ready[w.units[0]] = s.free[first]
		}
		w.units = w.units[1:]
	}
}

func (s *sim) idle() (first int) {
	for i := range s.free {
		if s.free[i].Before(s.free[first]) {
			first = i
		}
	}
	return first
}

// compileTime is what one kernel takes on one core: an H100's host with 16 cores did 16089 in 3147
// core seconds.
const compileTime = 200 * time.Millisecond

// unitsFor are the kernels of a variant, each compiled once.
func (s *sim) unitsFor(p kernels.Problem, v kernels.Variant) (units []string) {
	f, err := registry.Lookup(v.Family)
	if err != nil || strings.HasSuffix(v.Family, "/stream") {
		return nil
	}
	for _, l := range f.Plan(p, v.Config, s.info).Launches {
		if l.IsKernel() {
			units = append(units, fmt.Sprint(l.Source, l.Entry, l.Defines))
		}
	}
	return units
}

// need is when the kernels of a variant are compiled that is asked for now.
func (s *sim) need(p kernels.Problem, v kernels.Variant) (last time.Time) {
	s.work(s.clock)
	for _, key := range s.unitsFor(p, v) {
		t, ok := s.ready[key]
		if !ok {
			first := s.idle()
			if s.free[first].Before(s.clock) {
				s.free[first] = s.clock
			}
			s.free[first] = s.free[first].Add(compileTime)
			s.ready[key] = s.free[first]
			t = s.free[first]
		}
		if t.After(last) {
			last = t
		}
	}
	return last
}

func (s *sim) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work(s.clock)
	s.wishes = slices.DeleteFunc(s.wishes, func(w wish) bool { return w.p == p })
	w := wish{p: p, at: s.clock}
	for _, v := range vs {
		w.units = append(w.units, s.unitsFor(p, v)...)
	}
	s.wishes = append(s.wishes, w)
}

func (s *sim) Open(ctx context.Context, p kernels.Problem, seed uint64) (kernels.Bench, error) {
	s.pass(60*time.Millisecond + time.Duration(float64(p.Bytes())/2e11*1e9))
	return &simBench{s, p}, ctx.Err()
}

type simBench struct {
	s *sim
	p kernels.Problem
}

func (b *simBench) Close() error { return nil }

func (b *simBench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	s := b.s
	s.mu.Lock()
	if t := s.need(b.p, v); t.After(s.clock) {
		s.clock = t
	}
	s.mu.Unlock()
	s.pass(4 * time.Millisecond)
	return kernels.Check{Repeats: repeats, Busy: 4e-3}, ctx.Err()
}

func (b *simBench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	var t kernels.Timing
	for range o.Samples {
		b.s.mu.Lock()
		b.s.launches++
		n := b.s.launches
		b.s.mu.Unlock()
		sec := b.s.seconds(b.p, v) * math.Exp(0.006*normal(n, b.s.seed))
		t.Seconds = append(t.Seconds, sec)
		t.Busy += sec + 60e-6
	}
	b.s.pass(time.Duration(1e9 * (t.Busy + 300e-6)))
	return t, ctx.Err()
}
