package report

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/models"
)

// step has so many calls of each problem.
func step(t *testing.T, name string, calls map[string]float64, order ...string) models.Step {
	s := models.Step{Name: name}
	for _, p := range order {
		s.Calls = append(s.Calls, models.Call{Problem: devicetest.Problem(t, p), Count: calls[p]})
	}
	return s
}

const (
	fwdOf   = "rmsnorm/fwd/8192x4096/bf16"
	bwdOf   = "rmsnorm/bwd/8192x4096/bf16"
	headsOf = "rmsnorm/fwd/65536x128/bf16"
	absent  = "rmsnorm/bwd/65536x128/bf16"
)

// ofStep is a comparison of which B saves 10, 20 and -2 us a call, with an interval of 2, 4 and 1 us on
// each side.
func ofStep(t *testing.T) *Comparison {
	a, b := Side{Label: "a", Cells: map[kernels.Problem]Measurement{}}, Side{Label: "b", Cells: map[kernels.Problem]Measurement{}}
	for _, c := range []struct {
		problem     string
		a, b, wider float64
	}{{fwdOf, 40, 30, 2}, {bwdOf, 80, 60, 4}, {headsOf, 10, 12, 1}} {
		p := devicetest.Problem(t, c.problem)
		half := c.wider / math.Sqrt2 // of both sides together c.wider
		for us, side := range map[float64]Side{c.a: a, c.b: b} {
			cell := ok(us)
			cell.Bytes, cell.Lo, cell.Hi, cell.Run = p.Bytes(), us-half, us+half, coldRun("of "+side.Label, "gpu")
			cell.Run.FloorUS = 2.5
			side.Cells[p] = cell
		}
	}
	return Compare(a, b)
}

// What a comparison is worth in a step is each problem's saving by its calls. Problems of one shape err
// together: 65*2 + 65*4 = 390 us. Another shape errs on its own, sqrt(390^2 + (64*1)^2) = 395.2.
func TestWorthAddsSavingsByCalls(t *testing.T) {
	c := ofStep(t)
	s := step(t, "model", map[string]float64{fwdOf: 65, bwdOf: 65, headsOf: 64, absent: 7},
		fwdOf, bwdOf, headsOf, absent)
	w := c.worthOf(s)
	near := func(got, want float64, what string) {
		t.Helper()
		assert.That(t, math.Abs(got-want) < 0.05, "%s: %v, not %v", what, got, want)
	}
	near(w.a, 65*40+65*80+64*10, "a")
	near(w.saved, 65*10+65*20-64*2, "saved")
	near(w.b, w.a-w.saved, "b")
	near(w.saved-w.lo, 395.2, "below")
	near(w.hi-w.saved, 395.2, "above")
	near(w.floor, (65+65+64)*2.5, "floor")
	near(w.lost, 7, "lost")
	assert.Same(t, w.lacks, []string{"rmsnorm/bwd/65536x128/bf16"})
	assert.Equal(t, w.parts[0].problem, devicetest.Problem(t, bwdOf))

	// Two calls of one problem in a step are as many as their sum.
	twice := s
	twice.Calls = append(twice.Calls[:3:3], models.Call{Problem: devicetest.Problem(t, fwdOf), Count: 0.5})
	near(c.worthOf(twice).a, w.a+20, "with half a call more")

	// Without the interval of one problem there is none of the sum.
	for i := range c.Rows {
		if c.Rows[i].Problem == devicetest.Problem(t, headsOf) {
			c.Rows[i].B.Lo = 0
		}
	}
	w = c.worthOf(s)
	near(w.saved, 1822, "saved")
	assert.That(t, math.IsNaN(w.lo) && math.IsNaN(w.hi), "an interval %v to %v", w.lo, w.hi)
}

// Both sides of one variant and one run save nothing, exactly.
func TestAlikeSidesSaveNothing(t *testing.T) {
	side := Side{Label: "a", Cells: map[kernels.Problem]Measurement{}}
	cell := ok(40)
	cell.Run = coldRun("r", "gpu")
	side.Cells[devicetest.Problem(t, fwdOf)] = cell
	w := Compare(side, side).worthOf(step(t, "m", map[string]float64{fwdOf: 3}, fwdOf))
	assert.Same(t, []float64{w.a, w.b, w.saved, w.lo, w.hi}, []float64{120, 120, 0, 0, 0})
}

// Where problems have calls, a comparison and its page end with what it is worth per step.
func TestComparisonEndsWithWorthPerStep(t *testing.T) {
	c := ofStep(t)
	c.SetSteps([]models.Step{
		step(t, "model, 8192 tokens", map[string]float64{fwdOf: 65, bwdOf: 65, headsOf: 1}, fwdOf, bwdOf, headsOf),
		step(t, "forward", map[string]float64{fwdOf: 1, absent: 2.5}, fwdOf, absent)})
	golden(t, "step", func(w io.Writer, f string) error { return Render(w, c, f) })
	var b bytes.Buffer
	assert.NoError(t, Render(&b, c, FormatJSON))
	var all struct{ Steps []map[string]any }
	assert.NoError(t, json.Unmarshal(b.Bytes(), &all))
	last := all.Steps
	assert.Equal(t, last[0]["saved_us"], any(1948.0))
	assert.Equal(t, last[1]["calls_without_a_time"], any(2.5))
	b.Reset()
	assert.NoError(t, c.Page("title").Write(&b))
	assert.That(t, strings.Contains(b.String(), "What it is worth in a step"), "the page has no table of it")
}
