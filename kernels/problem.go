package kernels

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"normbench/internal/hint"
)

// Op is a normalization.
type Op string

// The ops. With xhat = (x - mean)*rstd (layernorm) or x*rstd (rmsnorm, whose
// rstd is 1/sqrt(mean(x²)+eps)): y = xhat*w + b.
const (
	RMSNorm   Op = "rmsnorm"   // Zhang and Sennrich 2019, arXiv:1910.07467
	LayerNorm Op = "layernorm" // Ba, Kiros and Hinton 2016, arXiv:1607.06450
)

// Pass is the forward or the backward computation of an op.
type Pass string

// The passes. A backward is timed alone: its forward's saved statistics are
// inputs.
const (
	Fwd Pass = "fwd"
	Bwd Pass = "bwd"
)

// Eps is the epsilon that every problem adds to the variance, 1e-5 as in
// torch.nn.LayerNorm and the published benchmarks (TransformerEngine PR 593,
// Fast-LLM PR 546).
const Eps = 1e-5

// A Problem is what is computed. It is comparable: use it as a map key.
type Problem struct {
	Op           Op
	Pass         Pass
	M, N         int64 // rows, columns
	DType        DType // of x, y, dy, dx
	Weight       DType // of w, b, dw, db
	Bias         bool  // b is added in fwd, db is computed in bwd
	ZeroCentered bool  // the weight is stored as w-1, as Gemma and TransformerEngine do
}

// maxSide bounds M and N, and maxElems their product, so that byte counts stay
// far inside int64.
const (
	maxSide  = 1 << 31
	maxElems = 1 << 48
)

// Validate says what is wrong with p, or nil.
func (p Problem) Validate() error {
	switch {
	case p.Op != RMSNorm && p.Op != LayerNorm:
		return hint.Errorf("use rmsnorm or layernorm", "unknown op %q", p.Op)
	case p.Pass != Fwd && p.Pass != Bwd:
		return hint.Errorf("use fwd or bwd", "unknown pass %q", p.Pass)
	case p.M < 1 || p.N < 1 || p.M > maxSide || p.N > maxSide:
		return hint.Errorf("rows and columns are whole numbers from 1 to 2147483648", "shape %dx%d is out of range", p.M, p.N)
	case p.M > maxElems/p.N:
		return hint.Errorf("choose smaller shapes", "shape %dx%d has more than 2^48 elements", p.M, p.N)
	}
	if err := p.DType.check(); err != nil {
		return err
	}
	return p.Weight.check()
}

// String is p as text, read back by ParseProblem: op/pass/MxN/dtype with
// "-w<dtype>" where the weight's dtype differs and "+bias", "+zc" for options.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s/%dx%d/%s", p.Op, p.Pass, p.M, p.N, p.DType)
	if p.Weight != p.DType {
		fmt.Fprintf(&b, "-w%s", p.Weight)
	}
	if p.Bias {
		b.WriteString("+bias")
	}
	if p.ZeroCentered {
		b.WriteString("+zc")
	}
	return b.String()
}

var problemRE = regexp.MustCompile(`^([a-z]+)/([a-z]+)/([0-9]+)x([0-9]+)/([a-z0-9]+)(-w([a-z0-9]+))?(\+bias)?(\+zc)?$`)

// ParseProblem reads what Problem.String writes.
func ParseProblem(s string) (Problem, error) {
	m := problemRE.FindStringSubmatch(s)
	if m == nil {
		return Problem{}, hint.Errorf("write it as rmsnorm/bwd/4096x8192/bf16, with +bias or +zc for options", "malformed problem %q", s)
	}
	p := Problem{Op: Op(m[1]), Pass: Pass(m[2]), Bias: m[8] != "", ZeroCentered: m[9] != ""}
	var err error
	if p.M, p.N, err = parseSides(m[3], m[4]); err != nil {
		return Problem{}, err
	}
	if p.DType, err = ParseDType(m[5]); err != nil {
		return Problem{}, err
	}
	p.Weight = p.DType
	if m[7] != "" {
		if p.Weight, err = ParseDType(m[7]); err != nil {
			return Problem{}, err
		}
	}
	return p, p.Validate()
}

func parseSides(ms, ns string) (m, n int64, err error) {
	m, err1 := strconv.ParseInt(ms, 10, 64)
	n, err2 := strconv.ParseInt(ns, 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0, hint.Errorf("rows and columns are whole numbers from 1 to 2147483648", "shape %sx%s is out of range", ms, ns)
	}
	return m, n, nil
}

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

// Elems is the number of elements.
func (t Tensor) Elems() int64 { return t.Rows * t.Cols }

// Bytes is the size in bytes.
func (t Tensor) Bytes() int64 { return t.Elems() * t.DType.Size() }

// Tensors lists the arguments of p, inputs first.
//
//	fwd: x (M,N), w (N), [b (N)] -> y (M,N), rstd (M), [mean (M)]
//	bwd: x (M,N), dy (M,N), w (N), rstd (M), [mean (M)] -> dx (M,N), dw (N), [db (N)]
//
// mean exists for layernorm, b and db where p.Bias. The statistics are fp32.
func (p Problem) Tensors() []Tensor {
	full := func(name string, r Role) Tensor { return Tensor{name, r, p.DType, p.M, p.N} }
	row := func(name string, r Role) Tensor { return Tensor{name, r, p.Weight, 1, p.N} }
	stat := func(name string, r Role) Tensor { return Tensor{name, r, FP32, p.M, 1} }
	ts := []Tensor{full("x", Input)}
	if p.Pass == Fwd {
		ts = append(ts, row("w", Input))
		if p.Bias {
			ts = append(ts, row("b", Input))
		}
		ts = append(ts, full("y", Output), stat("rstd", Output))
		if p.Op == LayerNorm {
			ts = append(ts, stat("mean", Output))
		}
		return ts
	}
	ts = append(ts, full("dy", Input), row("w", Input), stat("rstd", Input))
	if p.Op == LayerNorm {
		ts = append(ts, stat("mean", Input))
	}
	ts = append(ts, full("dx", Output), row("dw", Output))
	if p.Bias {
		ts = append(ts, row("db", Output))
	}
	return ts
}

// Bytes is the compulsory traffic of p in bytes: each input read once, each
// output written once. Partial sums, re-reads and zeroing are not in it; they
// are a design's own cost.
func (p Problem) Bytes() int64 {
	var n int64
	for _, t := range p.Tensors() {
		n += t.Bytes()
	}
	return n
}

// Footprint is what a device needs for p in bytes: the tensors and a float64
// reference of every output.
func (p Problem) Footprint() int64 {
	n := p.Bytes()
	for _, t := range p.Tensors() {
		if t.Role == Output {
			n += 8 * t.Elems()
		}
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
