// Package study compares search strategies on recorded grids: the share of the grid's GPU time that
// each takes, and its regret, the time of the pick over that of the grid's best.
//
// Each seed splits the samples of every variant in two halves at random. Searches draw from the
// first; the grid's best has the least median of it. Both are judged by their medians of the second
// half, so neither is flattered by the noise that chose it.
package study

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// A Grid is what was recorded of one problem: right variants, of which one is the base.
type Grid struct {
	*record.ProblemRecords
	Base int
}

// Grids are recorded grids of one device.
type Grids struct {
	Source   string
	Device   kernels.DeviceInfo
	Protocol record.Protocol
	Problems []Grid // in the order of the records, which is that of a sweep
}

// minSamples is the least number per variant that splits in halves of use.
const minSamples = 8

// Load reads recorded grids: the ok records of one device, one protocol and one source per family.
func Load(path string) (*Grids, error) {
	problems, _, err := record.ReadProblems(path)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(problems, func(a, b *record.ProblemRecords) int {
		return a.Records[0].Time.Compare(b.Records[0].Time)
	})
	g := &Grids{Source: path, Device: problems[0].Run.Device, Protocol: problems[0].Run.Protocol}
	for _, p := range problems {
		p.Records = slices.DeleteFunc(p.Records,
			func(r *record.Record) bool { return r.Status != kernels.StatusOK })
		base := slices.IndexFunc(p.Records, func(r *record.Record) bool { return r.Base })
		if p.Run.Protocol != g.Protocol || g.Protocol.Phase != "" || base < 0 || len(p.Stream) == 0 ||
			slices.ContainsFunc(p.Records,
				func(r *record.Record) bool { return len(r.SamplesUS) < minSamples }) {
			return nil, fmt.Errorf("%s: %s is no grid of the first one's protocol, with base, stream and "+
				"%d samples of each", path, p.Problem, minSamples)
		}
		g.Problems = append(g.Problems, Grid{p, base})
	}
	return g, nil
}

// A Setup is a strategy with what it may use.
type Setup struct {
	Label    string
	Strategy string
	Share    float64 // most of the variants of each problem, 0 for no bound
	Transfer bool    // problems are searched in turn, and a search knows those before it
	Naive    bool    // the base is the variant of median time, not the default
	Every    int     // searches by every so many seeds only; 0 is all
}

// A SearchOutcome is one search of one problem.
type SearchOutcome struct {
	Problem int     // its place among those of the grids
	Regret  float64 // of the pick over the grid's best, on samples that neither saw
	Seconds float64 // of the device at work
	Grid    float64 // the grid's seconds for the same
	Configs int
	Saw     bool // it measured a variant within Goal of the best, by the medians of all samples
}

// Run searches every problem with every setup and seed, from 1 to seeds, and returns outcomes by
// setup.
func Run(ctx context.Context, g *Grids, setups []Setup, seeds int) ([][]SearchOutcome, error) {
	bySeed := make([][][]SearchOutcome, seeds)
	err := parallel(ctx, seeds, func(ctx context.Context, seed int) (err error) {
		bySeed[seed], err = runSeed(ctx, g, setups, uint64(seed+1))
		return err
	})
	out := make([][]SearchOutcome, len(setups))
	for _, of := range bySeed {
		for i, list := range of {
			out[i] = append(out[i], list...)
		}
	}
	return out, err
}

// parallel calls do with 0 to n-1 on all cores, and returns an error of them.
func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		all.Go(func() error { return cmp.Or(ctx.Err(), do(ctx, i)) })
	}
	return all.Wait()
}

// A split is a problem with its samples in halves.
type split struct {
	*Grid
	seen, fresh []float64 // medians of each variant's halves
	near        []bool    // which variants are within Goal of the best by all samples
	best        int       // the grid's
	seconds     float64   // of the grid
}

// newSplit draws the halves, and returns what searches may draw from.
func newSplit(g *Grids, p *Grid, rng *rand.Rand) (split, []*record.Record) {
	s := split{Grid: p}
	var rs []*record.Record
	var all []float64
	for _, v := range p.Records {
		x := slices.Clone(v.SamplesUS)
		rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		half := len(x) / 2
		s.seen = append(s.seen, stats.Median(x[:half]))
		s.fresh = append(s.fresh, stats.Median(x[half:]))
		all = append(all, stats.Median(x))
		seen := *v
		seen.SamplesUS = x[:half]
		rs = append(rs, &seen)
	}
	s.best = slices.Index(s.seen, slices.Min(s.seen))
	rate := cmp.Or(float64(g.Device.PeakRate), 4e12)
	full := float64(g.Protocol.Samples + g.Protocol.Discard)
	for i, v := range p.Records {
		s.near = append(s.near, all[i] <= (1+Goal)*slices.Min(all))
		s.seconds += v.Check.Busy + full*(s.seen[i]/1e6+float64(g.Protocol.Flush)/rate)
	}
	return s, rs
}

// middle is the variant of median time by the half that searches see.
func (s *split) middle() int {
	order := make([]int, len(s.seen))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.seen[a], s.seen[b]) })
	return order[len(order)/2]
}

