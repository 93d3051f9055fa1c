package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"normbench/internal/console"
	"normbench/kernels"
)

// A row's bits must not depend on how many rows there are beside it. Training by reinforcement compares what
// a model says of a token in a batch with what it says of it alone. A server answers the same request the
// same way. dw and db sum over rows, and are not compared.

// fewerRows lists the numbers of rows at which rows are compared with those of the whole problem.
var fewerRows = []int64{1, 7, 128}

// RowWindows counts the windows of so many rows that are compared, with rows from all over the first
// kernels.MostHashed. In bf16 one row alone may round to the same bits though its sums differ.
const RowWindows = 32

// A RowComparer compares the bits of the same rows in fewer rows and in the whole problem.
type RowComparer struct {
	Registry *kernels.Registry
	Device   kernels.Device
	Seed     uint64    // of the inputs
	Windows  int       // 0 for RowWindows
	Picking  []Operand // whose picks for fewer rows are compared too
}

// A RowComparison says how the rows of a variant compare.
type RowComparison struct {
	At    []int64 // the numbers of rows at which they have the same bits, ascending; the whole problem's is the last
	Wrong string  // what differs, at first

	whole kernels.RowHashes // of the whole problem
}

// Compare compares the rows of each variant, and of what the operands pick in its place for fewer rows. A config that is
// refused for so many rows is not compared there.
func (c *RowComparer) Compare(ctx context.Context, p kernels.Problem, vs []kernels.Variant) ([]RowComparison, error) {
	found := make([]RowComparison, len(vs))
	if len(vs) == 0 || p.M < 2 {
		return found, nil
	}
	err := c.eachWindow(p, p.M, 1, func(s *Session) (err error) {
		for i := range found {
			o := &found[i]
			if o.whole, err = s.HashRows(ctx, vs[i], kernels.MostHashed); err == nil {
				o.At = []int64{p.M}
			} else if o.Wrong, err = rowFailure(ctx, err, p.M); err != nil {
				return err
			}
		}
		return nil
	})
	for _, m := range slices.Backward(fewerRows) {
		if err != nil || m >= p.M {
			continue
		}
		few := p
		few.M = m
		ran := make([]bool, len(vs))
		err = c.eachWindow(few, min(p.M, kernels.MostHashed), cmp.Or(c.Windows, RowWindows), func(s *Session) error {
			for i := range found {
				if found[i].At == nil || found[i].Wrong != "" {
					continue
				}
				one, err := c.compareWindow(ctx, s, p, vs[i], &found[i])
				if err != nil {
					return err
				}
				ran[i] = ran[i] || one
			}
			return nil
		})
		for i := range found {
			if ran[i] && found[i].Wrong == "" {
				found[i].At = slices.Insert(found[i].At, 0, m)
			}
		}
	}
	return found, err
}

// eachWindow opens p on windows of its draw, one behind the other, as many as lie in the first rows.
func (c *RowComparer) eachWindow(p kernels.Problem, rows int64, most int, what func(*Session) error) error {
	for k := range int64(most) {
		if (k+1)*p.M > rows {
			break
		}
		s := &Session{Device: c.Device, Registry: c.Registry, Problem: p, Seed: c.Seed, Draw: kernels.DrawPlain, From: k * p.M}
		err := what(s)
		s.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// compareWindow compares a variant in a window with the whole problem, and what operands pick there in its place. It
// says whether any ran.
func (c *RowComparer) compareWindow(ctx context.Context, s *Session, p kernels.Problem, v kernels.Variant,
	o *RowComparison) (ran bool, err error) {
	few := s.Problem
	for _, x := range append([]rowPick{{variant: v}}, c.picks(p, few, v)...) {
		hashes, err := s.HashRows(ctx, x.variant, few.M)
		if err != nil {
			if o.Wrong, err = rowFailure(ctx, err, few.M); err != nil || o.Wrong != "" {
				return ran, err
			}
			continue
		}
		ran = true
		where, rows := hashes.FirstOther(o.whole, s.From), console.Count(int(few.M), "row")
		switch {
		case where == "":
			continue
		case x.ref == "":
			o.Wrong = fmt.Sprintf("%s has other bits in %s than in %d", where, rows, p.M)
		default:
			o.Wrong = fmt.Sprintf("%s picks %s for %s: %s has other bits than in %d", x.ref, x.variant, rows, where, p.M)
		}
		break
	}
	return ran, nil
}

// A rowPick is what an operand picks for fewer rows.
type rowPick struct {
	ref     string
	variant kernels.Variant
}

// picks lists what operands that pick v for the whole problem pick for fewer rows, where that is another variant.
func (c *RowComparer) picks(whole, few kernels.Problem, v kernels.Variant) (list []rowPick) {
	for _, o := range c.Picking {
		all, _ := o.Variants(whole, c.Device.Info())
		some, _ := o.Variants(few, c.Device.Info())
		if len(all) == 1 && all[0] == v && len(some) == 1 && some[0] != v {
			list = append(list, rowPick{o.Text, some[0]})
		}
	}
	return list
}

// rowFailure turns a failure into what is wrong with the variant: nothing for a config that is refused for so many
// rows, or a peer that does not take them.
func rowFailure(ctx context.Context, err error, rows int64) (wrong string, _ error) {
	var f *kernels.Failure
	switch {
	case ctx.Err() != nil || !errors.As(err, &f):
		return "", err
	case f.Status == kernels.StatusRefused || f.Status == kernels.StatusUnfit:
		return "", nil
	}
	return fmt.Sprintf("in %s: %s", console.Count(int(rows), "row"), f.Error()), nil
}
