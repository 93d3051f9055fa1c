package stats

import "math"

// Gain is how much faster b is than a over the rounds of both, as a's time over b's less one, with
// the interval of Hodges and Lehmann at 95%. ok is false where there are too few rounds for one.
// It is for choosing; what a table says is for package verdict.
func Gain(a, b []float64) (gain, lo, hi float64, ok bool) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, 0, 0, false
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = math.Log(a[i] / b[i])
	}
	est, l, h := HodgesLehmann(d, Level)
	if math.IsInf(l, 0) {
		return math.Expm1(est), 0, 0, false
	}
	return math.Expm1(est), math.Expm1(l), math.Expm1(h), true
}

// Ahead says whether b may be chosen in place of a: the lower bound of its gain is above zero, and
// the gain is more than floor, by which two copies of a differ. It asks for less than FASTER does,
// because a choice among ties costs little.
func Ahead(a, b []float64, floor float64) bool {
	gain, lo, _, ok := Gain(a, b)
	return ok && lo > 0 && gain > math.Abs(floor)
}
