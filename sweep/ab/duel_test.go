package ab

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/verdict"
)

var registry = families.New()

// runDuel runs a duel of six rounds.
func runDuel(t *testing.T, dev kernels.Device, d Duel, seed uint64) *DuelResult {
	t.Helper()
	c := &Runner{Registry: registry, Device: dev, Protocol: sweep.ColdProtocol(devicetest.H200(), 4)}
	res, err := c.duel(t.Context(), d, seed, func(c verdict.PairedRounds) bool { return len(c.Rounds) < 6 })
	assert.NoError(t, err)
	return res
}

func testDuel(t *testing.T) Duel {
	t.Helper()
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x1024/bf16")
	v, err := registry.Base(p, devicetest.H200())
	assert.NoError(t, err)
	return Duel{Problem: p, A: v, B: v}
}

// Every round visits every arm once, and keeps
// every sample but the first of a visit.
func TestFightVisitsEveryArmOnceARound(t *testing.T) {
	d := testDuel(t)
	res := runDuel(t, &devicetest.Fake{Registry: registry}, d, 1)
	assert.Must(t, res.Status == kernels.StatusOK, "%+v", res)
	assert.Must(t, len(res.Rounds) == 6 && len(res.Visits) == 24 && len(res.States) == 6,
		"%d rounds, %d visits, %d states", len(res.Rounds), len(res.Visits), len(res.States))
	for i, v := range res.Visits {
		of := res.Visits[i/4*4:][:4]
		again := slices.ContainsFunc(of[:i%4], func(o VisitSamples) bool { return o.Arm == v.Arm })
		assert.That(t, v.Round == i/4 && v.Place == i%4 && !again && len(v.SamplesUS) == 4,
			"visit %d: %+v", i, v)
	}
	assert.That(t, len(res.StagesA) == 2 && len(res.StagesB) == 2 && res.StreamUS > 0,
		"stages %v, %v, stream %g", res.StagesA, res.StagesB, res.StreamUS)
}

// Rounds in an unfit state are kept and do not count; too many make the cell unfit:
// testdata/unfit.txt, by a state and how many readings have it.
func TestFightDoesNotCountUnfitRounds(t *testing.T) {
	d := testDuel(t)
	assert.Lines(t, "testdata/unfit.txt", func(input string) string {
		x := assert.Value[struct {
			Calls   int
			Reading kernels.Reading
		}](t, input)
		dev := &devicetest.SensorFake{Fake: &devicetest.Fake{Registry: registry},
			Reading: func(call int) kernels.Reading {
				if call < x.Calls {
					return x.Reading
				}
				return kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980}
			}}
		res := runDuel(t, dev, d, 1)
		return fmt.Sprintf("%s, %d states %s", res.Status, len(res.States), res.Reason)
	})
}

// A variant that fails or answers wrong is a result, named by its arm.
func TestFightNamesTheArmThatFails(t *testing.T) {
	d := testDuel(t)
	d.B.Config = d.B.Config.With(kernels.Setting{Knob: kernels.Stages, Value: 1})
	for _, status := range []kernels.Status{kernels.StatusWrong, kernels.StatusLaunch,
		kernels.StatusTimeout} {
		f := &devicetest.Fake{Registry: registry, Fail: devicetest.FailVariants(status, d.B)}
		res := runDuel(t, f, d, 1)
		assert.That(t, res.Status == status && strings.HasPrefix(res.Reason, "B: ") &&
			len(res.Rounds) == 0, "%s: %+v", status, res)
	}
}

// A duel visits its arms in orders of its own problem, the same for one seed.
func TestDuelsHaveOrdersOfTheirOwn(t *testing.T) {
	visits := func(seed uint64, m int64) (s string) {
		d := testDuel(t)
		d.Problem.M = m
		res := runDuel(t, &devicetest.Fake{Registry: registry}, d, seed)
		assert.Must(t, len(res.Visits) == 24, "%+v", res)
		for _, v := range res.Visits {
			s += v.Arm
		}
		return s
	}
	one := visits(1, 4096)
	assert.That(t, visits(1, 4096) == one && visits(1, 8192) != one && visits(2, 4096) != one,
		"the orders are of neither the seed nor the problem alone")
}
