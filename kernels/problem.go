package kernels

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
)

// A Pass is the forward or the backward computation of an op.
type Pass string

// The passes. A backward is timed alone: its forward's saved statistics are
// inputs.
const (
	Fwd Pass = "fwd"
	Bwd Pass = "bwd"
)

// ParsePass reads fwd, forward, bwd or backward. Other text stays as it is, for Validate to refuse.
func ParsePass(s string) Pass {
	switch s {
	case "forward":
		return Fwd
	case "backward":
		return Bwd
	}
	return Pass(s)
}

// ParseCount reads a number of rows, columns or elements: 4096, 4Ki or 1Mi. Its error is
// strconv.ErrRange for numbers that are too large, and strconv.ErrSyntax for text that is no number.
func ParseCount(s string) (int64, error) {
	digits, shift := s, 0
	if rest, ok := strings.CutSuffix(s, "Ki"); ok {
		digits, shift = rest, 10
	} else if rest, ok := strings.CutSuffix(s, "Mi"); ok {
		digits, shift = rest, 20
	}
	n, err := strconv.ParseUint(digits, 10, 63-shift)
	return int64(n) << shift, err
}

// A Problem says what is computed. It is comparable: use it as a map key.
type Problem struct {
	Op           Op
	Pass         Pass
	M, N         int64 // rows, columns
	DType        DType // of x, y, dy, dx
	Weight       DType // of w, b, dw, db
	Bias         bool  // b is added in fwd, db is computed in bwd
	ZeroCentered bool  // the weight is stored as w-1, as Gemma and TransformerEngine do
	NoWeight     bool  // there is no w: y = xhat, and no dw
	Residual     bool  // fwd normalizes x + res and writes that sum; bwd adds the sum's gradient to dx
	FP8          bool  // y is e4m3, scaled and clamped, with its amax (TransformerEngine's delayed scaling)
	Transpose    bool  // with FP8: y is written a second time, transposed
	Accumulate   bool  // dw and db are added to gradients that are there already (Fast-LLM PR 546)
	NoDW         bool  // bwd: w and b are frozen, and neither dw nor db is computed
	Sigmoid      bool  // of a gated op: the gate is sigmoid(z), not z*sigmoid(z)
	GateFirst    bool  // of a gated op: x*gate is normalized; else the gate is on the normalized row
}

// maxSide bounds M and N, and maxElems their product, so that byte counts stay
// far inside int64.
const (
	maxSide  = 1 << 31
	maxElems = 1 << 48
)

// Validate refuses a problem that does not exist.
func (p Problem) Validate() error {
	switch {
	case p.Op.Spec().Op == "":
		all, _ := OpNames()
		return hint.Errorf("use "+strings.Join(all, " or "), "unknown op %q", p.Op)
	case p.Pass != Fwd && p.Pass != Bwd:
		return hint.Errorf("use fwd or bwd", "unknown pass %q", p.Pass)
	case p.M < 1 || p.N < 1 || p.M > maxSide || p.N > maxSide:
		return hint.Errorf(sideHelp, "shape %dx%d is out of range", p.M, p.N)
	case p.M > maxElems/p.N:
		return hint.Errorf("choose smaller shapes", "shape %dx%d has more than 2^48 elements", p.M, p.N)
	}
	if err := cmp.Or(p.DType.check(), p.Weight.check()); err != nil {
		return err
	}
	return p.checkOptions()
}

// HasWeight says whether p has a weight w, and in a backward, unless NoDW, its gradient dw.
func (p Problem) HasWeight() bool { return !p.NoWeight && p.Op.Spec().Weight }

// IsGated says whether p has a gate z, and in the backward its gradient dz.
func (p Problem) IsGated() bool { return p.Op.Spec().Gated }

// NeedsBias says whether a backward reads b: dz has what the gate is on as a factor.
func (p Problem) NeedsBias() bool { return p.Bias && !p.GateFirst && p.IsGated() }

// OutType returns the type of y: e4m3 or the DType.
func (p Problem) OutType() DType {
	if p.FP8 {
		return E4M3
	}
	return p.DType
}

// String writes p as ParseProblem reads it: op/pass/MxN/dtype, with "-w<dtype>" where the weight's dtype
// differs and "+<name>" for each option.
func (p Problem) String() string {
	text := fmt.Sprintf("%s/%s/%dx%d/%s", p.Op, p.Pass, p.M, p.N, p.DType)
	if p.Weight != p.DType {
		text += "-w" + p.Weight.String()
	}
	return text + optionText(p)
}

var problemRE = regexp.MustCompile(
	`^([A-Za-z0-9_-]+)/([a-z]+)/([0-9]+(?:[KM]i)?)x([0-9]+(?:[KM]i)?)/([a-z0-9]+)(?:-w([a-z0-9]+))?((?:\+[a-z0-9]+)*)$`)

