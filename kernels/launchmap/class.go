// Package launchmap answers which variant runs a problem without tuning: by a map that was measured on the
// device, with a raster of configs over columns and rows for each class of problems. It finds, reads, writes,
// merges, checks and exports maps. Package tune/learn fills them.
package launchmap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Class is a set of problems that one raster answers for.
type Class struct {
	Op    kernels.Op
	Pass  kernels.Pass
	Bytes int64     // of an element of x
	With  OptionSet // that problems of the class have, but for those that launch alike
}

// An OptionSet is a sum of the bits of options.
type OptionSet uint16

// names lists the options of the set.
func (set OptionSet) names() []string {
	list := []string{}
	for i := range options {
		if set&(1<<i) != 0 {
			list = append(list, options[i].Name)
		}
	}
	return list
}

// options lists all options, each with the bit of its place. The last is of maps alone: an fp8t
// problem is uneven whose rows are no multiple of 16 or whose columns are none of 128. The designs
// that transpose tile by tile do not serve it.
var options = append(kernels.Options(), kernels.Option{Name: "uneven", Set: func(*kernels.Problem) {},
	Has: func(p kernels.Problem) bool { return p.Transpose && (p.M%16 != 0 || p.N%128 != 0) }})

// ClassOf returns the class of a problem. It allocates nothing.
func ClassOf(p kernels.Problem) Class {
	c := Class{Op: p.Op, Pass: p.Pass, Bytes: p.DType.Size()}
	for i := range options {
		if o := &options[i]; !o.Alike && o.IsWritten(p) {
			c.With |= 1 << i
		}
	}
	return c
}

// Problem makes the problem of the class that learn measures: bf16 or fp32, with a bias in layernorm.
func (c Class) Problem(m, n int64) kernels.Problem {
	d := kernels.BF16
	if c.Bytes == kernels.FP32.Size() {
		d = kernels.FP32
	}
	p := kernels.Problem{Op: c.Op, Pass: c.Pass, M: m, N: n, DType: d, Weight: d}
	for i := range options {
		if c.With&(1<<i) != 0 {
			options[i].Set(&p)
		}
	}
	p.Bias = c.Op.Spec().Bias && p.HasWeight()
	return p
}

// Has says whether the class has problems at an alignment: those with a transpose have multiples of 128
// columns, or are uneven.
func (c Class) Has(align int64) bool {
	n := 128 + align/c.Bytes%(16/c.Bytes)
	return ClassOf(c.Problem(16, n)) == c || ClassOf(c.Problem(17, n)) == c
}

// sample makes a problem of the class.
func (c Class) sample() kernels.Problem {
	if p := c.Problem(16, 128); ClassOf(p) == c {
		return p
	}
	return c.Problem(17, 129)
}

// sampleProblems makes problems of the class that differ in what the class leaves open: the one that map
// learn measures, then those with the most and with the fewest tensors beside x.
func (c Class) sampleProblems() []kernels.Problem {
	p := c.sample()
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

// Classes lists all classes in order.
func Classes() []Class { return slices.Clone(classes()) }

var classes = sync.OnceValue(func() (list []Class) {
	for _, op := range kernels.Ops() {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			takes := optionsOf(&op, pass)
			for with := range 1 << len(options) {
				if OptionSet(with)&^takes != 0 {
					continue
				}
				for _, bytes := range []int64{2, 4} {
					if c := (Class{op.Op, pass, bytes, OptionSet(with)}); c.valid() {
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
})

// optionsOf collects the options that a class of an op and a pass may have, and the program's own.
func optionsOf(op *kernels.OpSpec, pass kernels.Pass) (set OptionSet) {
	for i := range options {
		o := &options[i]
		own := i == len(options)-1
		if own || !o.Alike && (o.Pass == "" || o.Pass == pass) && slices.Contains(op.Options, o.Name) {
			set |= 1 << i
		}
	}
	return set
}

// valid says whether the class has problems.
func (c Class) valid() bool {
	return c.Problem(1, 1).Validate() == nil && ClassOf(c.sample()) == c
}

// String writes the class: rmsnorm/fwd/2-byte+residual.
func (c Class) String() string {
	s := fmt.Sprintf("%s/%s/%d-byte", c.Op, c.Pass, c.Bytes)
	for i := range options {
		if c.With&(1<<i) != 0 {
			s += "+" + options[i].Name
		}
	}
	return s
}

// ParseClass reads what String writes.
func ParseClass(s string) (Class, error) {
	for _, c := range classes() {
		if c.String() == s {
			return c, nil
		}
	}
	var names []string
	for i := range options {
		if !options[i].Alike {
			names = append(names, options[i].Name)
		}
	}
	return Class{}, hint.Errorf("write it as rmsnorm/fwd/2-byte+residual; options are "+
		strings.Join(names, ", "), "unknown class %q", s)
}

// MarshalText implements encoding.TextMarshaler with String.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseClass.
func (c *Class) UnmarshalText(b []byte) (err error) {
	*c, err = ParseClass(string(b))
	return err
}

// Compare orders classes as record.CompareProblems orders their problems.
func (c Class) Compare(o Class) int {
	return cmp.Or(cmp.Compare(o.Op, c.Op), cmp.Compare(o.Pass, c.Pass), cmp.Compare(c.With, o.With),
		cmp.Compare(c.Bytes, o.Bytes))
}
