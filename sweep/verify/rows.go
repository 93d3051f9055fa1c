package verify

import (
	"context"
	"maps"
	"slices"

	"normbench/kernels"
	"normbench/sweep"
)

// emulatedRowWindows is sweep.RowWindows of the emulator, where a launch takes a process.
const emulatedRowWindows = 4

// compareRows compares the bits of the rows of each variant that is right so far.
func (c *Checker) compareRows(ctx context.Context, task sweep.Task, outcomes []checkState) error {
	var left []int
	var vs []kernels.Variant
	for i, v := range task.Variants {
		if o := &outcomes[i]; o.draws > 0 && o.failure == nil && o.wrong == "" {
			left, vs = append(left, i), append(vs, v)
		}
	}
	rows := sweep.RowComparer{Registry: c.Registry, Device: c.Device, Seed: c.Seed, Picking: c.Picking}
	if c.Code == Emulated {
		rows.Windows = emulatedRowWindows
	}
	found, err := rows.Compare(ctx, task.Problem, vs)
	for k, i := range left {
		outcomes[i].rows = found[k]
	}
	return err
}

// addRows leaves the numbers of rows at which one more config has the same bits too.
func (k *Verdicts) addRows(at []int64) {
	switch {
	case at == nil:
	case k.rows == nil:
		k.rows = map[int64]bool{}
		for _, m := range at {
			k.rows[m] = true
		}
	default:
		maps.DeleteFunc(k.rows, func(m int64, _ bool) bool { return !slices.Contains(at, m) })
	}
}

// SameRows lists the numbers of rows in which the rows of all configs have the same bits.
func (k *Verdicts) SameRows() []int64 { return slices.Sorted(maps.Keys(k.rows)) }
