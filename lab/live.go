package lab

import (
	"errors"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/tune/ref"
)

// Pairs returns the problems that both REFs have a variant for; with changed those of which it differs.
func (l *Lab) Pairs(refs []*ref.Ref, ps []kernels.Problem, info kernels.DeviceInfo, changed bool) ([]ab.Pair, error) {
	return ab.Pairs(l.Console, l.Operands(refs), ps, info, changed)
}

// RunLive has package ab run a live compare of two REFs on devices that were opened by c. Its experiment says what is
// asked for, and gets what is known of this call. What it measured is there beside an error too, if there is some.
func (l *Lab) RunLive(c *OpenOptions, refs []*ref.Ref, t *ab.LiveCompare) (*report.LiveFile, error) {
	hash, err := families.Hash(l.Registry)
	if err != nil {
		return nil, err
	}
	info, x := t.Runner.Device.Info(), t.Experiment
	part := x.Run.Shard
	x.Schema, x.Run, x.Kernels, x.Among = ab.Schema, l.NewRun(info, t.Runner.Protocol), hash, l.Among
	x.Run.Shard = part
	x.A, x.B = refs[0].Text, refs[1].Text
	t.Runner.FastestChooser = l.best
	t.Notes, t.Peers, t.DeviceOpener = l.TableNotes(refs, info, nil), l.peers, &compareSession{l, c, refs}
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
	config *OpenOptions
	refs   []*ref.Ref
}

func (s *compareSession) Prepare(d kernels.Device, tasks []sweep.Task) error {
	return s.Lab.Prepare(s.config, d, tasks)
}

func (s *compareSession) Reopen(d kernels.Device) (kernels.Device, *kernels.Registry, error) {
	d.Close()
	devices, err := s.Open(s.config, s.refs...)
	if err != nil {
		return nil, nil, err
	}
	Close(devices[1:])
	return devices[0], s.Registry, nil
}
