package shapes_test

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/shapes"
)

// A selection lays out its shapes with types and options, each problem once; a filter takes those
// of the flags that were given: testdata/problems.txt.
func TestSelectionHasEachProblemOnce(t *testing.T) {
	assert.Lines(t, "testdata/problems.txt", func(input string) string {
		text, problem, filter := strings.Cut(input, " fits ")
		s := assert.Value[shapes.Selection](t, text)
		if filter {
			fits, err := s.Filter()
			assert.NoError(t, err)
			return fmt.Sprint(fits(devicetest.Problem(t, problem)))
		}
		ps, err := s.Problems("smoke")
		if err != nil {
			return err.Error()
		}
		return strings.Trim(fmt.Sprint(ps), "[]")
	})
}
