package presets

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// What every preset picks on an H200, for narrow, middle, wide and odd rows, or why it has nothing:
// testdata/picks_h200.txt.
func TestPicksOfPresetsStay(t *testing.T) {
	r, asked := families.NewRegistry(), map[*Preset]bool{}
	assert.Lines(t, "testdata/picks_h200.txt", func(input string) string {
		name, problem, _ := strings.Cut(input, " ")
		s, err := Lookup(name)
		assert.NoError(t, err)
		asked[s] = true
		vs, err := s.Variants(r, devicetest.Problem(t, problem), devicetest.H200())
		switch {
		case err != nil:
			return err.Error()
		case len(vs) > 1:
			return fmt.Sprintf("%s and %d more", vs[0], len(vs)-1)
		}
		return vs[0].String()
	})
	assert.Equal(t, len(asked), len(All()), "presets with a line")
}
