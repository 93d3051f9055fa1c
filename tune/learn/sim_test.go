package learn

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// A sim is a device with a clock of its own. The times of a variant are a function of its family,
// its knobs and the problem: each family has an offset and, for each knob, a value that is best,
// which moves with the row and the rows. So its optimum over the real spaces is known, and no
// config is the best everywhere.
type sim struct {
	devicetest.Fake
	info kernels.DeviceInfo
	seed uint64
	off  float64 // how far its families and knobs differ from those of seed: another card

	mu       sync.Mutex
	clock    time.Time
	launches int
	fams     map[string]*simFamily
	bests    map[kernels.Problem]float64 // the least times that were asked for
}

type simFamily struct {
	offset, row, rows, uneven float64
	knobs                     map[string]*simKnob
}

type simKnob struct{ steep, at, row, rows, uneven float64 }

var registry = families.New()

// bare knows no maps.
var bare = families.NewRegistry()

func newSim(seed uint64, off float64) *sim {
	s := &sim{info: devicetest.H200(), seed: seed, off: off, clock: time.Date(2026, 3, 4, 5, 6, 7,
		0, time.UTC),
		fams:  map[string]*simFamily{},
		bests: map[kernels.Problem]float64{}}
	s.OpenError = func(p kernels.Problem, _ int) error {
		s.pass(60*time.Millisecond + time.Duration(float64(p.Bytes())/2e11*1e9))
		return nil
	}
	// Compiling takes no time: it goes on beside measuring, and takes less.
	s.Hook = func(_ context.Context, op string, _ kernels.Variant) error {
		s.pass(map[string]time.Duration{"check": 4 * time.Millisecond,
			"time": 300 * time.Microsecond}[op])
		return nil
	}
	s.Seconds = func(p kernels.Problem, v kernels.Variant, _ int) float64 {
		s.launches++
		sec := s.seconds(p, v) * math.Exp(0.006*normal(s.launches, s.seed))
		s.pass(time.Duration(1e9 * (sec + 60e-6)))
		return sec
	}
	return s
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
		f = &simFamily{offset: 0.05 * s.trait(name), row: 0.05 * s.trait(name, "row"),
			rows:   0.05 * s.trait(name, "rows"),
			uneven: 0.08 * s.trait(name, "uneven"), knobs: map[string]*simKnob{}}
		s.fams[name] = f
	}
	return f
}

func (f *simFamily) knob(s *sim, name, key string) *simKnob {
	k := f.knobs[key]
	if k == nil {
		k = &simKnob{steep: 0.004 * math.Exp(0.8*s.trait(name, key, "steep")),
			at: 2 + 1.2*s.trait(name, key), row: 1.2 * s.trait(name, key, "row"),
			rows: 0.5 * s.trait(name, key, "rows"), uneven: 0.5 * s.trait(name, key, "uneven")}
		f.knobs[key] = k
	}
	return k
}

// seconds is the time of a variant without noise: a launch, which is the same for all, and what
// moves the bytes.
func (s *sim) seconds(p kernels.Problem, v kernels.Variant) float64 {
	launch, ideal := 2e-6, float64(p.Bytes())/4.2e12
	if strings.HasSuffix(v.Family, "/stream") {
		return launch + ideal
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
	return launch + ideal*(1+max(lost, 0.02))
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
