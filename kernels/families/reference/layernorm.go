package reference

import (
	"math"

	"normbench/kernels"
)

// layerNorm has xhat = (x - mean)*rstd with rstd = 1/sqrt(mean((x-mean)²) + eps).
//
//	dx = rstd*(g - xhat*mean(g*xhat) - mean(g))
var layerNorm = opDefinition{
	statistics: func(x []float64) []float64 {
		mean, variance := sum(x)/float64(len(x)), 0.0
		for _, v := range x {
			variance += (v - mean) * (v - mean)
		}
		return []float64{1 / math.Sqrt(variance/float64(len(x))+kernels.Eps), mean}
	},
	gradient: func(dx, g, xhat []float64, rstd float64) {
		c1, c2 := dot(g, xhat)/float64(len(g)), sum(g)/float64(len(g))
		for j, h := range xhat {
			dx[j] = rstd * (g[j] - h*c1 - c2)
		}
	},
}
