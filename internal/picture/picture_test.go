package picture

import (
	"math"
	"testing"
)

// Each colour is readable on white: WCAG's contrast of graphics.
func TestContrast(t *testing.T) {
	linear := func(c uint8) float64 {
		x := float64(c) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	for _, c := range Palette {
		l := 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
		if contrast := 1.05 / (l + 0.05); contrast < 3 {
			t.Errorf("%v: %.2f", c, contrast)
		}
	}
}
