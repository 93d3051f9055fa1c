package ab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
)

// A LiveCompare is a live compare, on a device that is open.
type LiveCompare struct {
	Runner       *Runner
	Experiment   *Experiment // as it is asked for, without a duel
	Pairs        []Pair
	Out, Resume  string         // a folder to write into, or the file to go on with; "" for neither
	Notes        []string       // that the experiment keeps beside its peers' versions
	Peers        []kernels.Peer // that are there
	DeviceOpener DeviceOpener

	place durable.Place // of the file; without a name for none
	saved bool
	step  *console.StatusLine
	done  int
	left  []Pair
}

// A DeviceOpener has the devices that a compare runs on.
type DeviceOpener interface {
	// Prepare has peers compile for tasks before anything is measured.
	Prepare(d kernels.Device, tasks []sweep.Task) error
	// TestTimer tests the timers of devices, and notes in the run what it found.
	TestTimer(run *record.Run, ds ...kernels.Device) error
	// Reopen opens the device anew, in a fresh worker, and has the registry with its peers.
	Reopen(d kernels.Device) (kernels.Device, *kernels.Registry, error)
}

// An InterruptedError says what was measured when ctx ended a compare.
type InterruptedError struct{ There string }

func (e *InterruptedError) Error() string { return "interrupted; " + e.There }

// A WriteError is of the file, once there is something in it to keep.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return e.Err.Error() }
func (e *WriteError) Unwrap() error { return e.Err }

// Saved returns the file with what was measured, "" for none.
func (t *LiveCompare) Saved() string {
	if !t.saved {
		return ""
	}
	return t.place.String()
}

// Run runs the compare, judges it and keeps it in its file, and tells the console how far it is. What was
// measured is there beside an error too, if there is some.
func (t *LiveCompare) Run(ctx context.Context, out *console.Console) (*Experiment, error) {
	if err := t.resume(out); err != nil {
		return nil, err
	}
	if err := t.choosePlace(); err != nil {
		return nil, err
	}
	var tasks []sweep.Task
	for _, p := range t.left {
		tasks = append(tasks, sweep.Task{Problem: p.Problem, Variants: slices.Concat(p.Of[0], p.Of[1])})
	}
	t.step = out.Wait("measuring the first cell")
	defer t.step.End()
	if err := t.DeviceOpener.Prepare(t.Runner.Device, tasks); err != nil {
		return nil, err
	}
	runs := t.Experiment.Runs()
	if err := t.DeviceOpener.TestTimer(runs[len(runs)-1], t.Runner.Device); err != nil {
		return nil, err
	}
	return t.measure(ctx, out)
}

// resume goes on with the experiment in a file, if there is one, and says which pairs are left.
func (t *LiveCompare) resume(out *console.Console) error {
	if t.left = t.Pairs; t.Resume == "" {
		return nil
	}
	fresh := t.Experiment
	run, err := Read(t.Resume)
	if err != nil {
		return err
	}
	if t.left, err = run.Resume(fresh, t.Pairs); err != nil {
		return hint.Errorf(hint.Of(err), "%s is of %w", t.Resume, err)
	}
	if run.Run.Device.UUID != fresh.Run.Device.UUID {
		out.Notef("%s is of another card of this model", t.Resume)
	}
	out.Notef("%d of %s are there already", len(t.Pairs)-len(t.left), console.Count(len(t.Pairs), "cell"))
	t.Experiment = run
	return nil
}

// choosePlace chooses the place where the experiment is kept, and checks that it can be written.
func (t *LiveCompare) choosePlace() error {
	run := &t.Experiment.Run
	switch id := run.Device.ID; {
	case t.Resume != "":
		t.place = durable.Place{Name: t.Resume}
		return record.CheckFolder(filepath.Dir(t.Resume), ".")
	case t.Out != "":
		t.place = durable.Place{Root: t.Out, Name: filepath.Join(id, "compare-"+run.ID+".json")}
		return record.CheckFolder(t.Out, id)
	}
	return nil
}

