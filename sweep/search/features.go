package search

import (
	"math"

	"normbench/kernels"
)

// The features of a variant on a problem are logs of knob values and of quantities derived from
// knobs and problem.
const (
	featRow      = iota // bytes of a row per thread
	featThreads         // threads of a CTA
	featRows            // rows of a CTA
	featCTAs            // CTAs per SM in the grid
	featResident        // threads per SM that the grid asks for
	featStages
	featVector
	featCols   // columns of a chunk
	featSingle // whether the row stays in registers
	featReduce // tile of k2
	featReduceRows
	numFeatures
)

// scales are the distances over which a feature changes the time by about as
// much as chance would, in octaves.
var scales = [numFeatures]float64{
	featRow: 1.5, featThreads: 2, featRows: 2, featCTAs: 2, featResident: 1.5,
	featStages: 1.2, featVector: 1.5, featCols: 2, featSingle: 0.8, featReduce: 2, featReduceRows: 3,
}

// Features computes the features of a variant on a problem for a surrogate: logs of knobs and of
// quantities that they imply, each over its scale. sms is the device's number of SMs.
func Features(p kernels.Problem, v kernels.Variant, sms int) (x [numFeatures]float64) {
	get := func(k *kernels.Knob, zero float64) float64 {
		if n, ok := v.Config.Lookup(k); ok && n > 0 {
			return float64(n)
		}
		return zero
	}
	rows, warps := get(kernels.BlockRows, 1), get(kernels.Warps, 1)
	cols := math.Min(get(kernels.BlockCols, float64(p.N)), float64(p.N))
	bytes := float64(p.DType.Size())
	tiles := math.Ceil(float64(p.M) / rows)
	perSM := tiles / float64(max(sms, 1))
	if n := get(kernels.CTAs, 0); n > 0 {
		perSM = math.Min(perSM, n/float64(max(sms, 1)))
	} else if k := get(kernels.PerSM, 0); k > 0 {
		perSM = math.Min(perSM, k)
	}
	single := 0.0
	if s := get(kernels.SinglePass, 0); s >= float64(p.N) && cols >= float64(p.N) {
		single = 1
	}
	set := func(i int, f float64) { x[i] = f / scales[i] }
	set(featRow, math.Log2(cols*rows*bytes/(32*warps)))
	set(featThreads, math.Log2(32*warps))
	set(featRows, math.Log2(rows))
	set(featCTAs, math.Log2(math.Min(perSM, 64)+0.25))
	set(featResident, math.Log2(math.Min(32*warps*perSM, 4096)+8))
	set(featStages, math.Log2(get(kernels.Stages, 1)))
	set(featVector, math.Log2(get(kernels.VectorBytes, 16)))
	set(featCols, math.Log2(cols))
	set(featSingle, single)
	set(featReduce, math.Log2(get(kernels.ReduceCols, 32)))
	set(featReduceRows, math.Log2(get(kernels.ReduceRows, 32)))
	return x
}