// ParseProblem reads the text that Problem.String writes, and the other spellings that ParseOp,
// ParsePass, ParseCount and ParseDType take.
func ParseProblem(s string) (Problem, error) {
	m := problemRE.FindStringSubmatch(s)
	var p Problem
	if m == nil || !p.setOptions(m[7]) {
		return Problem{}, hint.Errorf("write it as rmsnorm/bwd/4096x8192/bf16, with a weight of another type bf16-wfp32, and with "+
			"options in this order: +"+strings.Join(optionNames(), ", +"), "malformed problem %q", s)
	}
	p.Op, p.Pass = ParseOp(m[1]), ParsePass(m[2])
	var err1, err2, err3, err4 error
	p.M, err1 = ParseCount(m[3])
	p.N, err2 = ParseCount(m[4])
	if err1 != nil || err2 != nil {
		return Problem{}, hint.Errorf(sideHelp, "shape %sx%s is out of range", m[3], m[4])
	}
	p.DType, err3 = ParseDType(m[5])
	p.Weight, err4 = ParseDType(cmp.Or(m[6], m[5]))
	if err := cmp.Or(err3, err4); err != nil {
		return Problem{}, err
	}
	return p, p.Validate()
}

// dtypeAliases are PyTorch's names.
var dtypeAliases = map[string]DType{"bfloat16": BF16, "float16": FP16, "float32": FP32}

// ParseDType reads bf16, fp16 or fp32, also by the names of PyTorch: bfloat16, float16, float32.
func ParseDType(s string) (DType, error) {
	for _, d := range DTypes() {
		if alias, ok := dtypeAliases[s]; d.String() == s || ok && alias == d {
			return d, nil
		}
	}
	return 0, hint.Errorf("use one of bf16, fp16, fp32", "unknown dtype %q", s)
}

// MarshalText implements encoding.TextMarshaler.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DType) UnmarshalText(b []byte) error {
	v, err := ParseDType(string(b))
	*d = v
	return err
}

const sideHelp = "rows and columns are whole numbers from 1 to 2147483648"

// MarshalText implements encoding.TextMarshaler with String.
func (p Problem) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseProblem.
func (p *Problem) UnmarshalText(b []byte) error {
	q, err := ParseProblem(string(b))
	*p = q
	return err
}

// Role says whether a tensor is read or written by a problem.
type Role uint8

// The roles of a tensor.
const (
	Input Role = iota
	Output
)

// A Tensor is one named, dense, row-major argument of a problem.
type Tensor struct {
	Name       string
	Role       Role
	DType      DType
	Rows, Cols int64
}

// Elems returns the number of elements.
func (t Tensor) Elems() int64 { return t.Rows * t.Cols }

// Bytes returns the size in bytes.
func (t Tensor) Bytes() int64 { return t.Elems() * t.DType.Size() }

// Tensors lists the arguments of p, inputs first.
//
//	fwd: x (M,N), [res (M,N)], [z (M,N)], [w (N)], [b (N)], [scale] ->
//	     y (M,N), [yt (N,M)], [resout (M,N)], rstd (M), [mean (M)], [amax, scale_inv]
//	bwd: x (M,N), dy (M,N), [dres (M,N)], [z (M,N)], [w (N)], [b (N)], rstd (M), [mean (M)], [dw_in (N)],
//	     [db_in (N)] -> dx (M,N), [dz (M,N)], [dw (N)], [db (N)]
//
// w and dw exist where p.HasWeight, mean for layernorm, b and db where p.Bias, dw and db not with p.NoDW,
// res, resout and dres where p.Residual (x of such a backward is the forward's
// resout), scale, amax, scale_inv where p.FP8, yt where p.Transpose, dw_in and
// db_in where p.Accumulate, z and dz where p.IsGated; b of a backward only where the gate is behind the
// norm. The statistics and fp8's scalars are fp32.
func (p Problem) Tensors() []Tensor { return p.AppendTensors(make([]Tensor, 0, 13)) }

