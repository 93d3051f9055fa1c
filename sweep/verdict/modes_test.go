package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/stats"
)

// twoSpeeds is a cell of 24 rounds in which B is fast times A's time in so many of them and slow times
// in the others: one after the other, or drawn.
func twoSpeeds(seed uint64, slowRounds int, fast, slow float64, drawn bool) (c PairedRounds) {
	r := rand.New(rand.NewPCG(seed, 11))
	arm := func(us float64) float64 { return us * math.Exp(0.002*r.NormFloat64()) }
	place := r.Perm(24)
	for i := range place {
		if !drawn {
			place[i] = i
		}
		b := fast
		if place[i] >= 24-slowRounds {
			b = slow
		}
		c.Rounds = append(c.Rounds, Round{arm(10), arm(10 * b), arm(10)})
	}
	return c
}

// checkShown holds a judgement to its rounds: one of them is as its effect says, and its interval has
// the effect and the median of the differences.
func checkShown(t *testing.T, name string, c PairedRounds, j Judgement, within float64) {
	t.Helper()
	var d []float64
	near := math.Inf(1)
	for _, r := range c.Rounds {
		d = append(d, math.Log(r.B/r.A))
		near = min(near, math.Abs(d[len(d)-1]-math.Log(j.Effect)))
	}
	assert.That(t, near <= within, "%s: no round is as %.4f, the nearest differs by %.2f%%: %+v", name,
		j.Effect, 100*near, j)
	m := math.Exp(stats.Median(d))
	const rounding = 1 + 1e-11
	assert.That(t, j.Lo == 0 || j.Lo <= j.Effect && j.Effect <= j.Hi && j.Lo <= m*rounding && m <= j.Hi*rounding,
		"%s: the median of the rounds is %.4f: %+v", name, m, j)
}

// A B that has A's speed for some rounds and another for the others is called nothing: the cell says
// how far its modes are apart. It does not matter which arm it is, nor in which order they come.
func TestRoundsOfTwoModesCallNothing(t *testing.T) {
	for seed := range uint64(6) {
		for _, slowRounds := range []int{6, 8, 12, 16, 18} {
			for _, gap := range []float64{0.03, 0.14, 0.30} {
				for _, drawn := range []bool{false, true} {
					c := twoSpeeds(seed, slowRounds, 1, 1+gap, drawn)
					name := fmt.Sprintf("seed %d, %d slow by %g, drawn %v", seed, slowRounds, gap, drawn)
					j := Judge([]PairedRounds{c}, Default())[0]
					says := strings.HasPrefix(j.Reason, fmt.Sprintf("two modes, %.0f%% apart", 100*gap))
					assert.That(t, j.Verdict == Inconclusive && (says || gap < 0.1) && j.Modes != nil &&
						math.Abs(j.Modes.Apart-gap) < 0.005, "%s: %+v, %+v", name, j, j.Modes)
					checkShown(t, name, c, j, 0.002)
					for i, r := range c.Rounds {
						c.Rounds[i].A, c.Rounds[i].B = r.B, r.A
					}
					back, turned := Judge([]PairedRounds{c}, Default())[0], j.Reverse()
					assert.That(t, back.Verdict == Inconclusive && turned.Reason == back.Reason &&
						math.Abs(turned.Effect-back.Effect) < 1e-9, "%s, A and B exchanged: %+v, %+v", name, back,
						turned)
				}
			}
		}
	}
}

// Of two modes beyond the band to one side the nearer one is the effect, and the interval has both.
func TestNearerOfTwoModesIsTheEffect(t *testing.T) {
	for seed := range uint64(6) {
		for _, slowRounds := range []int{6, 12, 18} {
			for _, x := range []struct {
				fast, slow, effect float64
				verdict            Verdict
			}{{1.1, 1.4, 1.1, Slower}, {0.7, 0.9, 0.9, Faster}} {
				c := twoSpeeds(seed, slowRounds, x.fast, x.slow, true)
				name := fmt.Sprintf("seed %d, %d slow of %g to %g", seed, slowRounds, x.fast, x.slow)
				j := Judge([]PairedRounds{c}, Default())[0]
				assert.That(t, j.Verdict == x.verdict && math.Abs(j.Effect/x.effect-1) < 0.005 &&
					j.Lo < x.fast*1.01 && j.Hi > x.slow*0.99 && j.Modes != nil, "%s: %+v", name, j)
				checkShown(t, name, c, j, 0.002)
			}
		}
	}
}

// On every machine some round is as the effect says, and the interval has the median.
func TestEffectIsShown(t *testing.T) {
	for _, k := range kinds {
		for seed := range uint64(300) {
			for _, effect := range []float64{0, 0.02} {
				c, j := compare(k, seed, effect, true, Default())
				checkShown(t, fmt.Sprintf("%s, seed %d, effect %g", k.name, seed, effect), c, j, max(0.01, j.Step))
			}
		}
	}
}

// A round in which something was compiled is named and does not count; the others do.
func TestRoundThatCompiledDoesNotCount(t *testing.T) {
	c := rounds(12, -0.05, 0, 0.002)
	clean := Judge([]PairedRounds{{Rounds: c.Rounds[1:]}}, Default())[0]
	c.Rounds[0].B = 5e4
	j := Judge([]PairedRounds{c}, Default())[0]
	assert.That(t, j.Verdict == Faster && j.Rounds == 11 && j.Effect == clean.Effect && j.Hi == clean.Hi,
		"%+v, without the round %+v", j, clean)
	assert.That(t, len(j.Late) == 1 && j.Late[0].Round == 1 && strings.HasPrefix(j.Late[0].String(),
		"round 1: b is 9") && strings.HasSuffix(j.Late[0].String(), "x its median; was something compiled there?"),
		"%v", j.Late)
	assert.Equal(t, j.Reverse().Late[0].Arm, "a", "turned")
	// A and B exchanged drop the same rounds: what counts takes no side.
	for i, r := range c.Rounds {
		c.Rounds[i].A, c.Rounds[i].B = r.B, r.A
	}
	assert.Equal(t, Judge([]PairedRounds{c}, Default())[0].Rounds, 11, "of A and B exchanged")
	c.Rounds[3].A2 = 90 * c.Rounds[3].A2
	assert.Equal(t, Judge([]PairedRounds{c}, Default())[0].Rounds, 11, "90 times the median counts")
}
