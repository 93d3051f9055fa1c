package ab

import (
	"context"
	"slices"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// A Compare fights the duels of a match on one device.
type Compare struct {
	Registry *kernels.Registry
	Device   kernels.Device
	Protocol record.Protocol // Samples are the launches kept per visit; their median is its time
	// of the inputs, and with the problem of the orders: package verdict's error rates rest on these
	Seed     uint64
	Baseline bool // A's kernels are those of another checkout
	Choose   func(kernels.Problem, []kernels.Variant) (kernels.Variant, error)
	// Fought is told of each duel that is done, once the match is judged with it. Its error ends
	// the match.
	Fought func(*Result) error
}

// Fight fights the pairs that are left of all, and adds them to the match. What is measured when it
// ends early stays in the match.
func (c *Compare) Fight(ctx context.Context, m *Match, left, all []Pair) error {
	more := func(cell verdict.Cell) bool { return m.Rule.More(cell, len(all)) }
	defer func() {
		m.sort(all)
		m.Judge()
	}()
	for i, p := range left {
		if i+1 < len(left) {
			c.prefetch(left[i+1])
		}
		d, err := c.settle(p)
		if err != nil {
			return err
		}
		res, err := c.duel(ctx, d, c.Seed, more)
		if err != nil {
			return err
		}
		m.Duels = append(m.Duels, res)
		m.Judge()
		if err := c.Fought(res); err != nil {
			return err
		}
	}
	return nil
}

// settle makes a duel of a pair.
func (c *Compare) settle(p Pair) (d Duel, err error) {
	d.Problem = p.Problem
	if d.A, err = c.Choose(p.Problem, p.Of[0]); err != nil {
		return d, err
	}
	if d.B, err = c.Choose(p.Problem, p.Of[1]); err != nil {
		return d, err
	}
	if c.Baseline {
		d.A = c.baseline(p.Problem, d.A)
	}
	return d, nil
}

// baseline is v with the baseline's kernels. The base config is the baseline's own: an earlier
// manifest may have other knobs.
func (c *Compare) baseline(p kernels.Problem, v kernels.Variant) kernels.Variant {
	now, err := c.Registry.Lookup(v.Family)
	v.Family = families.Baseline + v.Family
	old, gone := c.Registry.Lookup(v.Family)
	if info := c.Device.Info(); err == nil && gone == nil && v.Config == now.Base(p, info) {
		v.Config = old.Base(p, info)
	}
	return v
}

// prefetch announces the variants that a pair will ask for.
func (c *Compare) prefetch(p Pair) {
	vs := slices.Concat(p.Of[0], p.Of[1])
	if c.Baseline && len(p.Of[0]) == 1 {
		vs[0] = c.baseline(p.Problem, vs[0])
	}
	c.Device.Prefetch(p.Problem, append(vs, kernels.Variant{Family: c.Registry.StreamOf(p.Problem)}))
}

// Slower are the duels whose B the gate would fail.
func (m *Match) Slower() (slower []*Result) {
	for _, j := range m.Judged {
		if j.Gate == verdict.Slower {
			i := slices.IndexFunc(m.Duels, func(d *Result) bool { return d.Problem == j.Problem })
			slower = append(slower, m.Duels[i])
		}
	}
	return slower
}

// Confirm fights these duels again, on a device opened anew: a regression counts only where both
// runs agree. found is told of each.
func (c *Compare) Confirm(ctx context.Context, m *Match, slower []*Result,
	found func(*Second)) error {
	more := func(cell verdict.Cell) bool { return m.Rule.More(cell, len(slower)) }
	for _, d := range slower {
		again, err := c.duel(ctx, d.Duel, c.Seed+1, more)
		if err != nil {
			return err
		}
		j := verdict.Judge([]verdict.Cell{again.Cell()}, m.Rule)[0]
		if again.Status != kernels.StatusOK {
			j.Verdict, j.Gate = verdict.Inconclusive, verdict.Inconclusive
			j.Reason = string(again.Status) + ", " + again.Reason
		}
		m.Gate = append(m.Gate, Second{Problem: d.Problem, Confirmed: j.Verdict == verdict.Slower,
			Status: again.Status, Again: j})
		found(&m.Gate[len(m.Gate)-1])
	}
	return nil
}
