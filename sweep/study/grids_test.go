// Package study compares search strategies on recorded grids: the share of the
// grid's GPU time that each takes, and its regret, the time of what it found
// over that of what the grid finds.
//
// Each seed splits the samples of every variant in two halves at random. The
// searches draw from the first; the grid's best is the variant with the least
// median of it; and both are judged by their medians of the second, which no one
// has seen. So neither is flattered by the noise that chose it.
package study

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// A Grid is all that was recorded of one problem.
type Grid struct {
	Problem  kernels.Problem
	Variants []Variant
	Base     int
	Stream   []float64 // samples, microseconds
}

// A Variant is one that was measured right.
type Variant struct {
	kernels.Variant
	Samples []float64 // microseconds
	Check   kernels.Check
}

// Grids are recorded grids of one device.
type Grids struct {
	Source   string
	Device   kernels.DeviceInfo
	Protocol record.Protocol
	Problems []Grid // in the order of the records, which is that of a sweep
	Skipped  int    // problems with a single variant, or without base or stream
}

// A Setup is a strategy with what it may use.
type Setup struct {
	Label    string
	Strategy string
	Share    float64 // most of the variants of each problem, 0 for no bound
	Transfer bool    // problems are searched in turn, and a search knows those before it
	Finals   int     // variants to measure again in interleaved rounds, 0 for none
	Naive    bool    // the base is the variant of median time, not what the launch rule picks
	Every    int     // searches by every so many seeds only; 0 is all
}

// finalRounds are those of the finals, as sweep takes them by default.
const (
	finalRounds   = 8
	finalLaunches = 2
)

// An Outcome is one search of one problem.
type Outcome struct {
	Regret  float64 // of what was found over the grid's best, on samples that neither saw
	Seconds float64 // of the device at work
	Grid    float64 // what the grid takes of the same
	Configs int
	Saw     bool       // it measured a variant within Goal of the known best, by the medians of all samples
	Wall    [2]float64 // seconds on CompileCores, compiling before every round and then measuring it
}

// minSamples is the least number per variant that splits in halves of use.
const minSamples = 8

// Run searches every problem with every setup and seed, from 1 to seeds, and
// returns outcomes by setup, problem and seed.
func Run(ctx context.Context, g *Grids, setups []Setup, seeds int) ([][][]Outcome, error) {
	for _, p := range g.Problems {
		for _, v := range p.Variants {
			if len(v.Samples) < minSamples {
				return nil, fmt.Errorf("%s: %s on %s has %d samples, too few to split", g.Source, v.Variant, p.Problem, len(v.Samples))
			}
		}
	}
	out := make([][][]Outcome, len(setups))
	for i := range out {
		out[i] = make([][]Outcome, len(g.Problems))
		for j := range out[i] {
			every := max(setups[i].Every, 1)
			out[i][j] = make([]Outcome, (seeds+every-1)/every)
		}
	}
	var mu sync.Mutex
	var first error
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				err := runSeed(ctx, g, setups, uint64(seed+1), func(i, j int, o Outcome) {
					out[i][j][seed/max(setups[i].Every, 1)] = o
				})
				mu.Lock()
				first = cmp.Or(first, err)
				mu.Unlock()
			}
		})
	}
	for s := range seeds {
		if ctx.Err() != nil {
			break
		}
		next <- s
	}
	close(next)
	wg.Wait()
	return out, cmp.Or(first, ctx.Err())
}

// split is a problem with its samples in halves.
type split struct {
	*Grid
	seen, fresh []float64 // medians of each variant's halves
	known       []bool    // which variants are within Goal of the best by all samples
	best        int       // the grid's
	seconds     float64   // of the grid
}

// known are the variants within Goal of the least median of all samples.
func (p *Grid) known() []bool {
	least := math.Inf(1)
	for _, v := range p.Variants {
		least = min(least, stats.Median(v.Samples))
	}
	is := make([]bool, len(p.Variants))
	for i, v := range p.Variants {
		is[i] = stats.Median(v.Samples) <= (1+Goal)*least
	}
	return is
}

// middle is the variant of median time by what searches see.
func (s *split) middle() int {
	order := make([]int, len(s.seen))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.seen[a], s.seen[b]) })
	return order[len(order)/2]
}

