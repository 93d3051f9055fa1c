package ab

import (
	"context"
	"slices"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// A Runner runs the duels of an experiment on one device.
type Runner struct {
	Registry *kernels.Registry
	Device   kernels.Device
	Protocol record.Protocol // Samples are the launches kept per visit; their median is its time
	// of the inputs, and with the problem of the orders: package verdict's error rates rest on these
	Seed           uint64
	Baseline       bool            // A's kernels are those of another checkout
	FastestChooser *FastestChooser // settles pairs of several variants
	// Finished is told of each duel that is done, once the experiment is judged with it. Its error ends
	// the experiment.
	Finished func(*DuelResult) error
}

// Run measures the pairs that are left of all, and adds them to the experiment. What is measured when it
// ends early stays in the experiment.
func (c *Runner) Run(ctx context.Context, m *Experiment, left, all []Pair) error {
	more := func(cell verdict.PairedRounds) bool { return m.Rule.NeedsMore(cell, len(all)) }
	if len(left) == 0 {
		m.add(all)
	}
	for i, p := range left {
		if i+1 < len(left) {
			c.prefetch(left[i+1])
		}
		d, err := c.settle(ctx, p)
		if err != nil {
			return err
		}
		res, err := c.duel(ctx, d, c.Seed, more)
		if err != nil {
			return err
		}
		res.Peers = c.FastestChooser.peersAt(p.Problem)
		m.add(all, res)
		if err := c.Finished(res); err != nil {
			return err
		}
	}
	return nil
}

// settle makes a duel of a pair.
func (c *Runner) settle(ctx context.Context, p Pair) (d Duel, err error) {
	d.Problem = p.Problem
	for i, v := range []*kernels.Variant{&d.A, &d.B} {
		s := &sweep.Session{Device: c.Device, Registry: c.Registry, Problem: p.Problem, Protocol: c.Protocol,
			Seed: ChooseSeed}
		if *v, err = c.FastestChooser.Choose(ctx, s, p.Of[i]); err != nil {
			return d, err
		}
	}
	if c.Baseline {
		d.A = c.baseline(p.Problem, d.A)
	}
	return d, nil
}

// baseline returns v with the baseline's kernels. The base config is the baseline's own. Of another the knobs count that
// the baseline has: an earlier manifest may have others.
func (c *Runner) baseline(p kernels.Problem, v kernels.Variant) kernels.Variant {
	now, err := c.Registry.Lookup(v.Family)
	v.Family = families.Baseline + v.Family
	old, gone := c.Registry.Lookup(v.Family)
	if err != nil || gone != nil {
		return v
	}
	info := c.Device.Info()
	base := old.Base(p, info)
	if v.Config != now.Base(p, info) {
		base = base.With(old.KnownSettings(v.Config)...)
	}
	v.Config = base
	return v
}

// refusal says why the baseline's kernels cannot run a duel, before anything of it is compiled or launched.
func (c *Runner) refusal(d Duel) error {
	if !c.Baseline {
		return nil
	}
	_, _, _, err := c.Registry.Resolve(d.Problem, d.A, c.Device.Info())
	return err
}

// prefetch announces the variants that a pair will ask for.
func (c *Runner) prefetch(p Pair) {
	vs := slices.Concat(p.Of[0], p.Of[1])
	if c.Baseline && len(p.Of[0]) == 1 {
		vs[0] = c.baseline(p.Problem, vs[0])
		if c.refusal(Duel{Problem: p.Problem, A: vs[0]}) != nil {
			return
		}
	}
	c.Device.Prefetch(p.Problem, append(vs, kernels.Variant{Family: c.Registry.StreamOf(p.Problem)}))
}

// SlowerDuels lists the duels whose B the gate would fail.
func (m *Experiment) SlowerDuels() (slower []*DuelResult) {
	for _, j := range m.Judged {
		if j.Gate == verdict.Slower {
			i := slices.IndexFunc(m.Duels, func(d *DuelResult) bool { return d.Problem == j.Problem })
			slower = append(slower, m.Duels[i])
		}
	}
	return slower
}

// Confirm runs these duels again, on a device opened anew: a regression counts only where both
// runs agree. found is told of each.
func (c *Runner) Confirm(ctx context.Context, m *Experiment, slower []*DuelResult,
	found func(*Confirmation)) error {
	more := func(cell verdict.PairedRounds) bool { return m.Rule.NeedsMore(cell, len(slower)) }
	for _, d := range slower {
		again, err := c.duel(ctx, d.Duel, c.Seed+1, more)
		if err != nil {
			return err
		}
		j := verdict.Judge([]verdict.PairedRounds{again.PairedRounds()}, m.Rule)[0]
		if again.Status != kernels.StatusOK {
			j.Verdict, j.Gate = verdict.Inconclusive, verdict.Inconclusive
			j.Reason = string(again.Status) + ", " + again.Reason
		}
		m.Gate = append(m.Gate, Confirmation{Problem: d.Problem, Confirmed: j.Verdict == verdict.Slower,
			Status: again.Status, Again: j})
		found(&m.Gate[len(m.Gate)-1])
	}
	return nil
}
