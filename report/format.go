package report

import "strconv"

// Micros writes a time in microseconds with three digits behind the point below
// 10, two below 100, one below 1000 and none above: finer is noise. 0 is "".
func Micros(us float64) string {
	digits := 0
	switch {
	case us == 0:
		return ""
	case us < 9.9995:
		digits = 3
	case us < 99.995:
		digits = 2
	case us < 999.95:
		digits = 1
	}
	return strconv.FormatFloat(us, 'f', digits, 64)
}

// Ratio writes a speedup: 1.23x.
func Ratio(r float64) string { return strconv.FormatFloat(r, 'f', 2, 64) + "x" }

// FormatRate writes a rate or a share: whole, or with a digit more below 10.
func FormatRate(f float64) string {
	switch {
	case f == 0:
		return ""
	case f < 9.95:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Number writes f for a machine, to seven digits.
func Number(f float64) string { return strconv.FormatFloat(f, 'g', 7, 64) }
