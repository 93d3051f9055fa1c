package study

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"normbench/kernels"
	"normbench/sweep/search"
)

// FreeBudgets are the shares of a free space, in hundredths, at which a search is
// judged.
const FreeBudgets = 10

// A FreeRow is what a strategy came to on a free space.
type FreeRow struct {
	Strategy string
	// Regret by share of the space: of what was found over the best, by seed.
	Regret [FreeBudgets][]float64
	// Score is 0 where the strategy is as good as what random draws are expected to
	// find, and 1 where it finds the optimum at once: (random - strategy) / (random -
	// optimum), the mean over the shares (Willemsen et al. 2024).
	Score float64
}

// Mean is the mean regret at a share in hundredths.
func (r *FreeRow) Mean(share int) float64 {
	sum := 0.0
	for _, x := range r.Regret[share-1] {
		sum += x
	}
	return sum / float64(len(r.Regret[share-1]))
}

// Within is the share of seeds with at most Goal at a share in hundredths.
func (r *FreeRow) Within(share int) float64 {
	n := 0.0
	for _, x := range r.Regret[share-1] {
		if x <= Goal {
			n++
		}
	}
	return n / float64(len(r.Regret[share-1]))
}

// RandomRegret is what draws without replacement of so many configs, of which the first is a
// valid one, are expected to find, over the optimum.
func RandomRegret(f *Free, draws int) float64 {
	var times []float64
	for _, c := range f.Configs {
		if !math.IsInf(c.Time, 1) {
			times = append(times, c.Time)
		}
	}
	slices.Sort(times)
	n, m := len(f.Configs), len(times)
	draws = min(max(draws, 1), n)
	// The chance that the best is the i-th: one of the draws has it, or is it the first, and
	// none has a faster one.
	none := 1.0 // chance that nothing faster than the i-th was drawn
	sum := 0.0
	for i, t := range times {
		// The start is not among the i+1 fastest, and neither is any of the others.
		next := float64(m-i-1) / float64(m)
		for d := range i + 1 {
			next *= math.Max(float64(n-draws-d)/float64(n-1-d), 0)
			if next == 0 {
				break
			}
		}
		sum += (none - next) * t
		if none = next; none < 1e-12 {
			break
		}
	}
	return sum/times[0] - 1
}

// Draws are the configs of a share in hundredths.
func Draws(f *Free, share int) int {
	return max(int(math.Ceil(float64(share)*float64(len(f.Configs))/100)), 2)
}

// FreeSpace is a free space as strategies see it, with one config to start from.
func FreeSpace(f *Free, start, limit int, seed uint64) *search.Space {
	s := &search.Space{Keep: []int{start}, Full: 1, Limit: limit, Seed: seed, SMs: 1, Variants: make([]kernels.Variant, len(f.Configs)), At: make([][]int, len(f.Configs))}
	for _, k := range f.Knobs {
		s.Axes = append(s.Axes, search.Axis{Name: k.Name, Size: len(k.Labels), Values: k.Values})
	}
	for i, c := range f.Configs {
		s.Variants[i].Family = f.Label(i)
		s.At[i] = c.At
	}
	return s
}

// RunFree searches a free space from seeds random valid starts by each strategy.
func RunFree(ctx context.Context, f *Free, strategies []string, seeds int) ([]FreeRow, error) {
	best := f.Best()
	rows := make([]FreeRow, len(strategies))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for k, name := range strategies {
		rows[k].Strategy = name
		for i := range rows[k].Regret {
			rows[k].Regret[i] = make([]float64, seeds)
		}
		for seed := range seeds {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				m, err := searchFree(ctx, f, name, Draws(f, FreeBudgets), uint64(seed))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					first = err
					return
				}
				for i := range rows[k].Regret {
					rows[k].Regret[i][seed] = m.after(Draws(f, i+1))/best - 1
				}
			})
		}
	}
	wg.Wait()
	if first != nil {
		return nil, first
	}
	for k := range rows {
		for i := range FreeBudgets {
			if random := RandomRegret(f, Draws(f, i+1)); random > 0 {
				rows[k].Score += (1 - rows[k].Mean(i+1)/random) / FreeBudgets
			} else {
				rows[k].Score += 1.0 / FreeBudgets
			}
		}
	}
	return rows, nil
}

