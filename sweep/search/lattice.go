package search

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"normbench/kernels"
)

// A ForeignKnob is a knob of a space from another tool, whose knobs are not normbench's.
type ForeignKnob struct {
	Size   int       // values that it has
	Values []float64 // in ascending order; nil where they are names
}

// A lattice gives each variant of a space as a point: the index of its value on each axis.
type lattice struct {
	axes  []ForeignKnob
	at    [][]int
	index map[string]int // variant of a point
}

// newLattice makes the lattice of a space, with its own axes or those of families and knobs.
func newLattice(s *Candidates) *lattice {
	l := &lattice{axes: s.Axes, at: s.At}
	if l.axes == nil {
		l.derive(s)
	}
	l.index = make(map[string]int, len(l.at))
	for i, p := range l.at {
		l.index[l.key(p)] = i
	}
	return l
}

// derive makes an axis of the families and one of each knob. A variant whose family lacks a knob has the
// knob's lowest value there.
func (l *lattice) derive(s *Candidates) {
	var families []string
	values := map[*kernels.Knob][]float64{}
	settings := make([]map[*kernels.Knob]int, len(s.Variants))
	for i, v := range s.Variants {
		if !slices.Contains(families, v.Family) {
			families = append(families, v.Family)
		}
		settings[i] = map[*kernels.Knob]int{}
		for _, x := range v.Config.Settings() {
			settings[i][x.Knob] = x.Value
			if !slices.Contains(values[x.Knob], float64(x.Value)) {
				values[x.Knob] = append(values[x.Knob], float64(x.Value))
			}
		}
	}
	l.at = make([][]int, len(s.Variants))
	l.axes = append(l.axes, ForeignKnob{Size: len(families)})
	for i, v := range s.Variants {
		l.at[i] = append(l.at[i], slices.Index(families, v.Family))
	}
	for _, k := range kernels.Knobs() {
		vs, ok := values[k]
		if !ok {
			continue
		}
		for i := range s.Variants {
			if _, has := settings[i][k]; !has {
				vs = append(vs, -1)
				break
			}
		}
		slices.Sort(vs)
		if len(vs) < 2 {
			continue
		}
		l.axes = append(l.axes, ForeignKnob{Size: len(vs), Values: vs})
		for i := range s.Variants {
			v := -1.0
			if n, has := settings[i][k]; has {
				v = float64(n)
			}
			l.at[i] = append(l.at[i], slices.Index(vs, v))
		}
	}
}

// key encodes a point as a key of the index.
func (l *lattice) key(p []int) string {
	b := make([]byte, 0, 2*len(p))
	for _, v := range p {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return string(b)
}

// find looks up the variant at a point; false where the space has none.
func (l *lattice) find(p []int) (int, bool) {
	i, ok := l.index[l.key(p)]
	return i, ok
}

// visitNeighbours calls visit for each variant that differs from v in one knob. near is true for the
// nearest one in each direction of a numeric knob, and for every value of a knob of names.
func (l *lattice) visitNeighbours(v int, visit func(n int, near bool)) {
	p := slices.Clone(l.at[v])
	for k, a := range l.axes {
		was := p[k]
		for _, up := range []bool{false, true} {
			near := true
			step, end := -1, -1
			if up {
				step, end = 1, a.Size
			}
			for x := was + step; x != end; x += step {
				p[k] = x
				if n, ok := l.find(p); ok {
					visit(n, near || a.Values == nil)
					near = false
				}
			}
		}
		p[k] = was
	}
}

// child crosses two variants knob by knob and changes each knob with the chance rate. It returns false
// where the space does not have the result.
func (l *lattice) child(a, b int, rate float64, rng *rand.Rand) (int, bool) {
	p := make([]int, len(l.axes))
	for k, x := range l.axes {
		p[k] = l.at[a][k]
		if rng.IntN(2) == 0 {
			p[k] = l.at[b][k]
		}
		if rng.Float64() < rate {
			if x.Values != nil && rng.IntN(2) == 0 {
				p[k] = min(max(p[k]+2*rng.IntN(2)-1, 0), x.Size-1)
			} else {
				p[k] = rng.IntN(x.Size)
			}
		}
	}
	return l.find(p)
}

// countDifferences counts the knobs in which two variants differ.
func (l *lattice) countDifferences(a, b int) (n int) {
	for k := range l.axes {
		if l.at[a][k] != l.at[b][k] {
			n++
		}
	}
	return n
}

// columns returns the ways to place the knob's values between 0 and 1: by their order, and by their
// logs.
func (a ForeignKnob) columns() [][]float64 {
	byIndex := make([]float64, a.Size)
	for i := range byIndex {
		byIndex[i] = float64(i) / float64(max(a.Size-1, 1))
	}
	cols := [][]float64{byIndex}
	if a.Values == nil || a.Size < 3 || a.Values[0] < -1 {
		return cols
	}
	log := make([]float64, a.Size)
	from, to := math.Log2(a.Values[0]+1.5), math.Log2(a.Values[a.Size-1]+1.5)
	for i, v := range a.Values {
		log[i] = (math.Log2(v+1.5) - from) / (to - from)
	}
	return append(cols, log)
}