// runSeed returns outcomes by setup and problem, none of a setup that leaves out the seed.
func runSeed(ctx context.Context, g *Grids, setups []Setup, seed uint64) ([][]SearchOutcome, error) {
	out := make([][]SearchOutcome, len(setups))
	rng := rand.New(rand.NewPCG(seed, 0))
	var rs []*record.Record
	splits := make([]split, len(g.Problems))
	for i := range g.Problems {
		var more []*record.Record
		splits[i], more = newSplit(g, &g.Problems[i], rng)
		rs = append(rs, more...)
	}
	dev, err := replay.New(g.Device, g.Source, seed, rs)
	if err != nil {
		return out, err
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
			o, err := searchGrid(ctx, g, dev, &splits[i], setup, known, seed)
			if err != nil {
				return out, err
			}
			o.Problem = i
			out[k] = append(out[k], o)
		}
	}
	return out, nil
}

func searchGrid(ctx context.Context, g *Grids, dev kernels.Device, s *split, setup Setup,
	known *search.History, seed uint64) (SearchOutcome, error) {
	m := &meter{seen: map[kernels.Variant]bool{}, Session: &sweep.Session{Device: dev,
		Registry: registry, Problem: s.ProblemRecords.Problem, Protocol: g.Protocol, Seed: seed}}
	defer m.Close()
	space := &search.Candidates{Problem: s.ProblemRecords.Problem, SMs: g.Device.SMs, Keep: []int{s.Base}, Known: known,
		Full: g.Protocol.Samples, Noise: stats.Spread(s.Stream) / 1.35, Seed: seed}
	for _, v := range s.Records {
		space.Variants = append(space.Variants, v.Variant())
	}
	if setup.Naive {
		space.Keep[0] = s.middle()
	}
	n := len(space.Variants)
	space.Allow = search.Budget{Share: setup.Share}.Allow(n, n, search.Effort{})
	board, err := search.Drive(ctx, setup.Strategy, space, m)
	if err != nil {
		return SearchOutcome{}, err
	}
	known.Add(board)
	pick := append(board.Finalists(1), space.Keep[0])[0]
	return SearchOutcome{
		Saw:     slices.ContainsFunc(board.Order(), func(v int) bool { return s.near[v] }),
		Regret:  s.fresh[pick]/s.fresh[s.best] - 1,
		Seconds: board.Spent().Seconds,
		Grid:    s.seconds,
		Configs: board.CountMeasured(),
	}, nil
}

// A meter is a search.Measurer on a session, as the runner's is.
type meter struct {
	*sweep.Session
	seen map[kernels.Variant]bool
}

var registry = families.New()

func (m *meter) Announce([]kernels.Variant) {}

func (m *meter) Visit(ctx context.Context, v kernels.Variant, launches int) (us []float64,
	busy float64, err error) {
	before := m.Busy
	if !m.seen[v] {
		m.seen[v] = true
		_, err = m.Check(ctx, v, sweep.Repeats)
	}
	if err == nil {
		us, err = m.Time(ctx, v, launches)
	}
	return us, m.Busy - before, err
}

// Goal is the regret that counts as having found the grid's best.
const Goal = 0.01

// A SetupRow is a setup's outcomes over all problems and seeds.
type SetupRow struct {
	Setup
	GPU      float64 // its GPU time over the grid's, of all problems together
	Mean     float64 // regret over problems and seeds
	P95      float64 // its 95th percentile
	Within   float64 // share of problems and seeds within Goal
	Problems float64 // share of problems whose median over the seeds is
	Variants float64 // variants measured per problem, the mean
	Saw      float64 // share of problems and seeds that measured one within Goal of the known best
}

// Summarize makes a setup's row of its outcomes.
func Summarize(s Setup, outcomes []SearchOutcome) SetupRow {
	r := SetupRow{Setup: s}
	var all []float64
	var spent, grid float64
	byProblem, n := map[int][]float64{}, float64(len(outcomes))
	for _, o := range outcomes {
		all = append(all, o.Regret)
		byProblem[o.Problem] = append(byProblem[o.Problem], o.Regret)
		r.Mean += o.Regret / n
		if o.Regret <= Goal {
			r.Within += 1 / n
		}
		if o.Saw {
			r.Saw += 1 / n
		}
		r.Variants += float64(o.Configs) / n
		spent, grid = spent+o.Seconds, grid+o.Grid
	}
	for _, regrets := range byProblem {
		if stats.Median(regrets) <= Goal {
			r.Problems += 1 / float64(len(byProblem))
		}
	}
	r.GPU, r.P95 = spent/grid, stats.Quantile(0.95, all)
	return r
}

// The checked-in grids of an H200: auto takes at most a tenth of their GPU time, and finds nearly
// as many of their winners as measuring them again does (over 100 seeds 79% of them, against 89).
func TestAutoFindsRecordedWinnersInATenth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	g, err := Load(filepath.Join("..", "..", "results", "nvidia-h200", "grids"))
	assert.NoError(t, err)
	assert.Must(t, len(g.Problems) == 12, "%d grids", len(g.Problems))
	setups := []Setup{{Label: search.Auto, Strategy: search.Auto, Transfer: true},
		{Label: search.Grid, Strategy: search.Grid}}
	out, err := Run(t.Context(), g, setups, 6)
	assert.NoError(t, err)
	auto, grid := Summarize(setups[0], out[0]), Summarize(setups[1], out[1])
	t.Logf("auto: %+v\ngrid: %+v", auto, grid)
	assert.That(t, auto.GPU <= 0.10 && auto.Within >= grid.Within-0.15 && grid.GPU >= 0.95 &&
		grid.GPU <= 1.05, "auto: %+v\ngrid: %+v", auto, grid)
}
