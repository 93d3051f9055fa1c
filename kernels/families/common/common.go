// Package common is what the launches of all designs share: the vectors of a row, the macros of
// common.cuh, and the reduction of partial rows (k2). Designs in Go and in manifests use it.
package common

import (
	"embed"

	"normbench/kernels"
)

// Sources are the Go files of this package, which say what is launched.
//
//go:embed *.go
var Sources embed.FS

// Defines lists the macros of common.cuh and those of the config's knobs.
func Defines(p kernels.Problem, c kernels.Config) []kernels.Define {
	ds := []kernels.Define{
		{Name: "X_TYPE", Value: int64(p.DType)},
		{Name: "W_TYPE", Value: int64(p.Weight)},
		{Name: "COLS", Value: p.N},
		{Name: "LAYERNORM", Value: kernels.Flag(p.Op == kernels.LayerNorm)},
		{Name: "HAS_BIAS", Value: kernels.Flag(p.Bias)},
		{Name: "HAS_WEIGHT", Value: kernels.Flag(p.HasWeight())},
		{Name: "ZERO_CENTERED", Value: kernels.Flag(p.ZeroCentered)},
		{Name: "RESIDUAL", Value: kernels.Flag(p.Residual)},
		{Name: kernels.VectorBytes.Macro, Value: VectorBytes(p, c)},
	}
	if p.FP8 {
		ds = append(ds, kernels.Define{Name: "Y_TYPE", Value: int64(p.OutType())},
			kernels.Define{Name: "TRANSPOSED", Value: kernels.Flag(p.Transpose)})
	}
	if p.IsGated() {
		ds = append(ds, GateDefines(p)...)
	}
	if p.Pass == kernels.Bwd {
		ds = append(ds, kernels.Define{Name: "P_TYPE", Value: int64(PartialType(p, c))})
	}
	for _, s := range c.Settings() {
		switch s.Knob {
		case kernels.VectorBytes, kernels.ReduceCols, kernels.ReduceRows, kernels.ReduceWarps,
			kernels.EarlyReduce,
			kernels.TransposeRows, kernels.TransposeCols, kernels.TransposeWarps:
			continue // of other launches
		}
		if m := s.Knob.Macro; m != "" {
			ds = append(ds, kernels.Define{Name: m, Value: int64(s.Value)})
		}
	}
	return ds
}

// GateDefines lists the macros of a gated op.
func GateDefines(p kernels.Problem) []kernels.Define {
	return []kernels.Define{{Name: "SIGMOID", Value: kernels.Flag(p.Sigmoid)},
		{Name: "GATE_FIRST", Value: kernels.Flag(p.GateFirst)}}
}

// Optional makes the buffer argument of that name, or a null pointer if has is false.
func Optional(has bool, name string) kernels.Arg {
	if !has {
		name = ""
	}
	return kernels.Arg{Kind: kernels.ArgBuffer, Name: name}
}

// WidestVector computes the most bytes, up to 16, that divide a row: rows then start at a multiple of
// it, as a vector load needs.
func WidestVector(p kernels.Problem) int64 {
	row := p.N * p.DType.Size()
	return min(16, row&-row)
}

// VectorBytes returns the config's vector width in bytes, the widest where the knob is 0.
func VectorBytes(p kernels.Problem, c kernels.Config) int64 {
	if v := int64(c.Get(kernels.VectorBytes)); v > 0 {
		return v
	}
	return WidestVector(p)
}

// WholeVectors says whether rows are whole vectors of v bytes.
func WholeVectors(p kernels.Problem, v int64) bool {
	return kernels.IsPow2(int(v)) && v <= 16 && v >= p.DType.Size() && p.N*p.DType.Size()%v == 0
}
