package study

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/search"
)

// A Free is the space of a kernel_tuner cache: its knobs, their values and the time of each config.
// Nothing is assumed of what the knobs mean.
type Free struct {
	Kernel, Device string
	Axes           []search.ForeignKnob
	At             [][]int   // of each config, its knobs' values by index
	Times          []float64 // milliseconds, +Inf of an invalid config
}

// readCache reads a kernel_tuner cache, .json or .json.gz. A knob with one value is left out.
func readCache(path string) (*Free, error) {
	data, err := os.ReadFile(path)
	if z, zerr := gzip.NewReader(bytes.NewReader(data)); err == nil && zerr == nil {
		data, err = io.ReadAll(z)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var c struct {
		Device string                    `json:"device_name"`
		Kernel string                    `json:"kernel_name"`
		Keys   []string                  `json:"tune_params_keys"`
		Cache  map[string]map[string]any `json:"cache"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// In the order of their knobs' values, that a seed finds the same.
	label := func(e map[string]any) (s string) {
		for _, k := range c.Keys {
			s += fmt.Sprint(e[k], ",")
		}
		return s
	}
	entries := slices.SortedFunc(maps.Values(c.Cache), func(a, b map[string]any) int {
		return strings.Compare(label(a), label(b))
	})
	f := &Free{Kernel: c.Kernel, Device: c.Device, At: make([][]int, len(entries))}
	for _, e := range entries {
		t := math.Inf(1)
		if ms, ok := e["time"].(float64); ok && ms < 1e20 { // old versions wrote 1e20 for an error
			t = ms
		}
		f.Times = append(f.Times, t)
	}
	for _, name := range c.Keys {
		var values []any
		for _, e := range entries {
			if !slices.Contains(values, e[name]) {
				values = append(values, e[name])
			}
		}
		if len(values) < 2 {
			continue
		}
		f.Axes = append(f.Axes, newAxis(values))
		for i, e := range entries {
			f.At[i] = append(f.At[i], slices.Index(values, e[name]))
		}
	}
	if len(f.Axes) == 0 || math.IsInf(slices.Min(f.Times), 1) {
		return nil, fmt.Errorf("%s has no valid config, or one config only", path)
	}
	return f, nil
}

// newAxis sorts the values, and makes an axis of them: with numbers, where all are.
func newAxis(values []any) search.ForeignKnob {
	a := search.ForeignKnob{Size: len(values)}
	slices.SortFunc(values, func(x, y any) int {
		n, _ := x.(float64)
		m, _ := y.(float64)
		return cmp.Or(cmp.Compare(n, m), cmp.Compare(fmt.Sprintf("%T%v", x, x), fmt.Sprintf("%T%v", y, y)))
	})
	for _, v := range values {
		if n, ok := v.(float64); ok {
			a.Values = append(a.Values, n)
		}
	}
	if len(a.Values) < len(values) {
		a.Values = nil
	}
	return a
}

// freeBudgets are the shares of a free space, in hundredths, at which a search is judged.
const freeBudgets = 10

// A FreeRow is a strategy on a free space.
type FreeRow struct {
	Strategy string
	Mean     [freeBudgets]float64 // over seeds of the regret, the pick over the best, by share
	Within   float64              // share of seeds within Goal at the last share
	// Score is 0 where the strategy is as good as what random draws are expected to find, and 1
	// where it finds the optimum at once: (random - strategy) / (random - optimum), the mean over
	// the shares (Willemsen et al. 2024).
	Score float64
}

// valid are the configs with a time.
func (f *Free) valid() (is []int) {
	for i, t := range f.Times {
		if !math.IsInf(t, 1) {
			is = append(is, i)
		}
	}
	return is
}

// RandomRegret is what draws without replacement of a share in hundredths, of which the first is a
// valid one, are expected to find, over the optimum.
func RandomRegret(f *Free, share int) float64 {
	times := slices.Sorted(slices.Values(f.Times))
	n, m, draws := len(times), len(f.valid()), Draws(f, share)
	// The chance that the best is the i-th: one of the draws has it, or is it the first, and
	// none has a faster one.
	none := 1.0 // chance that nothing faster than the i-th was drawn
	sum := 0.0
	for i, t := range times[:m] {
		// The start is not among the i+1 fastest, and neither is any of the others.
		next := float64(m-i-1) / float64(m)
		for d := range i + 1 {
			next *= math.Max(float64(n-draws-d)/float64(n-1-d), 0)
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
	return max(int(math.Ceil(float64(share)*float64(len(f.Times))/100)), 2)
}

// RunFree searches a free space from seeds random valid starts by each strategy.
func RunFree(ctx context.Context, f *Free, strategies []string, seeds int) (rows []FreeRow, err error) {
	for _, name := range strategies {
		r, found := FreeRow{Strategy: name}, make([][]float64, seeds)
		err := parallel(ctx, seeds, func(ctx context.Context, seed int) (err error) {
			found[seed], err = searchFree(ctx, f, name, uint64(seed))
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range r.Mean {
			r.Within = 0
			for _, best := range found {
				regret := best[min(Draws(f, i+1), len(best))-1]/slices.Min(f.Times) - 1
				r.Mean[i] += regret / float64(seeds)
				if regret <= Goal {
					r.Within += 1 / float64(seeds)
				}
			}
			score := 1.0
			if random := RandomRegret(f, i+1); random > 0 {
				score -= r.Mean[i] / random
			}
			r.Score += score / freeBudgets
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// searchFree starts from a random valid config, and returns the fastest time after each config. A
// variant's family is its config's number.
func searchFree(ctx context.Context, f *Free, name string, seed uint64) (best []float64, err error) {
	valid := f.valid()
	start := valid[rand.New(rand.NewPCG(seed, 1)).IntN(len(valid))]
	space := &search.Candidates{Keep: []int{start}, Full: 1, Seed: seed + 1, SMs: 1,
		Allow:    search.Effort{Configs: Draws(f, freeBudgets)},
		Variants: make([]kernels.Variant, len(f.Times)), At: f.At, Axes: f.Axes}
	for i := range f.Times {
		space.Variants[i].Family = strconv.Itoa(i)
	}
	board, err := search.Drive(ctx, name, space, freeBench{f})
	if err != nil {
		return nil, err
	}
	least := math.Inf(1)
	for _, v := range board.Order() {
		least = min(least, f.Times[v])
		best = append(best, least)
	}
	return best, nil
}

// A freeBench is a search.Measurer without noise.
type freeBench struct{ *Free }

func (freeBench) Announce([]kernels.Variant) {}

func (f freeBench) Visit(ctx context.Context, v kernels.Variant, launches int) ([]float64, float64,
	error) {
	i, err := strconv.Atoi(v.Family)
	if err != nil {
		return nil, 0, err
	}
	if math.IsInf(f.Times[i], 1) {
		return nil, 1, kernels.Failf(kernels.StatusLaunch, "invalid in the cache")
	}
	return slices.Repeat(f.Times[i:i+1], launches), f.Times[i], ctx.Err()
}

// auto beats what random draws are expected to find on every kind of space, at 3% and from there
// on.
func TestAutoBeatsRandomOnEveryKindOfSpace(t *testing.T) {
	sum, n := 0.0, 0.0
	for name, f := range synthetics() {
		rows, err := RunFree(t.Context(), f, []string{search.Auto}, 1)
		assert.NoError(t, err)
		auto := rows[0]
		sum, n = sum+auto.Score, n+1
		assert.That(t, auto.Score >= 0.4, "%s: auto scores %.2f", name, auto.Score)
		for _, share := range []int{3, 6, 10} {
			mean, random := auto.Mean[share-1], RandomRegret(f, share)
			assert.That(t, mean <= random, "%s: auto's regret at %d%% is %.3f, random's %.3f", name,
				share, mean, random)
		}
	}
	assert.That(t, sum/n >= 0.75, "auto scores %.2f in the mean", sum/n)
}
