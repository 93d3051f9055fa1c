package search

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"normbench/kernels"
)

// A ForeignKnob is a knob of a space whose knobs are not this program's own.
type ForeignKnob struct {
	Size   int       // values that it has
	Values []float64 // in ascending order; nil where they are names
}

// A lattice is a space as points: the knobs' values by index.
type lattice struct {
	axes []ForeignKnob
	at   [][]int
	of   map[string]int // variant of a point
}

func newLattice(s *Candidates) *lattice {
	l := &lattice{axes: s.Axes, at: s.At}
	if l.axes == nil {
		l.derive(s)
	}
	l.of = make(map[string]int, len(l.at))
	for i, p := range l.at {
		l.of[l.key(p)] = i
	}
	return l
}

// derive makes axes of families and knobs. A knob that a family lacks has a value
// below the others.
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

func (l *lattice) key(p []int) string {
	b := make([]byte, 0, 2*len(p))
	for _, v := range p {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return string(b)
}

// find is the variant at a point.
func (l *lattice) find(p []int) (int, bool) {
	i, ok := l.of[l.key(p)]
	return i, ok
}

// visitNeighbours calls visit for the variants that differ from v in one knob; near are those
// next to it, the nearest in each direction that there is.
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

// child crosses two variants knob by knob and changes a knob now and then; ok says
// whether the space has what came of it.
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

// columns are the ways in which an axis may be a feature between 0 and 1: by the
// order of its values and by their logs.
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
