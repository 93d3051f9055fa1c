package models

import (
	"maps"
	"slices"

	"normbench/kernels"
)

// Widths lists the columns that norms of the catalog's models have, and the hidden sizes among them, both
// ascending. Maps have answers of their own for these.
func (f *Catalog) Widths() (all, hidden []int64) {
	in, sizes := map[int64]bool{}, map[int64]bool{}
	for _, m := range f.models {
		_, n, _ := m.Size()
		sizes[n] = true
		for _, n := range m.Widths() {
			in[n] = true
		}
	}
	return slices.Sorted(maps.Keys(in)), slices.Sorted(maps.Keys(sizes))
}

// The sizes of heads that Widths lists.
const leastHead, mostHead = 64, 256

// Widths lists the columns that norms of m have, ascending: those of its step, what a rank of 2, 4 or 8
// has of the hidden size, and the size of a head.
func (m *Model) Widths() []int64 {
	s, err := m.Step(StepQuery{Tokens: 1, TP: 1, SP: 1, Passes: []kernels.Pass{kernels.Fwd}})
	if err != nil {
		return nil // never: whoever made the model has laid out this step already
	}
	in := map[int64]bool{}
	for _, c := range s.Calls {
		in[c.Problem.N] = true
	}
	_, hidden, _ := m.Size()
	for ranks := int64(1); ranks <= 8; ranks *= 2 {
		if hidden%ranks == 0 {
			in[hidden/ranks] = true
		}
	}
	if head, err := m.figure("head_dim"); err == nil && leastHead <= head && head <= mostHead {
		in[head] = true
	}
	return slices.Sorted(maps.Keys(in))
}
