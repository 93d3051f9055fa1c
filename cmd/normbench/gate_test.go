package main

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
)

// Of many families that are gone a headline names some.
func TestGateNamesSomeOfManyFamilies(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for n, want := range []string{"", "a is", "a and b are", "a, b and c are", "a, b, c and d are", "a, b, c and 2 more are"} {
		got := ""
		for _, p := range aboutSome(names[:n], "is", "are") {
			got += p.Outcome.Reason
		}
		assert.Equal(t, got, want)
	}
}

// A folder has a forward and a backward often. A gate of the one is not refused for the other, and says so.
func TestGateLeavesOutFamiliesThatServeNothingAskedFor(t *testing.T) {
	r := families.NewRegistry()
	var both []*kernels.Family
	for _, name := range []string{"rms_fwd/plain", "rms_bwd/plain"} {
		f, err := r.Lookup(name)
		assert.NoError(t, err)
		both = append(both, f)
	}
	var cfg gateConfig
	cfg.Shapes, cfg.Op, cfg.Pass = "4x64", "rmsnorm", "fwd"
	asked, others, err := cfg.leaveOut(both)
	assert.NoError(t, err)
	assert.That(t, len(asked) == 1 && asked[0] == both[0], "asked for: %v", asked)
	assert.That(t, len(others) == 1 && strings.Contains(others[0].Outcome.Reason, "rms_bwd/plain is left out"), "%v", others)

	asked, others, err = cfg.leaveOut(both[1:])
	assert.NoError(t, err)
	assert.That(t, len(asked) == 1 && len(others) == 0, "nothing is left of a gate of nothing: %v, %v", asked, others)
}
