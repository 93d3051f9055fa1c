package search

import (
	"fmt"
	"slices"

	"normbench/kernels"
)

// Edges lists the knobs that a config sets to the least or the largest of a
// family's values, "w=32": a wider range may hold something faster. Values of 0,
// which leave a choice to the kernel, and ranges of fewer than three have no edge.
func Edges(ranges []kernels.Range, c kernels.Config) []string {
	var edges []string
	for _, r := range ranges {
		var values []int
		for _, v := range r.Values {
			if v > 0 && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if v := c.Get(r.Knob); len(values) >= 3 &&
			(v == slices.Min(values) && v > 1 || v == slices.Max(values)) {
			edges = append(edges, fmt.Sprintf("%s=%d", r.Knob.Key, v))
		}
	}
	return edges
}
