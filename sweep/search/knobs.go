package search

import (
	"math"

	"normbench/kernels"
)

// oneKnob says in which knob two configs of a family, as their settings, differ and by how much, in
// octaves, if it is one.
func oneKnob(x, y []kernels.Setting) (key string, d float64, one bool) {
	if len(x) != len(y) {
		return "", 0, false
	}
	for i := range x {
		if x[i].Knob != y[i].Knob {
			return "", 0, false
		}
		if x[i].Value == y[i].Value {
			continue
		}
		if key != "" {
			return "", 0, false
		}
		key, d = x[i].Knob.Key, math.Log2(float64(y[i].Value)+0.5)-math.Log2(float64(x[i].Value)+0.5)
	}
	return key, d, key != ""
}
