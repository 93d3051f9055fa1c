package lab

import (
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
)

// ExplainMeasured measures what a tuned table, or with the empty name the program's own map, picks for the
// one problem of a bench, and says why it takes its time.
func (l *Lab) ExplainMeasured(name, family string, c *BenchTask) (*report.Table, error) {
	info, p := c.Devices[0].Info(), c.Problems[0]
	t, err := l.ReadTuned(name, family, info)
	if err != nil {
		return nil, err
	}
	_, match, why := t.Answer(p)
	b, err := l.Bench(c)
	if err != nil {
		return nil, err
	}
	for _, r := range b.Records {
		if r.Family == record.Stream {
			continue
		}
		if r.Status != kernels.StatusOK {
			return nil, Exit(ExitGate, hint.Errorf("`normbench verify "+r.Family+"` says more", "%s: %s is %s: %s",
				p, r.Variant(), r.Status, r.Reason))
		}
		_, _, plan, err := l.Registry.Resolve(p, r.Variant(), info)
		if err != nil {
			return nil, err
		}
		table := report.MeasuredTable(r, b.Run, plan, match+": "+why)
		return table, nil
	}
	return nil, sweep.NewNoProblemError(p.String())
}
