package shapes_test

import (
	"fmt"
	"math/rand/v2"
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

// The flags of a problem select it, and nothing else.
func TestFlagsOfAProblemSelectIt(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for range 500 {
		p := devicetest.Draw(r, 12, 12)
		s := shapes.Selection{On: map[string]bool{}}
		values := map[string]*string{"--shapes": &s.Shapes, "--op": &s.Op, "--pass": &s.Pass, "--dtype": &s.DType,
			"--weight-dtype": &s.Weight, "--bias": &s.Bias, "--quant": &s.Quant}
		flags := shapes.FlagsOf(p)
		for i := 0; i < len(flags); i++ {
			if value := values[flags[i]]; value != nil {
				i++
				*value = flags[i]
				continue
			}
			s.On[strings.TrimPrefix(flags[i], "--")] = true
		}
		ps, err := s.Problems("smoke")
		assert.NoError(t, err, p, flags)
		assert.Must(t, len(ps) == 1 && ps[0] == p, "%s: %s select %v", p, flags, ps)
	}
}
