package report

import (
	"strconv"

	"normbench/internal/console"
)

// Micros writes a time in microseconds, as console.Micros does.
func Micros(us float64) string { return console.Micros(us) }

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
