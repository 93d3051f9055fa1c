package ab

import (
	"errors"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep"
)

// Peers are visited until they are decided, those far behind twice; what fails is last. Our own get
// one round.
func TestChooseVisitsPeersUntilDecided(t *testing.T) {
	p := testDuel(t).Problem
	us := map[string]float64{"a": 20, "b": 10, "c": 11, "d": 30}
	named := func(name func(string) kernels.Variant) (vs []kernels.Variant) {
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			vs = append(vs, name(n))
		}
		return vs
	}
	for _, c := range []struct {
		vs   []kernels.Variant
		want []int // samples, the fastest first
	}{
		{named(kernels.PeerVariant), []int{15, 15, 10, 10, 0}},
		{named(func(n string) kernels.Variant { return kernels.Variant{Family: "my/" + n} }),
			[]int{5, 5, 5, 5, 0}},
	} {
		f := &devicetest.Fake{
			Seconds: func(_ kernels.Problem, v kernels.Variant, _ int) float64 {
				return us[v.Family[len(v.Family)-1:]] / 1e6
			},
			Fail: devicetest.FailVariants(kernels.StatusLaunch, c.vs[4])}
		v, arms, err := Choose(t.Context(), &sweep.Session{Device: f, Registry: registry, Problem: p,
			Protocol: sweep.ColdProtocol(f.Info(), 4)}, c.vs, nil)
		var samples []int
		for _, a := range arms {
			samples = append(samples, len(a.Samples))
		}
		assert.That(t, err == nil && v == c.vs[1] && slices.Equal(samples, c.want) &&
			arms[4].Failure != nil, "%v of %v: %v, %v", v, c.vs, samples, err)
	}
}

// A device that does not come back is the error.
func TestChooseEndsWithALostDevice(t *testing.T) {
	d := testDuel(t)
	gone := errors.New("gone")
	f := &devicetest.Fake{Registry: registry,
		Fail: func(kernels.Problem, kernels.Variant) *kernels.Failure {
			return &kernels.Failure{Status: kernels.StatusCrash, Broken: true}
		},
		OpenError: func(_ kernels.Problem, attempt int) error {
			if attempt > 0 {
				return gone
			}
			return nil
		}}
	s := &sweep.Session{Device: f, Registry: registry, Problem: d.Problem,
		Protocol: sweep.ColdProtocol(f.Info(), 4)}
	_, _, err := Choose(t.Context(), s, []kernels.Variant{d.A, d.A}, nil)
	assert.That(t, errors.Is(err, gone), "%v, want %v", err, gone)
}
