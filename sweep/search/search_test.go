package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
)

var problem = kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Bwd, M: 4096, N: 8192,
	DType: kernels.BF16, Weight: kernels.BF16}

// space is n variants of two families, the base somewhere in the middle.
func space(n int, seed uint64) *Candidates {
	s := &Candidates{Problem: problem, SMs: 132, Full: 20, Seed: seed}
	for i := 0; len(s.Variants) < n; i++ {
		family := "rms_bwd/reg_persist"
		if i%3 == 0 {
			family = "rms_bwd/two_pass"
		}
		s.Variants = append(s.Variants, kernels.Variant{Family: family, Config: kernels.NewConfig(
			kernels.Setting{Knob: kernels.BlockRows, Value: 1 << (i % 5)},
			kernels.Setting{Knob: kernels.Warps, Value: 1 << (i / 5 % 6)},
			kernels.Setting{Knob: kernels.PerSM, Value: i / 30})})
	}
	s.Keep = []int{n / 2}
	if n > 3 {
		s.Keep = append(s.Keep, n/3)
	}
	return s
}

// A machine is a Measurer with known times: smooth in the knobs, with noise.
type machine struct {
	rng     *rand.Rand
	noise   float64
	fail    func(kernels.Variant) bool
	visits  []string
	batches [][]kernels.Variant
}

func (m *machine) us(v kernels.Variant) float64 {
	t := 60.0
	for i, x := range Features(problem, v, 132) {
		t += 3 * math.Abs(x-float64(i%3)-1)
	}
	return t
}

func (m *machine) Announce(now []kernels.Variant) { m.batches = append(m.batches, now) }

func (m *machine) Visit(_ context.Context, v kernels.Variant, n int) ([]float64, float64, error) {
	m.visits = append(m.visits, fmt.Sprint(v, " ", n))
	if m.fail != nil && m.fail(v) {
		return nil, 1e-4, kernels.Failf(kernels.StatusWrong, "as asked")
	}
	us := make([]float64, n)
	busy := 0.0
	for i := range us {
		us[i] = m.us(v) * math.Exp(m.noise*m.rng.NormFloat64())
		busy += us[i] / 1e6
	}
	return us, busy + 1e-4, nil
}

func play(t testing.TB, name string, s *Candidates, a Effort, m *machine) *Board {
	t.Helper()
	s.Allow, s.Noise = a, m.noise
	b, err := Drive(t.Context(), name, s, m)
	assert.NoError(t, err)
	return b
}

// pick is the variant that a search would run without finals.
func (b *Board) pick() int { return append(b.Finalists(1), b.space.Keep[0])[0] }

func newMachine(seed uint64) *machine {
	return &machine{rng: rand.New(rand.NewPCG(seed, 1)), noise: 0.02}
}

// What every strategy must hold to, whatever the space and the budget.
func TestStrategiesKeepTheirContract(t *testing.T) {
	for i := range 25 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 2))
		n, limit, kind := r.IntN(91)+1, r.IntN(256), r.IntN(3)
		all := i < 3 // fail
		if i%5 == 0 {
			n = 1
		}
		for _, name := range Names() {
			s := space(n, seed)
			what := fmt.Sprintf("%s of %d by seed %d, budget %d of kind %d", name, n, seed, limit, kind)
			var a Effort
			switch kind {
			case 1:
				a.Configs = limit%n + 1
			case 2:
				a.Seconds = float64(limit+1) * 1e-4
			}
			m := newMachine(seed)
			m.fail = func(v kernels.Variant) bool {
				return all || v.Config.Get(kernels.BlockRows) == 4 && v != s.Variants[s.Keep[0]]
			}
			b := play(t, name, s, a, m)
			for _, k := range s.Keep {
				assert.That(t, b.HasMeasured(k) && b.OK(k) != m.fail(s.Variants[k]),
					"%s: variant %d to keep was not measured, or not right", what, k)
			}
			assert.That(t, b.OK(b.pick()) || all && b.pick() == s.Keep[0], "%s: pick %d", what, b.pick())
			assert.That(t, a.Configs == 0 || b.CountMeasured() <= max(a.Configs, len(s.Keep)),
				"%s: %d configs", what, b.CountMeasured())
			for v := range s.Variants {
				assert.That(t, b.Launches(v) <= s.Full,
					"%s: %d launches of a variant", what, b.Launches(v))
			}
			first := map[kernels.Variant]bool{}
			for _, v := range slices.Concat(m.batches...) {
				assert.That(t, !first[v] || kind != 0, "%s announced %s twice", what, v)
				first[v] = true
			}
			again := newMachine(seed)
			again.fail = m.fail
			play(t, name, s, a, again)
			assert.That(t, slices.Equal(m.visits, again.visits),
				"%s: the same seed gave other visits", what)
		}
	}
}

