package search

import (
	"math"

	"testing"
)

// The table is the formula.
func TestMatern(t *testing.T) {
	for r := 0.0; r < 12; r += 0.000937 {
		x := r * math.Sqrt(5)
		if want := (1 + x + x*x/3) * math.Exp(-x); math.Abs(matern52(r)-want) > 3e-7 {
			t.Fatalf("%g at %g, want %g", matern52(r), r, want)
		}
	}
}
