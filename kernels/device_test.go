package kernels_test

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// Which states of a GPU times are not taken in: testdata/unfit.txt, with the least share of the
// clock.
func TestUnfitReadingsAreNamed(t *testing.T) {
	assert.Lines(t, "testdata/unfit.txt", func(input string) string {
		share, text, _ := strings.Cut(input, " ")
		r := assert.Value[kernels.Reading](t, text)
		return r.Unfit(assert.Value[float64](t, share))
	})
}

// What clears amax takes nothing: the main launch of a check is its first of a kernel.
func TestMainLaunchOfACheckIsItsFirstKernel(t *testing.T) {
	c := &kernels.Check{Resources: []kernels.Resource{{Stage: "zero", Registers: 1}, {Stage: "k1"},
		{Stage: "transpose"}}}
	got := c.Main()
	assert.That(t, got != nil && got.Stage == "k1", "main is %+v", got)
	c.Resources = c.Resources[1:]
	assert.That(t, c.Main().Stage == "k1" && (&kernels.Check{}).Main() == nil &&
		(*kernels.Check)(nil).Main() == nil, "main of k1 and transpose, or of nothing")
}
