package reference

import (
	"math"

	"normbench/kernels"
)

// rmsNorm has xhat = x*rstd with rstd = 1/sqrt(mean(x²) + eps).
//
//	dx = rstd*(g - xhat*mean(g*xhat))
var rmsNorm = opDefinition{
	statistics: func(x []float64) []float64 {
		return []float64{1 / math.Sqrt(dot(x, x)/float64(len(x))+kernels.Eps)}
	},
	gradient: func(dx, g, xhat []float64, rstd float64) {
		c := dot(g, xhat) / float64(len(g))
		for j, h := range xhat {
			dx[j] = rstd * (g[j] - h*c)
		}
	},
}
