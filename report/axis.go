package report

import (
	"cmp"
	"fmt"

	"normbench/internal/hint"
	"normbench/kernels"
)

// An Axis is what a report goes over: what orders its rows, and what its plots
// have from left to right. nil is none: the order of all other tables, and
// nothing to draw.
type Axis struct {
	name  string // as --over has it
	label string // below the axis
	fixed string // the side that each panel holds fixed; "" where a panel has all shapes of a kind
	// along splits a problem's sides into the one that grows first and the other.
	along func(kernels.Problem) (grows, other int64)
	least int // points of an arm that make a panel worth looking at
}

// The axes. Over a side, shapes that differ in it alone share a panel and a
// line; over shapes, each stands beside the next, whatever its sides are.
var (
	OverM = &Axis{name: "M", label: "M, rows", fixed: "N", least: 3,
		along: func(p kernels.Problem) (int64, int64) { return p.M, p.N }}
	OverN = &Axis{name: "N", label: "N, columns", fixed: "M", least: 3,
		along: func(p kernels.Problem) (int64, int64) { return p.N, p.M }}
	OverShape = &Axis{name: "shape", label: "MxN, rows x columns", least: 1, along: OverM.along}
)

// Axes are all there are.
func Axes() []*Axis { return []*Axis{OverM, OverN, OverShape} }

// AxisOf is the axis of a name; nil for "".
func AxisOf(name string) (*Axis, error) {
	if name == "" {
		return nil, nil
	}
	for _, a := range Axes() {
		if a.name == name {
			return a, nil
		}
	}
	return nil, hint.Errorf("use --over M, the rows, --over N, the columns, or --over shape, every "+
		"problem", "unknown --over %q", name)
}

func (a *Axis) String() string {
	if a == nil {
		return ""
	}
	return a.name
}

// every says whether a panel has every shape of a kind, one beside the other.
func (a *Axis) every() bool { return a.fixed == "" }

// compare orders problems of one kind.
func (a *Axis) compare(p, q kernels.Problem) int {
	pg, po := a.along(p)
	qg, qo := a.along(q)
	return cmp.Or(cmp.Compare(po, qo), cmp.Compare(pg, qg))
}

// title is what a panel is of.
func (a *Axis) title(p panel) string {
	if a.every() {
		return p.what
	}
	return fmt.Sprintf("%s, %s = %d", p.what, a.fixed, p.fixed)
}

// errNothing says why there is nothing to draw, and what would help.
func (a *Axis) errNothing() error {
	if a.every() {
		return hint.Errorf("`normbench bench`, `sweep` and `compare` time the stream beside the kernels",
			"nothing to draw over %s: no problem has a time and the stream's", a)
	}
	return hint.Errorf("measure a group such as growth-rows (over M) or growth-cols (over N): "+
		"`normbench bench base --shapes growth-rows --out DIR`; --over shape draws any",
		"nothing to draw over %s: no %s has %d different %s with a time and the stream's",
		a, a.fixed, a.least, a)
}