func runSeed(ctx context.Context, g *Grids, setups []Setup, seed uint64, tell func(setup, problem int, o Outcome)) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	var ms []replay.Measurement
	splits := make([]split, len(g.Problems))
	for i := range g.Problems {
		p := &g.Problems[i]
		s := split{Grid: p, known: p.known()}
		for _, v := range p.Variants {
			x := slices.Clone(v.Samples)
			rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
			half := len(x) / 2
			s.seen = append(s.seen, stats.Median(x[:half]))
			s.fresh = append(s.fresh, stats.Median(x[half:]))
			ms = append(ms, replay.Measurement{Problem: p.Problem, Variant: v.Variant, Status: kernels.StatusOK, Check: &v.Check, SamplesUS: x[:half]})
		}
		for j := range s.seen {
			if s.seen[j] < s.seen[s.best] {
				s.best = j
			}
		}
		splits[i] = s
	}
	dev, err := replay.New(g.Device, g.Source, seed, ms)
	if err != nil {
		return err
	}
	full := g.Protocol.Samples + g.Protocol.Discard
	for i := range splits {
		for j, v := range splits[i].Variants {
			launch := splits[i].seen[j]/1e6 + flushSeconds(g)
			splits[i].seconds += v.Check.Busy + float64(full)*launch
		}
	}
	for k, setup := range setups {
		if setup.Every > 1 && (seed-1)%uint64(setup.Every) != 0 {
			continue
		}
		var known *search.History
		if setup.Transfer {
			known = &search.History{}
		}
		for i := range splits {
			o, err := one(ctx, g, dev, &splits[i], setup, known, seed)
			if err != nil {
				return err
			}
			tell(k, i, o)
		}
	}
	return nil
}

func flushSeconds(g *Grids) float64 {
	rate := 4e12
	if g.Device.PeakRate > 0 {
		rate = float64(g.Device.PeakRate)
	}
	return float64(g.Protocol.Flush) / rate
}

func one(ctx context.Context, g *Grids, dev kernels.Device, s *split, setup Setup, known *search.History, seed uint64) (Outcome, error) {
	b, err := dev.Open(ctx, s.Problem, seed)
	if err != nil {
		return Outcome{}, err
	}
	defer b.Close()
	space := &search.Space{Problem: s.Problem, SMs: g.Device.SMs, Keep: []int{s.Base}, Known: known, Full: g.Protocol.Samples, Seed: seed}
	for _, v := range s.Variants {
		space.Variants = append(space.Variants, v.Variant)
	}
	if setup.Naive {
		space.Keep[0] = s.middle()
	}
	allow := search.Budget{Share: setup.Share}.Allow(len(space.Variants), len(space.Variants), search.Spent{})
	space.Limit = allow.Configs
	strategy, err := search.New(setup.Strategy, space)
	if err != nil {
		return Outcome{}, err
	}
	unit := stats.Median(s.Stream)
	board := search.NewBoard(space, stats.Spread(s.Stream)/1.35, unit)
	m := &meter{b: b, pr: g.Protocol, seen: map[kernels.Variant]bool{}, compiles: newCompiles(s.Grid)}
	if _, err := search.Drive(ctx, strategy, board, allow, m); err != nil {
		return Outcome{}, err
	}
	known.Add(board, unit)
	pick := board.Pick()
	seconds := board.Spent().Seconds
	if setup.Finals > 0 {
		var busy float64
		if pick, busy, err = finals(ctx, board, m, s, setup.Finals); err != nil {
			return Outcome{}, err
		}
		seconds += busy
	}
	wall := m.wall
	for i := range wall {
		wall[i] += seconds
	}
	return Outcome{
		Saw:     slices.ContainsFunc(board.Order(), func(v int) bool { return s.known[v] }),
		Wall:    wall,
		Regret:  s.fresh[pick]/s.fresh[s.best] - 1,
		Seconds: seconds,
		Grid:    s.seconds,
		Configs: board.Measured(),
	}, nil
}

// finals are the fastest of the best measured again, with the base. They draw
// from the half that the search saw, as the records have no third.
func finals(ctx context.Context, b *search.Board, m *meter, s *split, n int) (pick int, busy float64, err error) {
	vs := b.Finalists(n)
	fs := make([]search.Finalist, len(vs))
	for range finalRounds {
		for i, v := range vs {
			us, t, err := m.Visit(ctx, s.Variants[v].Variant, finalLaunches)
			if err != nil {
				return 0, 0, err
			}
			busy += t
			fs[i].Variant = s.Variants[v].Variant
			fs[i].Rounds = append(fs[i].Rounds, stats.Median(us))
		}
	}
	w, _ := search.Choose(fs, 0, 0)
	return vs[w], busy, nil
}

// meter is a search.Bench on a device's bench, as the runner's is.
type meter struct {
	b    kernels.Bench
	pr   record.Protocol
	seen map[kernels.Variant]bool
	compiles
}

func (m *meter) Refuse(kernels.Variant, float64) string { return "" }

func (m *meter) Visit(ctx context.Context, v kernels.Variant, launches int) ([]float64, float64, error) {
	busy := 0.0
	if !m.seen[v] {
		m.seen[v] = true
		c, err := m.b.Check(ctx, v, 2)
		if err != nil {
			return nil, 0, err
		}
		busy = c.Busy
	}
	t, err := m.b.Time(ctx, v, m.pr.TimeOptions(launches+m.pr.Discard))
	if err != nil {
		return nil, busy, err
	}
	return record.Micros(t.Seconds[m.pr.Discard:]), busy + t.Busy, nil
}
