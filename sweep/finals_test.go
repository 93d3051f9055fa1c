package sweep

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// The base stays unless another is proved ahead; of those the fastest wins, or the entry near it.
func TestPickWinner(t *testing.T) {
	rounds := func(us float64) []float64 {
		return []float64{us, us * 1.001, us * 0.999, us, us, us}
	}
	noisy := func(us float64) []float64 {
		return []float64{us * 0.99, us * 1.02, us * 0.98, us, us * 1.01, us}
	}
	other := func(rounds []float64) *finalist { return &finalist{Arm: &Arm{Rounds: rounds}} }
	base := func(rounds []float64) *finalist {
		return &finalist{Arm: &Arm{Rounds: rounds}, base: true}
	}
	entry := func(rounds []float64) *finalist {
		return &finalist{Arm: &Arm{Rounds: rounds}, entry: true}
	}
	failed := func(f *finalist) *finalist {
		f.Failure = kernels.Failf(kernels.StatusWrong, "on fresh inputs")
		return f
	}
	for name, test := range map[string]struct {
		fs    []*finalist
		want  int
		why   string
		floor float64
	}{
		"fastest": {[]*finalist{other(rounds(100)), other(rounds(90))}, 1, "fastest", 0},
		"checked in": {[]*finalist{other(rounds(90)), entry(rounds(90.5)), other(rounds(90.2))}, 1,
			"checked in, within 1.0%", 0},
		"entry too slow": {[]*finalist{other(rounds(90)), entry(rounds(92))}, 0, "fastest", 0},
		"entry fastest":  {[]*finalist{other(rounds(90)), entry(rounds(89))}, 1, "fastest", 0},
		"failed": {[]*finalist{failed(other(rounds(90))), other(rounds(120))}, 1,
			"fastest", 0},
		"a base that fails": {[]*finalist{failed(base(rounds(80))), other(rounds(90))}, 1, "fastest", 0},
		"none":              {[]*finalist{failed(other(nil))}, -1, "", 0},
		"the base stays": {[]*finalist{base(noisy(90)), other(rounds(89.5)), other(rounds(95))},
			0, "base: ", 0},
		"the base is beaten by another than the fastest": {[]*finalist{base(rounds(90)),
			other([]float64{80, 80, 80, 99, 99, 80}), other(rounds(89))}, 2, "fastest", 0},
		"the base on a noisy machine": {[]*finalist{base(rounds(90)), other(rounds(80))}, 0,
			"base: ", -0.2},
		"the base wins against the entry too": {[]*finalist{base(rounds(90)),
			entry(noisy(89.9))}, 0, "base: ", 0},
	} {
		got, why := pickWinner(test.fs, tieBand, test.floor)
		assert.That(t, got == test.want && strings.HasPrefix(why, test.why),
			"%s: %d, %q", name, got, why)
	}
}