// On a smooth space, all but random find a time within 3% of the best.
func TestStrategiesComeNearTheBest(t *testing.T) {
	s := space(150, 3)
	m := newMachine(3)
	best := math.Inf(1)
	for _, v := range s.Variants {
		best = min(best, m.us(v))
	}
	for _, name := range Names() {
		b := play(t, name, s, Effort{}, newMachine(3))
		got := m.us(s.Variants[b.pick()])
		assert.That(t, got <= 1.03*best, "%s found %.1f us, the best is %.1f", name, got, best)
	}
	b := play(t, Auto, s, Effort{}, newMachine(3))
	assert.That(t, b.CountMeasured() <= 60, "auto measured %d of 150", b.CountMeasured())
}

func TestEmptySpaceIsRefused(t *testing.T) {
	_, err := Drive(t.Context(), "nosuch", space(3, 1), nil)
	assert.That(t, err != nil && hint.Of(err) != "", "%v", err)
	_, err = Drive(t.Context(), Auto, &Candidates{Problem: problem, Full: 1}, nil)
	assert.That(t, err != nil && hint.Of(err) != "", "%v %v", "an empty space was taken:", err)
}

// What was found on a neighbour is tried first.
func TestNeighboursWinnerIsTriedFirst(t *testing.T) {
	h := &History{}
	s := space(120, 1)
	b := play(t, Grid, s, Effort{}, newMachine(1))
	h.Add(b)
	won := s.Variants[b.Ranking()[0]]
	next := space(120, 2)
	next.Known = h
	next.Problem.M *= 2
	w := h.Winners(next, 1)
	assert.That(t, len(w) == 1 && next.Variants[w[0]] == won, "winners %v", w)
	m := newMachine(2)
	play(t, Auto, next, Effort{}, m)
	assert.That(t, slices.Contains(m.visits[:8], fmt.Sprint(won, " 1")),
		"%s is not among the first visits %v", won, m.visits[:8])
	next.Problem.Pass = kernels.Fwd
	assert.Equal(t, len(h.Winners(next, 1)), 0, "winners of the other pass")
}

// A variant that fails after a visit was measured once.
func TestVariantThatFailsLaterWasMeasuredOnce(t *testing.T) {
	b := &Board{cells: make([]variantState, 2)}
	b.addSamples(0, 0, []float64{1, 2})
	b.fail(0, kernels.Failf(kernels.StatusWrong, "as asked"))
	b.fail(1, kernels.Failf(kernels.StatusWrong, "as asked"))
	got := b.Order()
	assert.That(t, slices.Equal(got, []int{0, 1}) && b.CountMeasured() == 2 && !b.OK(0) && !b.OK(1),
		"order %v, %d measured", got, b.CountMeasured())
}

// evolve spends six tenths of a budget of time on new variants, and the rest on the race of the fastest.
func TestEvolveExploresSixTenthsOfItsBudget(t *testing.T) {
	s, m := space(600, 5), newMachine(5)
	const budget = 30e-3 // seconds: some 200 launches
	spent, explored := 0.0, 0.0
	seen := map[kernels.Variant]bool{}
	timed := &timedMachine{machine: m, visited: func(v kernels.Variant, busy float64) {
		if spent += busy; !seen[v] {
			seen[v], explored = true, spent
		}
	}}
	s.Allow, s.Noise = Effort{Seconds: budget, Configs: 500}, m.noise
	_, err := Drive(t.Context(), "evolve", s, timed)
	share := explored / budget
	assert.That(t, err == nil && len(seen) > 50 && share > 0.55 && share < 0.75,
		"%v; %d new variants in %.0f%% of the budget", err, len(seen), 100*share)
}

// A timedMachine tells of each visit.
type timedMachine struct {
	*machine
	visited func(v kernels.Variant, busy float64)
}

func (m *timedMachine) Visit(ctx context.Context, v kernels.Variant, n int) ([]float64, float64, error) {
	us, busy, err := m.machine.Visit(ctx, v, n)
	m.visited(v, busy)
	return us, busy, err
}

// A race visits variants that it cannot tell apart until they have 1, 3, 7 and 15 launches in all.
func TestRaceVisitsByRungs(t *testing.T) {
	s := space(6, 1)
	b := &Board{space: s, cells: make([]variantState, len(s.Variants))}
	r := &race{s: s, rng: rand.New(rand.NewPCG(1, 2)), in: []int{0, 1, 2, 3, 4, 5}, widen: 3}
	var totals []int
	for n := 0; ; n++ {
		round := r.Ask(b)
		if len(round) == 0 {
			break
		}
		for _, visit := range round {
			b.addSamples(visit.Variant, n, slices.Repeat([]float64{10}, visit.Launches))
		}
		totals = append(totals, b.Launches(0))
	}
	assert.Equal(t, fmt.Sprint(totals), "[1 3 7 15]", "launches after each round")
}

// The surrogate takes times near the fastest as they are, and a variant that takes twice as long as one
// that takes some 1.4 times.
func TestSurrogateBendsTimesFarFromTheFastest(t *testing.T) {
	assert.That(t, math.Abs(warp(0.01)/0.01-1) < 0.02, "1%% slower counts as %.4f", warp(0.01))
	twice := math.Exp(warp(math.Log(2)))
	assert.That(t, twice > 1.35 && twice < 1.5, "twice as slow counts as %.2f times", twice)
}
