package search

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

func TestEdges(t *testing.T) {
	ranges := []kernels.Range{kernels.Values(kernels.Warps, 4, 8, 16), kernels.Values(kernels.PerSM,
		0, 2, 4, 8), kernels.Values(kernels.Stages, 1, 2),
		kernels.Values(kernels.BlockRows, 1, 2, 4)}
	for label, want := range map[string]string{"br1.w8.st2.k0": "", "br1.w4.st1.k8": "w=4 k=8",
		"br4.w16.k2": "w=16 k=2 br=4", "br2.w8.k4": ""} {
		c := devicetest.Config(t, label)
		assert.Equal(t, strings.Join(Edges(ranges, c), " "), want, label)
	}
}
