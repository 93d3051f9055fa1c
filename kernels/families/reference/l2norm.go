package reference

import "math"

// l2Norm defines xhat = x*rnorm with rnorm = 1/max(|x|, eps), where |x| is the root of the sum of
// squares.
//
//	dx = rnorm*(g - xhat*sum(g*xhat)), or g/eps where |x| < eps
//
// It is torch.nn.functional.normalize with its eps of 1e-12.
var l2Norm = opDefinition{
	normalize: func(xhat, x []float64) statistics {
		rnorm := 1 / math.Max(math.Sqrt(dot(x, x)), 1e-12)
		center(xhat, x, 0, rnorm)
		return statistics{saved: []float64{rnorm}, r: rnorm}
	},
	gradient: func(dx, g, xhat []float64, st statistics) {
		c := dot(g, xhat)
		if st.r*1e-12 > 1-1e-9 {
			c = 0
		}
		for j, h := range xhat {
			dx[j] = st.r * (g[j] - h*c)
		}
	},
}

func init() { ops["l2norm"] = l2Norm }
