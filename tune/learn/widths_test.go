package learn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep/shapes"
)

// Most draws have widths of models, a tenth are no multiple of 8, and those of a domain without such widths
// are as before. What is held out is not measured, other rows of its columns are.
func TestMostDrawsHaveWidthsOfModels(t *testing.T) {
	class := classProblem(kernels.RMSNorm, kernels.Fwd)
	l, err := NewCoverage(registry, launchmap.Rung{}, newSim(1, 0).info, shapes.DefaultDomain, []kernels.Problem{class}, nil)
	assert.NoError(t, err)
	count := func(domain shapes.Domain) (listed, first, ragged int) {
		c := l.chooser(nil, rand.New(rand.NewPCG(1, 9)))
		c.Domain = domain
		for range 2000 {
			n := c.drawColumns(class)
			listed += int(kernels.Flag(slices.Contains(l.Widths, n)))
			first += int(kernels.Flag(slices.Contains(l.First, n)))
			ragged += int(kernels.Flag(n%8 != 0))
		}
		return listed, first, ragged
	}
	listed, first, ragged := count(shapes.DefaultDomain)
	assert.That(t, listed > 1150 && first > 700 && ragged > 250 && ragged < 450, "%d listed, %d first, %d ragged", listed,
		first, ragged)
	few := shapes.DefaultDomain
	few.NMin, few.NMax = 20000, 30000
	listed, _, ragged = count(few)
	assert.That(t, listed == 0 && ragged > 1000, "%d listed, %d ragged", listed, ragged)

	l.HeldOut = nil
	for m := int64(1); m <= 64; m += 2 {
		l.HeldOut = append(l.HeldOut, shapes.Shape{M: m, N: 4096})
	}
	l.Domain = shapes.Domain{MMin: 1, MMax: 64, NMin: 4096, NMax: 4096, Elems: 1 << 28}
	l.First = nil
	c, even := l.chooser(nil, rand.New(rand.NewPCG(2, 9))), 0
	for range 20 {
		for _, p := range c.drawGroup(class) {
			assert.That(t, p.M%2 == 0, "%s is held out", p)
			even++
		}
	}
	assert.That(t, even > 20, "%d problems", even)
}

// A budget that ends early has been at as many widths as it can.
func TestWidthsThatWereNotMeasuredAreDrawnFirst(t *testing.T) {
	class := classProblem(kernels.RMSNorm, kernels.Fwd)
	l, err := NewCoverage(registry, launchmap.Rung{}, newSim(1, 0).info, shapes.DefaultDomain, []kernels.Problem{class}, nil)
	assert.NoError(t, err)
	known := []*Point{{Problem: withShape(class, 1, 4096)}, {Problem: withShape(class, 2, 4096)}}
	c, drawn := l.chooser(known, rand.New(rand.NewPCG(3, 9))), []int64{}
	for range 4 {
		drawn = append(drawn, c.leastMeasured(class, []int64{2880, 4096, 5376, 14848}))
	}
	assert.Equal(t, drawn[3], 4096) // the others have a group each by then, and it has two problems
	slices.Sort(drawn)
	assert.That(t, slices.Equal(drawn, []int64{2880, 4096, 5376, 14848}), "%v", drawn)
}

// Two listed widths side by side answer each with what is the fastest there, and a width between and one that is
// not listed with what is accepted and near.
func TestListedWidthHasAnAnswerOfItsOwn(t *testing.T) {
	at := withShape(classProblem(kernels.RMSNorm, kernels.Fwd), 4096, 5120)
	s := newSim(1, 0)
	f, _ := bare.Lookup("rms_fwd/one_shot")
	base := kernels.Variant{Family: f.Name, Config: f.Base(at, s.info)}
	two := kernels.Variant{Family: f.Name, Config: base.Config.With(kernels.Setting{Knob: kernels.Warps, Value: 16})}
	var points []*Point
	for _, n := range []int64{5120, 5376} {
		for _, m := range []int64{3000, 3500, 4096, 4800, 5400, 6000} {
			p := &Point{Problem: withShape(at, m, n), US: map[kernels.Variant]float64{base: 100, two: 110}, BestUS: 100}
			if n == 5376 {
				p.US = map[kernels.Variant]float64{base: 110, two: 100}
			}
			points = append(points, p)
		}
	}
	own := &Filler{Registry: bare, Device: s.info, Widths: []int64{5120, 5376}, Prior: plain.Prior}
	m := own.Fill(points)
	assert.NoError(t, m.CheckValid())
	for n, want := range map[int64]kernels.Variant{5120: base, 5376: two} {
		a := cellOf(m, withShape(at, 4096, n))
		assert.Equal(t, a.Variant, want, n)
		assert.Equal(t, a.Evidence(), launchmap.Measured, n)
	}
	for _, n := range []int64{5112, 5128, 5248, 5384, 6144} {
		v := cellOf(m, withShape(at, 4096, n)).Variant
		assert.That(t, v == base || v == two, "%d columns: %s", n, v)
	}
	assert.Equal(t, len(own.Fill(points).Rasters[0].Lines), len(plain.Fill(points).Rasters[0].Lines)+4)
}