// searchFree starts from a random valid config.
func searchFree(ctx context.Context, f *Free, name string, limit int, seed uint64) (*freeBench, error) {
	var valid []int
	for i, c := range f.Configs {
		if !math.IsInf(c.Time, 1) {
			valid = append(valid, i)
		}
	}
	start := valid[rand.New(rand.NewPCG(seed, 1)).IntN(len(valid))]
	space := FreeSpace(f, start, limit, seed+1)
	strategy, err := search.New(name, space)
	if err != nil {
		return nil, err
	}
	m := &freeBench{f: f, of: make(map[string]int, len(f.Configs))}
	for i := range f.Configs {
		m.of[space.Variants[i].Family] = i
	}
	_, err = search.Drive(ctx, strategy, search.NewBoard(space, 0, 0), search.Allowance{Configs: limit}, m)
	return m, err
}

// freeBench is a search.Bench without noise, which remembers the fastest so far
// after each config.
type freeBench struct {
	f    *Free
	of   map[string]int
	seen map[int]bool
	best []float64
}

func (m *freeBench) after(n int) float64 { return m.best[min(n, len(m.best))-1] }

func (m *freeBench) Refuse(kernels.Variant, float64) string        { return "" }
func (m *freeBench) Announce([]kernels.Variant, []kernels.Variant) {}

func (m *freeBench) Visit(ctx context.Context, v kernels.Variant, launches int) ([]float64, float64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	i, ok := m.of[v.Family]
	if !ok {
		return nil, 0, fmt.Errorf("no config %s", v.Family)
	}
	t := m.f.Configs[i].Time
	if m.seen == nil {
		m.seen = map[int]bool{}
	}
	if !m.seen[i] {
		m.seen[i] = true
		best := t
		if n := len(m.best); n > 0 {
			best = min(best, m.best[n-1])
		}
		m.best = append(m.best, best)
	}
	if math.IsInf(t, 1) {
		return nil, 1, kernels.Failf(kernels.StatusLaunch, "invalid in the cache")
	}
	us := make([]float64, launches)
	for k := range us {
		us[k] = t
	}
	return us, t, nil
}

// auto beats what random draws are expected to find on every kind of space, at 3%
// and from there on.
func TestFreeSpaces(t *testing.T) {
	sum, n := 0.0, 0.0
	for name, f := range synthetics() {
		rows, err := RunFree(t.Context(), f, []string{search.Auto}, 3)
		if err != nil {
			t.Fatal(err)
		}
		auto := rows[0]
		sum, n = sum+auto.Score, n+1
		if auto.Score < 0.4 {
			t.Errorf("%s: auto scores %.2f", name, auto.Score)
		}
		for _, share := range []int{3, 6, 10} {
			if random := RandomRegret(f, Draws(f, share)); auto.Mean(share) > random {
				t.Errorf("%s: auto's regret at %d%% is %.3f, random's %.3f", name, share, auto.Mean(share), random)
			}
		}
	}
	if sum/n < 0.75 {
		t.Errorf("auto scores %.2f in the mean", sum/n)
	}
}

// The expected curve of random draws is what draws find.
func TestRandomRegret(t *testing.T) {
	f := synthetics()["invalid"]
	best := math.Inf(1)
	var valid []int
	for i, c := range f.Configs {
		best = min(best, c.Time)
		if !math.IsInf(c.Time, 1) {
			valid = append(valid, i)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const runs, draws = 2000, 50
	sum := 0.0
	for range runs {
		got := f.Configs[valid[rng.IntN(len(valid))]].Time
		for _, i := range rng.Perm(len(f.Configs))[:draws-1] {
			got = min(got, f.Configs[i].Time)
		}
		sum += got/best - 1
	}
	if want := RandomRegret(f, draws); math.Abs(sum/runs-want) > 0.05*want {
		t.Errorf("drawn %.4f, expected %.4f", sum/runs, want)
	}
	flat := &Free{Configs: []FreeConfig{{Time: 1}, {Time: 1}}}
	if got := RandomRegret(flat, 1); got != 0 {
		t.Errorf("regret %g where all are equal", got)
	}
}
