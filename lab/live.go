package lab

import (
	"errors"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

// A CompareTask is a live compare, on a device that is open.
type CompareTask struct {
	Config      *OpenOptions
	Runner      *ab.Runner
	Refs        []*ref.Ref // A and B
	Pairs       []ab.Pair
	Rule        verdict.Rule
	Policy      ab.GatePolicy // with Gate, what is slower is measured again
	Out, Resume string
}

// Pairs returns the problems that both REFs have a variant for; with changed those of which it differs.
func (l *Lab) Pairs(refs []*ref.Ref, ps []kernels.Problem, info kernels.DeviceInfo, changed bool) ([]ab.Pair, error) {
	return ab.Pairs(l.Console, l.operands(refs), ps, info, changed)
}

// RunLive has package ab run a live compare on this lab's devices. What it measured is there beside an error
// too, if there is some.
func (l *Lab) RunLive(c *CompareTask) (*report.LiveFile, error) {
	hash, err := families.Hash(l.Registry)
	if err != nil {
		return nil, err
	}
	info := c.Runner.Device.Info()
	c.Runner.FastestChooser = l.best
	t := &ab.LiveCompare{Runner: c.Runner, Pairs: c.Pairs, Out: c.Out, Resume: c.Resume,
		Experiment: &ab.Experiment{Schema: ab.Schema, Run: l.NewRun(info, c.Runner.Protocol),
			A: c.Refs[0].Text, B: c.Refs[1].Text, Rule: c.Rule, Kernels: hash, Among: l.Among, Policy: c.Policy},
		Notes: l.TableNotes(c.Refs, info, nil), Peers: l.peers, DeviceOpener: &compareSession{l, c}}
	run, err := t.Run(l.Ctx, l.Console)
	if saved := t.Saved(); saved != "" {
		l.Saved = saved
	}
	interrupted, unwritten := new(ab.InterruptedError), new(ab.WriteError)
	switch {
	case errors.As(err, &interrupted):
		err = Interruptedf("%s", interrupted.There)
	case errors.As(err, &unwritten):
		err = Exit(ExitTrouble, l.WithRecords(unwritten.Err))
	}
	if run == nil {
		return nil, err
	}
	return &report.LiveFile{Experiment: *run}, err
}

// A compareSession has the lab's devices for a compare.
type compareSession struct {
	*Lab
	task *CompareTask
}

func (s *compareSession) Prepare(d kernels.Device, tasks []sweep.Task) error {
	return s.Lab.Prepare(s.task.Config, d, tasks)
}

func (s *compareSession) Reopen(d kernels.Device) (kernels.Device, *kernels.Registry, error) {
	d.Close()
	devices, err := s.Open(s.task.Config, s.task.Refs...)
	if err != nil {
		return nil, nil, err
	}
	Close(devices[1:])
	return devices[0], s.Registry, nil
}
