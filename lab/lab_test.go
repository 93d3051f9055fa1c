package lab

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// Cards of one kind that differ by more than the noise are named, and the least floor is the run's.
func TestTimerOfCards(t *testing.T) {
	card := func(us float64) kernels.Device {
		return &devicetest.Fake{Seconds: devicetest.Always(us * 1e-6)}
	}
	for us, want := range map[float64]string{10.1: "", 9.5: "the cards differ"} {
		var said strings.Builder
		l := New(t.Context(), console.New(t.Context(), nil, &said), families.New(), func() {})
		var run record.Run
		assert.NoError(t, l.TestTimer(&run, card(10), card(us)))
		assert.Equal(t, run.FloorUS, min(10, us), "a floor", "us of cards with 10 and", us)
		if second := slices.ContainsFunc(run.SelfTest, func(x record.Trial) bool {
			return strings.HasPrefix(x.Name, "device 2: ") && !x.OK
			// a fake's spin is as short as any launch
		}); !second || !strings.Contains(run.Failures(), "device 2: ") {
			t.Errorf("%g us: what the second card failed is not kept: %v", us, run.SelfTest)
		}
		text := said.String()
		assert.That(t, strings.Contains(text, "device 2 of 2: stream 11") == (want != "") &&
			strings.Contains(text, want), "%g us: %q", us, text)
	}
}

// What is emulated is small, three problems of each op and pass to a family, with each set of types
// in turn; shapes that were asked for come first.
func TestEmulatedTasks(t *testing.T) {
	l := New(t.Context(), console.New(t.Context(), nil, nil), families.New(), func() {})
	refs, err := l.ParseAll("rms_fwd/cta_reg")
	assert.NoError(t, err)
	var ps []kernels.Problem
	for _, text := range []string{"rmsnorm/fwd/32x64/bf16", "rmsnorm/fwd/32x64/fp16",
		"rmsnorm/fwd/4096x8192/bf16+bias", "layernorm/fwd/32x64/bf16"} {
		p := devicetest.Problem(t, text)
		ps = append(ps, p)
	}
	tasks, none := l.emulatedTasks(refs, ps, emulatedGPU())
	var got []string
	for _, t := range tasks {
		got = append(got, t.Problem.String())
	}
	const want = "rmsnorm/fwd/32x64/bf16 rmsnorm/fwd/21x72/fp16 rmsnorm/fwd/9x541/bf16+bias"
	assert.That(t, strings.Join(got, " ") == want && len(none) == 0,
		"%v and %v, want %s", got, none, want)
	tasks, none = l.emulatedTasks(refs, ps[3:], emulatedGPU())
	assert.That(t, len(tasks) == 0 && len(none) == 1, "of another op: %v, %v", tasks, none)
}
