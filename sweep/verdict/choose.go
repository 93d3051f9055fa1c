package verdict

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"normbench/sweep/stats"
)

// The tests in this file are for choosing, which asks for less than a table's FASTER does: a choice
// among ties costs little.

// Gain is how much faster b is than a over the rounds of both, as a's time over b's less one, with
// the interval of Hodges and Lehmann at 95%. ok is false where there are too few rounds for one.
func Gain(a, b []float64) (gain, lo, hi float64, ok bool) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, 0, 0, false
	}
	est, l, h := stats.HodgesLehmann(logRatios(a, b), stats.Level)
	if math.IsInf(l, 0) {
		return math.Expm1(est), 0, 0, false
	}
	return math.Expm1(est), math.Expm1(l), math.Expm1(h), true
}

// logRatios are the logs of a over b, round by round.
func logRatios(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = math.Log(a[i] / b[i])
	}
	return d
}

// IsAhead says whether b may be chosen in place of a: the lower bound of its gain is above zero, also
// as a tuned table writes it with four decimals, and the gain is more than floor, by which two
// copies of a differ.
func IsAhead(a, b []float64, floor float64) bool {
	gain, lo, _, ok := Gain(a, b)
	return ok && lo >= 0.5e-4 && gain > math.Abs(floor)
}

// tied is how far behind, relatively, a variant may be at most to count as tied with the fastest:
// two copies of one variant differ by as much.
const tied = 0.01

// Race judges b against a, the fastest so far, after each of their rounds: SLOWER if b is behind
// beyond doubt, SAME if the two are tied, else INCONCLUSIVE. It takes three rounds at least and
// the interval of Student's t at 98%, because the rank tests say nothing of so few. A b that is
// 15% behind twice is SLOWER.
func Race(a, b []float64) Verdict {
	d := logRatios(b, a)
	n := len(d)
	least := math.Inf(1)
	for _, x := range d {
		least = min(least, x)
	}
	switch {
	case n >= 2 && least > math.Log(1.15):
		return Slower
	case n < 3:
		return Inconclusive
	}
	mean, sd := stat.MeanStdDev(d, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.99)
	half := t * stat.StdErr(sd, float64(n))
	switch {
	case mean-half > 0:
		return Slower
	case mean+half < tied && mean-half > -tied:
		return Same
	}
	return Inconclusive
}
