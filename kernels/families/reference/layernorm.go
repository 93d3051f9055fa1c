package reference

import (
	"math"

	"normbench/kernels"
)

// layerNorm defines xhat = (x - mean)*rstd with rstd = 1/sqrt(mean((x-mean)²) + eps).
//
//	dx = rstd*(g - xhat*mean(g*xhat) - mean(g))
var layerNorm = opDefinition{
	normalize: func(xhat, x []float64) statistics {
		mean, variance := sum(x)/float64(len(x)), 0.0
		for _, v := range x {
			variance += (v - mean) * (v - mean)
		}
		rstd := 1 / math.Sqrt(variance/float64(len(x))+kernels.Eps)
		center(xhat, x, mean, rstd)
		return statistics{saved: []float64{rstd, mean}, r: rstd, mean: mean}
	},
	gradient: func(dx, g, xhat []float64, st statistics) {
		c1, c2 := dot(g, xhat)/float64(len(g)), sum(g)/float64(len(g))
		for j, h := range xhat {
			dx[j] = st.r * (g[j] - h*c1 - c2)
		}
	},
}

func init() { ops[kernels.LayerNorm] = layerNorm }
