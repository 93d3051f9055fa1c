package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep"
)

// A row's bits must not depend on how many rows there are beside it: training by reinforcement compares
// what a model says of a token in a batch with what it says of it alone, and a server answers the same
// request the same way. dw and db sum over rows, and are not compared.

// fewerRows are the numbers of rows at which rows are compared with those of the whole problem.
var fewerRows = []int64{1, 7, 128}

// Windows of so many rows each are compared, with rows from all over the first kernels.MostHashed: of bf16, one row
// alone may round to the same bits though its sums differ. A launch of the emulator takes a process.
const (
	rowWindows         = 32
	emulatedRowWindows = 4
)

// A rowsState says how the rows of a variant compare.
type rowsState struct {
	whole kernels.RowHashes // of the whole problem
	at    []int64           // numbers of rows whose bits are the whole's
	wrong string            // what differs, at first
}

// compareRows compares the bits of the same rows in fewer rows and in the whole problem: of each variant that is
// right so far, and of what the operands pick in its place for fewer rows.
func (c *Checker) compareRows(ctx context.Context, task sweep.Task, outcomes []checkState) error {
	var left []int // variants to compare
	for i := range task.Variants {
		if o := &outcomes[i]; o.draws > 0 && o.failure == nil && o.wrong == "" && task.Problem.M > 1 {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return nil
	}
	err := c.eachWindow(ctx, task.Problem, task.Problem.M, 1, func(s *sweep.Session, _ int64) (err error) {
		for _, i := range left {
			o := &outcomes[i].rows
			if o.whole, err = s.HashRows(ctx, task.Variants[i], kernels.MostHashed); err == nil {
				o.at = []int64{task.Problem.M}
			} else if o.wrong, err = notCompared(ctx, err, task.Problem.M); err != nil {
				return err
			}
		}
		return nil
	})
	windows := rowWindows
	if c.Code == Emulated {
		windows = emulatedRowWindows
	}
	for _, m := range slices.Backward(fewerRows) {
		if err != nil || m >= task.Problem.M {
			continue
		}
		few := task.Problem
		few.M = m
		failed := map[int]bool{} // those that do not run there
		err = c.eachWindow(ctx, few, min(task.Problem.M, kernels.MostHashed), windows,
			func(s *sweep.Session, from int64) error {
				for _, i := range left {
					if o := &outcomes[i].rows; o.wrong == "" && !failed[i] {
						ran, err := c.compareWindow(ctx, s, task, i, from, o)
						if err != nil {
							return err
						}
						failed[i] = !ran
					}
				}
				return nil
			})
		for _, i := range left {
			if o := &outcomes[i].rows; o.wrong == "" && !failed[i] {
				o.at = slices.Insert(o.at, 0, m)
			}
		}
	}
	return err
}

// CompareRows says what differs between the rows of a variant in p and in fewer rows, "" if nothing does.
func (c *Checker) CompareRows(ctx context.Context, p kernels.Problem, v kernels.Variant) (why string, err error) {
	outcome := []checkState{{draws: 1}}
	err = c.compareRows(ctx, sweep.Task{Problem: p, Variants: []kernels.Variant{v}}, outcome)
	return outcome[0].rows.wrong, err
}

// eachWindow opens p on windows of its draw, one behind the other, as many as lie in the first rows.
func (c *Checker) eachWindow(ctx context.Context, p kernels.Problem, rows int64, most int,
	what func(s *sweep.Session, from int64) error) error {
	for k := range int64(most) {
		from := k * p.M
		if from+p.M > rows {
			break
		}
		s := &sweep.Session{Device: c.Device, Registry: c.Registry, Problem: p, Seed: c.Seed, Draw: kernels.DrawPlain, From: from}
		err := what(s, from)
		s.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// compareWindow compares variant i of a task in a window with the whole problem, and what operands pick there in
// its place. It says whether any ran.
func (c *Checker) compareWindow(ctx context.Context, s *sweep.Session, task sweep.Task, i int, from int64,
	o *rowsState) (ran bool, err error) {
	v, few := task.Variants[i], s.Problem
	for _, x := range append([]pick{{variant: v}}, c.picks(task.Problem, few, v)...) {
		hashes, err := s.HashRows(ctx, x.variant, few.M)
		if err != nil {
			if o.wrong, err = notCompared(ctx, err, few.M); err != nil || o.wrong != "" {
				return ran, err
			}
			continue
		}
		ran = true
		where := hashes.FirstOther(o.whole, from)
		switch {
		case where == "":
		case x.ref == "":
			o.wrong = fmt.Sprintf("%s has other bits in %s than in %d", where, console.Count(int(few.M), "row"), task.Problem.M)
		default:
			o.wrong = fmt.Sprintf("%s picks %s for %s: %s has other bits than in %d", x.ref, x.variant,
				console.Count(int(few.M), "row"), where, task.Problem.M)
		}
		if o.wrong != "" {
			break
		}
	}
	return ran, nil
}

// A pick is what an operand picks for fewer rows.
type pick struct {
	ref     string
	variant kernels.Variant
}

// picks lists what operands that pick v for the whole problem pick for fewer rows, where that is another variant.
func (c *Checker) picks(whole, few kernels.Problem, v kernels.Variant) (list []pick) {
	for _, o := range c.Picking {
		all, _ := o.Variants(whole, c.Device.Info())
		some, _ := o.Variants(few, c.Device.Info())
		if len(all) == 1 && all[0] == v && len(some) == 1 && some[0] != v {
			list = append(list, pick{o.Text, some[0]})
		}
	}
	return list
}

// notCompared turns a failure into what is wrong with the variant; a config that is refused for so many rows, or a
// peer that does not take them, is not compared.
func notCompared(ctx context.Context, err error, rows int64) (wrong string, _ error) {
	var f *kernels.Failure
	switch {
	case ctx.Err() != nil || !errors.As(err, &f):
		return "", err
	case f.Status == kernels.StatusRefused || f.Status == kernels.StatusUnfit:
		return "", nil
	}
	return fmt.Sprintf("in %s: %s", console.Count(int(rows), "row"), f.Error()), nil
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
