//go:build cuda

package cuda

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cuda/driver"
)

// tablesOf are the rows of the tables, and of what they come to per step, that `normbench --format json` printed to a file.
func tablesOf(t *testing.T, file string) (x struct{ Rows, Steps []map[string]any }) {
	assert.NoError(t, json.Unmarshal(assert.File(t, file), &x))
	return x
}

// Per step, less the floor of each call, a sweep says what a loop of those launches takes. The loop has
// each call behind a flush, as samples have, and is timed as a whole; a loop of the flushes alone is taken
// off. $NORMBENCH_STEP is what `sweep --model ... --format json` printed, and $NORMBENCH_STEP_CALLS what
// `list models` did: lab/scripts/model-gpu.sh makes both.
func TestStepTakesWhatItsLoopTakes(t *testing.T) {
	sweep, calls := os.Getenv("NORMBENCH_STEP"), os.Getenv("NORMBENCH_STEP_CALLS")
	if sweep == "" || calls == "" {
		t.Skip("$NORMBENCH_STEP and $NORMBENCH_STEP_CALLS name no tables; lab/scripts/model-gpu.sh does")
	}
	counts := map[string]int{}
	for _, r := range tablesOf(t, calls).Rows {
		counts[r["problem"].(string)] += int(r["calls"].(float64))
	}
	tables := tablesOf(t, sweep)
	step := tables.Steps[0]
	says := step["b_us"].(float64) - step["floor_us"].(float64)
	d := openDevice(t)
	total := 0.0
	for _, r := range tables.Rows {
		p, err := kernels.ParseProblem(r["problem"].(string))
		assert.NoError(t, err)
		v, err := kernels.ParseVariant(r["b_variant"].(string))
		assert.NoError(t, err)
		us := loopUS(t, d, p, v, counts[p.String()])
		t.Logf("%s: %d calls of %s: %.1f us, %.2f each", p, counts[p.String()], v, us, us/float64(counts[p.String()]))
		total += us
	}
	off := 100 * (total/says - 1)
	t.Logf("per step, less the launches: %.1f us; the loops: %.1f us, %+.1f%%", says, total, off)
	assert.That(t, off > -5 && off < 5, "the loops take %+.1f%% of what is said per step", off)
}

// loopUS is the time of so many calls in a row, the median of some loops.
func loopUS(t *testing.T, d *Device, p kernels.Problem, v kernels.Variant, calls int) float64 {
	opened, err := d.Open(t.Context(), p, kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	defer opened.Close()
	b := opened.(*bench)
	r, err := b.prepareBound(v)
	assert.NoError(t, err)
	assert.NoError(t, d.reserveEvents(2))
	var loops []float64
	assert.NoError(t, d.call(func() error {
		flush, err := d.backlogCommands(2 * d.info.CacheBytes)
		if err != nil {
			return err
		}
		timed := func(each []driver.Command) (float64, error) {
			steps := []driver.Command{{Kind: driver.CommandRecord, Event: d.events[0]}}
			for range calls {
				steps = append(steps, each...)
			}
			steps = append(steps, driver.Command{Kind: driver.CommandRecord, Event: d.events[1]})
			if _, err := d.enqueueBehindSpin(steps); err != nil {
				return 0, err
			}
			return d.events[1].Elapsed(d.events[0])
		}
		with := slices.Clone(flush)
		for j := range r.launches {
			with = append(with, r.launches[j].step)
		}
		for range 12 {
			alone, err := timed(flush)
			if err != nil {
				return err
			}
			all, err := timed(with)
			if err != nil {
				return err
			}
			loops = append(loops, 1e6*(all-alone))
		}
		return nil
	}))
	loops = loops[2:] // the first are of a clock that still rises
	slices.Sort(loops)
	return loops[len(loops)/2]
}
