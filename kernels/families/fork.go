package families

import "normbench/kernels"

// Package manifest uses these for families that are not written in Go.

// RowDefines are the macros of common.cuh and those of the config's knobs.
func RowDefines(p kernels.Problem, c kernels.Config) []kernels.Define { return rowDefines(p, c) }

// VectorBytes is the config's vector width, 0 being the widest, and whether rows
// are whole vectors of it.
func VectorBytes(p kernels.Problem, c kernels.Config) (bytes int64, fits bool) {
	v := vectorBytes(p, c)
	return v, isPow2(int(v)) && v <= 16 && v >= p.DType.Size() && p.N*p.DType.Size()%v == 0
}

// ReduceBase is k2's part of a config: a tile that suits most problems.
func ReduceBase() []kernels.Setting { return reduceBase }

// RefuseReduce says why a config's k2 does not work, or nil.
func RefuseReduce(c kernels.Config) error { return refuseReduce(c) }

// ReduceFiles are the sources of k2.
func ReduceFiles() []string { return []string{"reduce.go", "reduce.cu", "reduce.cuh", "common.cuh"} }

// WithReduce adds k2 to a plan that leaves partial rows of dw and db in the
// buffers dw_partial and db_partial, which it adds too.
func WithReduce(p kernels.Problem, c kernels.Config, partials int64, plan kernels.Plan) kernels.Plan {
	full := withReduce(p, c, partials, plan.Launches...)
	full.Scratch = append(full.Scratch, plan.Scratch...)
	return full
}
