// Package rule answers what is launched by default: by a map that was measured on the device, a raster of configs over
// columns and rows for each class of problems. It finds, reads, writes, merges, checks and exports maps. It fills none: see
// package tune/learn.
package rule

import (
	"cmp"
	"fmt"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Class is a kind of problems that one raster answers for.
type Class struct {
	Op    kernels.Op
	Pass  kernels.Pass
	Bytes int64 // of an element of x
	With  Options
}

// Options are the switches of a problem that choose its class. Bias, zero-centered weights and the type of the weight do
// not: their problems launch alike, and a cell's config is accepted with and without them. An fp8t problem is uneven whose
// rows are no multiple of 16 or whose columns are none of 128: the designs that transpose tile by tile do not serve it.
type Options uint8

// classOptions are those of kernels.Options that choose a class, in its order. Behind fp8t stands
// uneven, which is none of them.
var classOptions = func() (list []kernels.Option) {
	for _, o := range kernels.Options() {
		if !o.Alike {
			list = append(list, o)
		}
		if o.Name == "fp8t" {
			list = append(list, kernels.Option{Name: uneven, Has: isUneven, Set: func(*kernels.Problem) {}})
		}
	}
	return list
}()

const uneven = "uneven"

func isUneven(p kernels.Problem) bool { return p.Transpose && (p.M%16 != 0 || p.N%128 != 0) }

// ClassOf is the class of a problem. It allocates nothing.
func ClassOf(p kernels.Problem) Class {
	c := Class{Op: p.Op, Pass: p.Pass, Bytes: p.DType.Size()}
	for i := range classOptions {
		if classOptions[i].Named(p) {
			c.With |= 1 << i
		}
	}
	return c
}

// Problem is the problem of the class that learn measures: bf16 or fp32, with a bias in layernorm.
func (c Class) Problem(m, n int64) kernels.Problem {
	d := kernels.BF16
	if c.Bytes == kernels.FP32.Size() {
		d = kernels.FP32
	}
	p := kernels.Problem{Op: c.Op, Pass: c.Pass, M: m, N: n, DType: d, Weight: d}
	for i := range classOptions {
		if c.With&(1<<i) != 0 {
			classOptions[i].Set(&p)
		}
	}
	p.Bias = c.Op.Spec().Bias && p.HasWeight()
	return p
}

// kin are problems of the class with some rows and columns: the one that learn measures, then those with the most and with the
// least beside x.
func (c Class) kin() []kernels.Problem {
	p := c.At(16, 128)
	if ClassOf(p) != c {
		p = c.At(17, 129)
	}
	if !p.HasWeight() {
		return []kernels.Problem{p}
	}
	most, least := p, p
	most.Weight, most.Bias = kernels.FP32, true
	if least.Bias = false; c.Bytes == 4 {
		least.Weight = kernels.BF16
	}
	return []kernels.Problem{p, most, least}
}

// Classes are all classes in order.
func Classes() (list []Class) {
	for _, op := range kernels.Ops() {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			for with := range Options(1 << len(classOptions)) {
				for _, bytes := range []int64{2, 4} {
					if c := (Class{op.Op, pass, bytes, with}); c.valid() {
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
}

// At is the problem of the class with n columns and the fewest rows of at least m.
func (c Class) At(m, n int64) kernels.Problem {
	for ; ; m++ {
		if p := c.Problem(m, n); ClassOf(p) == c || m%16 == 15 {
			return p
		}
	}
}

// valid says whether the class has problems.
func (c Class) valid() bool {
	return c.Problem(1, 1).Validate() == nil && (ClassOf(c.Problem(17, 129)) == c || ClassOf(c.Problem(16, 128)) == c)
}

// String is rmsnorm/fwd/2-byte+residual.
func (c Class) String() string {
	s := fmt.Sprintf("%s/%s/%d-byte", c.Op, c.Pass, c.Bytes)
	for i := range classOptions {
		if c.With&(1<<i) != 0 {
			s += "+" + classOptions[i].Name
		}
	}
	return s
}

// ParseClass reads what String writes.
func ParseClass(s string) (Class, error) {
	words := strings.Split(s, "+")
	var c Class
	parts := strings.Split(words[0], "/")
	ok := len(parts) == 3 && (parts[2] == "2-byte" || parts[2] == "4-byte")
	if ok {
		c = Class{Op: kernels.Op(parts[0]), Pass: kernels.Pass(parts[1]), Bytes: int64(parts[2][0] - '0')}
	}
	for _, w := range words[1:] {
		for i := range classOptions {
			if w == classOptions[i].Name {
				c.With |= 1 << i
			}
		}
	}
	if !ok || c.String() != s || !c.valid() {
		var names []string
		for i := range classOptions {
			names = append(names, classOptions[i].Name)
		}
		return Class{}, hint.Errorf("write it as rmsnorm/fwd/2-byte+residual; options are "+
			strings.Join(names, ", "), "unknown class %q", s)
	}
	return c, nil
}

// MarshalText implements encoding.TextMarshaler with String.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseClass.
func (c *Class) UnmarshalText(b []byte) error {
	v, err := ParseClass(string(b))
	*c = v
	return err
}

// Compare orders classes as record.CompareProblems orders their problems.
func (c Class) Compare(o Class) int {
	return cmp.Or(cmp.Compare(o.Op, c.Op), cmp.Compare(o.Pass, c.Pass), cmp.Compare(c.With, o.With), cmp.Compare(c.Bytes, o.Bytes))
}
