package reference

import (
	"math"
	"testing"

	"normbench/internal/assert"
)

// A row shorter than eps is divided by eps, so its gradient is too; on one a bit longer it has the
// part along the row taken away.
func TestL2NormDividesShortRowsByEps(t *testing.T) {
	for scale, along := range map[float64]bool{1e-14: false, 1e-11: true} {
		x, xhat := []float64{3 * scale, 4 * scale}, make([]float64, 2)
		g, dx := []float64{1, 2}, make([]float64, 2)
		row := l2Norm.normalize(xhat, x)
		l2Norm.gradient(dx, g, xhat, row)
		c := 0.0
		if along {
			c = g[0]*0.6 + g[1]*0.8
		}
		for j, unit := range []float64{0.6, 0.8} {
			want := (g[j] - c*unit) * row.r
			assert.That(t, math.Abs(dx[j]-want) <= 1e-9*row.r, "scale %g: dx[%d] is %g, not %g", scale, j, dx[j], want)
		}
	}
}
