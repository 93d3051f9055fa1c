package search

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// A Board is what is known of each variant of a space.
type Board struct {
	space *Candidates
	cells []variantState
	order []int // the variants that were visited, in the order of their first visit
	spent Effort
	Short bool // the allowance was spent when the base was measured
}

type variantState struct {
	samples []float64
	visits  []int // launches of each
	rounds  []int // that they belong to
	medians []float64
	median  float64
	failure *kernels.Failure // nil of one that runs
}

// addSamples adds the samples of a visit in a round.
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

// fail marks a variant that cannot be measured.
func (b *Board) fail(v int, f *kernels.Failure) {
	if !b.HasMeasured(v) {
		b.order = append(b.order, v)
	}
	b.cells[v].failure = f
}

// Failure is how a variant failed, nil where it did not.
func (b *Board) Failure(v int) *kernels.Failure { return b.cells[v].failure }

// HasMeasured says whether a variant was measured, or failed.
func (b *Board) HasMeasured(v int) bool {
	return len(b.cells[v].visits) > 0 || b.Failure(v) != nil
}

// OK says whether a variant has a time.
func (b *Board) OK(v int) bool { return len(b.cells[v].visits) > 0 && b.Failure(v) == nil }

// Launches is how many samples of a variant there are.
func (b *Board) Launches(v int) int { return len(b.cells[v].samples) }

// Samples are those of a variant, in the order taken.
func (b *Board) Samples(v int) []float64 { return b.cells[v].samples }

// Visits are the launches of each visit of a variant, in the order taken.
func (b *Board) Visits(v int) []int { return b.cells[v].visits }

// Median is that of a variant's samples, +Inf where there are none.
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

// Noise estimates the relative standard deviation of one launch. It is the median over the variants that have
// 3 samples or more, and at least 0.2%. Of each it takes the range of the first 3: that is 1.69 standard deviations
// on average (Tippett 1925), and so few samples have no quartiles. Below 3 such variants it is what the task's
// stream has shown.
func (b *Board) Noise() float64 {
	var all []float64
	for _, v := range b.order {
		if c := &b.cells[v]; c.failure == nil && len(c.samples) >= 3 {
			s := c.samples[:3]
			all = append(all, (slices.Max(s)-slices.Min(s))/1.69/c.median)
		}
	}
	if len(all) < 3 {
		return max(b.space.Noise, 0.002)
	}
	return max(stats.Median(all), 0.002)
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

// ratio is the time of v over that of o from the rounds that visited both, so
// that what drifts between rounds cancels; the ratio of their medians where
// none did.
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

// Finalists are the n variants to measure again: first the fastest that raced to the end, then
// the fastest of the others. The variants to keep are always among them.
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
