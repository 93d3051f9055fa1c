package emulate

import (
	_ "embed"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

//go:embed testdata/idioms.cu
var idioms string

// What the cases of testdata/idioms.cu come to; "" is right.
var idiomCases = []string{
	"", "", "",
	"y is written 7 elements (28 bytes) beyond its end, by thread (0, 0, 1) of CTA 0",
	"an assertion does not hold: y[t] == 48.f",
	"an assertion does not hold: y[i] == 48.f * i",
	"a mask of 0x0000ffff, which lacks its own lane 16, by thread (0, 2, 0)",
	"all threads wait, and nothing happens",
	"an assertion does not hold: y[t] == 1.f",
	"all threads wait, and nothing happens",
	"y is written 1 element (4 bytes) beyond its end",
	"at byte 2 of x is not aligned to 4 bytes",
	"x is read 1 element (4 bytes) beyond its end",
	"an assertion does not hold: shared[t] == shared[t]",
	"x is read 3 elements (12 bytes) beyond its end",
	"an assertion does not hold: t > 0 || y[0] == 48.f",
	"all threads wait, and nothing happens",
	`the emulator has no "nanosleep.u32 4;"`,
	"at byte 4 of y is not aligned to 8 bytes",
	"the width of a shuffle is no power of two",
	"",
}

// Kernels of a file with host code run: blocks of three numbers, structs by value, cooperative groups and
// CUB, whatever the macros are; and what is wrong with them is found.
func TestIdiomsOfPublicKernelsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	e := emulator(t)
	r := &kernels.Registry{File: func(string) (string, error) { return idioms, nil }}
	for which, want := range idiomCases {
		mem := map[string]*kernels.Memory{"x": kernels.NewMemory(kernels.FP32, 13),
			"y": kernels.NewMemory(kernels.FP32, 48)}
		for i := range mem["x"].Len() {
			mem["x"].Set(i, float32(i))
		}
		rows := kernels.Arg{Kind: kernels.ArgStruct, Fields: append(kernels.Buffers("x"),
			kernels.Arg{Kind: kernels.ArgInt32, Int: 13}, kernels.Arg{Kind: kernels.ArgInt16, Int: 1})}
		l := &kernels.Launch{Source: "k.cu", Entry: "k<float>", Mangled: true, Grid: [3]int{1, 1, 1}, Block: 48,
			BlockDim: [3]int{8, 3, 2}, Defines: []kernels.Define{{Name: "THREADS", Value: 48}, {Name: "SIZE", Value: 13}},
			Args: []kernels.Arg{rows, kernels.Buffers("y")[0],
				{Kind: kernels.ArgFloat64, Float: 2}, {Kind: kernels.ArgInt32, Int: int64(which)}}}
		err := e.Run(t.Context(), r, l, mem, false)
		if want != "" {
			assert.That(t, err != nil && strings.Contains(err.Error(), want), "%d: %v, want %s", which, err, want)
			continue
		}
		y := mem["y"]
		right := map[int]bool{
			0:  y.At(0) == 0 && y.At(12) == 24 && y.At(47) == 24,
			1:  y.At(0) == 16+48+24+1+1 && y.At(3) == 90+4 && y.At(47) == 90,
			20: y.At(0) == 20 && y.At(47) == 20,
			2:  y.At(0) == 48 && y.At(1) == 3 && y.At(2) == 3 && y.At(3) == 32 && y.At(4) == 8 && y.At(5) == 2,
		}
		assert.That(t, err == nil && right[which], "%d: %v: %v", which, err, kernels.Elements[float32](y))
	}
}