// measure runs the rounds of the pairs that are left. With a gate it then measures each pair whose B is slower
// again, on a device that is opened anew, so that a slow placement of code fails nobody. What there is gets
// written also if an error or a signal ends it early.
func (t *LiveCompare) measure(ctx context.Context, out *console.Console) (*Experiment, error) {
	start, run := time.Now(), t.Experiment
	run.Asked = len(run.Duels) + len(t.left)
	t.Runner.Finished = func(r *DuelResult) error { return t.keep(out, r) }
	broken := t.Runner.Run(ctx, run, t.left, t.Pairs) // what ended the run early
	if broken != nil && len(run.Duels) == 0 {
		return nil, broken
	}
	again := ""
	if run.Policy.Gate && broken == nil {
		t.step.Set("measuring slower cells again")
		t.step.Reach(console.Amount{})
		if broken = t.confirm(ctx, out); broken != nil {
			again = ", but not all of the slower ones again"
		}
	}
	there := fmt.Sprintf("%d of %s measured%s", len(run.Duels), console.Count(len(t.Pairs), "cell"), again)
	switch took := time.Since(start).Seconds(); {
	case broken != nil && ctx.Err() != nil:
		broken = &InterruptedError{there}
	case broken != nil:
		out.Notef("ended early: %s in %.1f s", there, took)
	default:
		out.Notef("%s in %.1f s", console.Count(len(t.left), "cell"), took)
	}
	if t.place.Name != "" {
		if err := run.Write(t.place); err != nil {
			return run, &WriteError{err}
		}
		out.Notef("wrote %s", t.place)
	}
	return run, broken
}

// keep tells of a duel, and writes the experiment with it: nothing that is measured is lost.
func (t *LiveCompare) keep(out *console.Console, r *DuelResult) error {
	t.done++
	t.step.Set("measuring")
	t.step.Reach(console.Amount{Done: t.done, Total: len(t.left), Unit: "cells"})
	out.Notef("[%d/%d] %s: %s", t.done, len(t.left), r.Problem, t.Experiment.verdictOf(r))
	t.Experiment.Peers = append(slices.Clone(t.Notes),
		append(PeerNotes(t.Peers, t.Experiment.Families(), t.Runner.Device), t.Runner.FastestChooser.Failures()...)...)
	if t.place.Name == "" {
		return nil
	}
	t.saved = true
	return t.Experiment.Write(t.place)
}

// verdictOf returns what is known of a duel, in a line.
func (m *Experiment) verdictOf(r *DuelResult) string {
	if r.Status != kernels.StatusOK {
		return fmt.Sprintf("%s, %s", r.Status, r.Reason)
	}
	for _, j := range m.Judged {
		if j.Problem == r.Problem {
			return fmt.Sprintf("%s, %s in %s", j.Verdict, j.Speedup(), console.Count(j.Rounds, "round"))
		}
	}
	return ""
}

// Families returns those of both arms, some more than once.
func (m *Experiment) Families() (names []string) {
	for _, d := range m.Duels {
		names = append(names, d.A.Family, d.B.Family)
	}
	return names
}

// confirm compares the cells again that a gate would fail, on a device opened anew.
func (t *LiveCompare) confirm(ctx context.Context, out *console.Console) error {
	slower := t.Experiment.SlowerDuels()
	if len(slower) == 0 {
		return nil
	}
	out.Notef("%s slower, measuring again in a fresh worker", console.Count(len(slower), "cell"))
	d, registry, err := t.DeviceOpener.Reopen(t.Runner.Device)
	if err != nil {
		return err
	}
	t.Runner.Device, t.Runner.Registry = d, registry
	var tasks []sweep.Task
	for _, d := range slower {
		tasks = append(tasks, sweep.Task{Problem: d.Problem, Variants: []kernels.Variant{d.A, d.B}})
	}
	if err := t.DeviceOpener.Prepare(d, tasks); err != nil {
		return err
	}
	return t.Runner.Confirm(ctx, t.Experiment, slower,
		func(s *Confirmation) { out.Notef("%s: %s", s.Problem, s) })
}
