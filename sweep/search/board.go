package search

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// A Board holds what a search has seen of each variant: samples, visits and failures.
type Board struct {
	space *Candidates
	cells []variantState
	order []int // the variants that were visited, in the order of their first visit
	spent Effort
	Short bool // the allowance was spent when the base was measured
}

// A variantState is a Board's record of one variant.
type variantState struct {
	samples []float64
	visits  []int // launches of each
	rounds  []int // that they belong to
	medians []float64
	median  float64
	failure *kernels.Failure // nil of one that runs
}

// addSamples records the samples of one visit, which was in a round, in microseconds.
func (b *Board) addSamples(v, round int, samples []float64) {
	c := &b.cells[v]
	if len(c.visits) == 0 {
		b.order = append(b.order, v)
	}
	c.samples = append(c.samples, samples...)
	c.visits = append(c.visits, len(samples))
	c.rounds = append(c.rounds, round)
	c.medians = append(c.medians, stats.Median(samples))
	c.median = stats.Median(c.samples)
}

// fail records that a variant cannot be measured, and why.
func (b *Board) fail(v int, f *kernels.Failure) {
	if !b.HasMeasured(v) {
		b.order = append(b.order, v)
	}
	b.cells[v].failure = f
}

// Failure returns how a variant failed, nil where it did not.
func (b *Board) Failure(v int) *kernels.Failure { return b.cells[v].failure }

// HasMeasured says whether a variant was measured, or failed.
func (b *Board) HasMeasured(v int) bool {
	return len(b.cells[v].visits) > 0 || b.Failure(v) != nil
}

// OK says whether a variant was measured and has not failed.
func (b *Board) OK(v int) bool { return len(b.cells[v].visits) > 0 && b.Failure(v) == nil }

// Launches counts the samples of a variant.
func (b *Board) Launches(v int) int { return len(b.cells[v].samples) }

// Samples returns a variant's samples in microseconds, in the order taken.
func (b *Board) Samples(v int) []float64 { return b.cells[v].samples }

// Visits returns the number of launches of each visit of a variant, in the order taken.
func (b *Board) Visits(v int) []int { return b.cells[v].visits }

// Median returns the median of a variant's samples in microseconds, +Inf where there are none.
func (b *Board) Median(v int) float64 {
	if !b.OK(v) {
		return math.Inf(1)
	}
	return b.cells[v].median
}

// Order lists the variants in the order of their first visit, failed ones too.
func (b *Board) Order() []int { return b.order }

// CountMeasured counts the variants that were measured, or failed.
func (b *Board) CountMeasured() int { return len(b.order) }

// Noise estimates the relative standard deviation of one launch, as a fraction of its time. It is the
// median of estimates from all variants with 3 samples or more, and at least 0.002. Each estimate is the
// range of the first 3 samples, which is 1.69 standard deviations on average (Tippett 1925), as so few
// have no quartiles. With fewer than 3 such variants it is the noise of the problem's stream.
func (b *Board) Noise() float64 {
	var estimates []float64
	for _, v := range b.order {
		if c := &b.cells[v]; c.failure == nil && len(c.samples) >= 3 {
			s := c.samples[:3]
			estimates = append(estimates, (slices.Max(s)-slices.Min(s))/1.69/c.median)
		}
	}
	if len(estimates) < 3 {
		return max(b.space.Noise, 0.002)
	}
	return max(stats.Median(estimates), 0.002)
}

// Ranking lists the variants with a time, fastest median first.
func (b *Board) Ranking() []int {
	var vs []int
	for _, v := range b.order {
		if b.OK(v) {
			vs = append(vs, v)
		}
	}
	slices.SortStableFunc(vs, func(x, y int) int { return cmp.Compare(b.Median(x), b.Median(y)) })
	return vs
}

// ratio computes the time of v over that of o. It uses the rounds that visited both, so that drift
// between rounds cancels, or the ratio of their medians where no round did.
func (b *Board) ratio(v, o int) float64 {
	x, y := &b.cells[v], &b.cells[o]
	var logs []float64
	for i, r := range x.rounds {
		if j := slices.Index(y.rounds, r); j >= 0 {
			l := math.Log(x.medians[i] / y.medians[j])
			for range min(x.visits[i], y.visits[j]) { // a long visit knows more
				logs = append(logs, l)
			}
		}
	}
	if len(logs) == 0 {
		return x.median / y.median
	}
	return math.Exp(stats.Median(logs))
}

// UsedShare returns the share of the allowance that is spent, 0 where there is no bound on time.
func (b *Board) UsedShare() float64 {
	if most := b.space.Allow.Seconds; most > 0 {
		return b.spent.Seconds / most
	}
	return 0
}

// Finalists chooses n variants to measure again: first the fastest of those that stayed in the race to
// its end, then the fastest of the others. It adds the variants to keep if they are not among them.
func (b *Board) Finalists(n int) []int {
	most := 0
	for _, v := range b.order {
		most = max(most, b.Launches(v))
	}
	ranked := b.Ranking()
	slices.SortStableFunc(ranked, func(x, y int) int {
		late := func(v int) int {
			if 2*b.Launches(v) >= most {
				return 0
			}
			return 1
		}
		return late(x) - late(y)
	})
	vs := ranked[:min(n, len(ranked))]
	for _, v := range b.space.Keep {
		if b.OK(v) && !slices.Contains(vs, v) {
			vs = append(vs, v)
		}
	}
	return vs
}
