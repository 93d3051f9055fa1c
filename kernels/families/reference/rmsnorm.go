package reference

import (
	"math"

	"normbench/kernels"
)

// rmsNorm defines xhat = x*rstd with rstd = 1/sqrt(mean(x²) + eps).
//
//	dx = rstd*(g - xhat*mean(g*xhat))
var rmsNorm = opDefinition{
	normalize: func(xhat, x []float64) statistics {
		rstd := 1 / math.Sqrt(dot(x, x)/float64(len(x))+kernels.Eps)
		center(xhat, x, 0, rstd)
		return statistics{saved: []float64{rstd}, r: rstd}
	},
	gradient: func(dx, g, xhat []float64, st statistics) {
		c := dot(g, xhat) / float64(len(g))
		for j, h := range xhat {
			dx[j] = st.r * (g[j] - h*c)
		}
	},
}

func init() { ops[kernels.RMSNorm] = rmsNorm }
