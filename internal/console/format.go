package console

import "strconv"

// Micros writes a time in microseconds with three digits behind the point below 10, two below 100, one
// below 1000 and none above: more would be noise. 0 is "".
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