// AppendTensors appends Tensors to ts, for callers that need them often.
func (p Problem) AppendTensors(ts []Tensor) []Tensor {
	add := func(has bool, name string, r Role, d DType, rows, cols int64) {
		if has {
			ts = append(ts, Tensor{name, r, d, rows, cols})
		}
	}
	weight, gated := p.HasWeight(), p.IsGated()
	saved := func(r Role) {
		for _, name := range p.Op.Spec().Saved {
			add(true, name, r, FP32, p.M, 1)
		}
	}
	if p.Pass == Fwd {
		add(true, "x", Input, p.DType, p.M, p.N)
		add(p.Residual, "res", Input, p.DType, p.M, p.N)
		add(gated, "z", Input, p.DType, p.M, p.N)
		add(weight, "w", Input, p.Weight, 1, p.N)
		add(p.Bias, "b", Input, p.Weight, 1, p.N)
		add(p.FP8, "scale", Input, FP32, 1, 1)
		add(true, "y", Output, p.OutType(), p.M, p.N)
		add(p.Transpose, "yt", Output, p.OutType(), p.N, p.M)
		add(p.Residual, "resout", Output, p.DType, p.M, p.N)
		saved(Output)
		add(p.FP8, "amax", Output, FP32, 1, 1)
		add(p.FP8, "scale_inv", Output, FP32, 1, 1)
		return ts
	}
	add(true, "x", Input, p.DType, p.M, p.N)
	add(true, "dy", Input, p.DType, p.M, p.N)
	add(p.Residual, "dres", Input, p.DType, p.M, p.N)
	add(gated, "z", Input, p.DType, p.M, p.N)
	add(weight, "w", Input, p.Weight, 1, p.N)
	add(p.NeedsBias(), "b", Input, p.Weight, 1, p.N)
	saved(Input)
	add(p.Accumulate, "dw_in", Input, p.Weight, 1, p.N)
	add(p.Accumulate && p.Bias, "db_in", Input, p.Weight, 1, p.N)
	add(true, "dx", Output, p.DType, p.M, p.N)
	add(gated, "dz", Output, p.DType, p.M, p.N)
	add(weight && !p.NoDW, "dw", Output, p.Weight, 1, p.N)
	add(p.Bias && !p.NoDW, "db", Output, p.Weight, 1, p.N)
	return ts
}

// Full lists the tensors of a role that have an element for each element of x.
func (p Problem) Full(r Role) []Tensor {
	var ts []Tensor
	for _, t := range p.Tensors() {
		switch t.Name { // with one row or one column the sizes would not tell
		case "x", "res", "z", "dy", "dres", "y", "yt", "resout", "dx", "dz":
			if t.Role == r {
				ts = append(ts, t)
			}
		}
	}
	return ts
}

// RowOutputs lists the outputs of which each row belongs to a row of x: y, resout and the statistics, dx and
// dz. dw and db sum over rows, amax is over all of them, and yt has columns for rows.
func (p Problem) RowOutputs() []Tensor {
	return slices.DeleteFunc(p.Tensors(), func(t Tensor) bool { // with one row the sizes would not tell
		return t.Role == Input || slices.Contains([]string{"dw", "db", "amax", "scale_inv", "yt"}, t.Name)
	})
}

// SavedTensors lists tensors of p's forward that a backward may read instead of x and mean: designs that
// save the output read y, and b where there is one. Devices make them where a plan asks for them. Of a
// gated op there are none: where a gate is near zero, y has lost x.
func (p Problem) SavedTensors() []Tensor {
	if p.Pass != Bwd || p.IsGated() {
		return nil
	}
	ts := []Tensor{{"y", Input, p.DType, p.M, p.N}}
	if p.Bias {
		ts = append(ts, Tensor{"b", Input, p.Weight, 1, p.N})
	}
	return ts
}

// Bytes computes the compulsory traffic of p in bytes: each input read once, each output written once.
// Partial sums, re-reads and zeroing are not in it; they are a design's own cost.
func (p Problem) Bytes() int64 {
	var n int64
	for _, t := range p.Tensors() {
		n += t.Bytes()
	}
	return n
}

// Footprint computes the memory that a device needs for p, in bytes: the tensors, every output a second
// time to compare the bits of two runs, and float64 answers for every output of a kernel and of the
// stream.
func (p Problem) Footprint() int64 {
	n := p.Bytes()
	for _, t := range p.Tensors() {
		if t.Role == Output {
			n += t.Bytes() + 8*t.Elems()
		}
	}
	for _, t := range p.Full(Output) {
		n += 8 * t.Elems()
	}
	return n
}

// CheckFits refuses a problem whose footprint exceeds the device's memory.
func (p Problem) CheckFits(d DeviceInfo) error {
	if need := p.Footprint(); d.MemoryBytes > 0 && need > d.MemoryBytes {
		return hint.Errorf("choose smaller shapes, or leave this one out of the group",
			"%s needs %s, but %s has %s", p, FormatBytes(need), d.Name, FormatBytes(d.MemoryBytes))
	}
	return nil
}

// FormatBytes writes a byte count with a binary unit: 512 B, 1.5 KiB, 3.0 GiB.
func FormatBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	e := min(int(math.Log2(float64(n))/10), 5)
	return fmt.Sprintf("%.1f %ciB", float64(n)/math.Exp2(float64(10*e)), " KMGTP"[e])
}
