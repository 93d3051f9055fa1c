package reference

import "math"

// l2Norm has xhat = x*rnorm with rnorm = 1/max(|x|, eps), |x| the root of the sum of squares.
//
//	dx = rnorm*(g - xhat*sum(g*xhat)), or g/eps where |x| < eps
//
// It is torch.nn.functional.normalize with its eps of 1e-12.
var l2Norm = opDefinition{
	statistics: func(x []float64) []float64 {
		return []float64{1 / math.Max(math.Sqrt(dot(x, x)), 1e-12)}
	},
	gradient: func(dx, g, xhat []float64, rnorm float64) {
		c := dot(g, xhat)
		if rnorm*1e-12 > 1-1e-9 {
			c = 0
		}
		for j, h := range xhat {
			dx[j] = rnorm * (g[j] - h*c)
		}
	},
}
