package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

// A CompareTask is a live compare, on a device that is open.
type CompareTask struct {
	Config      *OpenOptions
	Compare     *ab.Runner
	Refs        []*ref.Ref // A and B
	Pairs       []ab.Pair
	Rule        verdict.Rule
	Policy      ab.GatePolicy // with Gate, what is slower is measured again
	Out, Resume string
}

// RunLive runs a live compare and keeps it in its file. What it measured is there beside an error
// too, if there is some.
func (l *Lab) RunLive(c *CompareTask) (*report.LiveFile, error) {
	run, left, err := l.startLive(c)
	if err != nil {
		return nil, err
	}
	file, err := c.recordPlace(&run.Run)
	if err != nil {
		return nil, err
	}
	var tasks []sweep.Task
	for _, p := range left {
		tasks = append(tasks, sweep.Task{Problem: p.Problem, Variants: slices.Concat(p.Of[0], p.Of[1])})
	}
	step := l.Wait("measuring the first cell")
	defer step.End()
	if err := l.Prepare(c.Config, c.Compare.Device, tasks); err != nil {
		return nil, err
	}
	runs := run.Runs()
	if err := l.TestTimer(runs[len(runs)-1], c.Compare.Device); err != nil {
		return nil, err
	}
	return l.runPairs(c, run, file, left, step)
}

// startLive starts an experiment, or goes on with the one in a file, and says which pairs are left.
func (l *Lab) startLive(c *CompareTask) (run *report.LiveFile, left []ab.Pair, err error) {
	hash, err := families.Hash(l.Registry)
	if err != nil {
		return nil, nil, err
	}
	fresh := &report.LiveFile{Experiment: ab.Experiment{Schema: ab.Schema,
		Run: l.NewRun(c.Compare.Device.Info(), c.Compare.Protocol),
		A:   c.Refs[0].Text, B: c.Refs[1].Text, Rule: c.Rule, Kernels: hash, Among: l.Among,
		Policy: c.Policy}}
	if c.Resume == "" {
		return fresh, c.Pairs, nil
	}
	if run, err = report.ReadLive(c.Resume); err != nil {
		return nil, nil, err
	}
	if left, err = run.Resume(&fresh.Experiment, c.Pairs); err != nil {
		return nil, nil, hint.Errorf(hint.Of(err), "%s is of %w", c.Resume, err)
	}
	if run.Run.Device.UUID != fresh.Run.Device.UUID {
		l.Notef("%s is of another card of this model", c.Resume)
	}
	l.Notef("%d of %s are there already", len(c.Pairs)-len(left), console.Count(len(c.Pairs), "cell"))
	return run, left, nil
}

// recordPlace makes the place where a run is kept, "" for nowhere, and checks that it can be written.
func (c *CompareTask) recordPlace(run *record.Run) (durable.Place, error) {
	switch id := run.Device.ID; {
	case c.Resume != "":
		return durable.Place{Name: c.Resume}, record.CheckFolder(filepath.Dir(c.Resume), ".")
	case c.Out != "":
		return durable.Place{Root: c.Out, Name: filepath.Join(id, "compare-"+run.ID+".json")},
			record.CheckFolder(c.Out, id)
	}
	return durable.Place{}, nil
}

// runPairs measures the pairs that are left, and keeps the experiment in its file.
func (l *Lab) runPairs(c *CompareTask, run *report.LiveFile, file durable.Place, left []ab.Pair,
	step *console.StatusLine) (*report.LiveFile, error) {
	done, start, m := 0, time.Now(), c.Compare
	run.Asked = len(run.Duels) + len(left)
	m.Choose = l.Chooser(m.Device, m.Protocol)
	m.Finished = func(r *ab.DuelResult) error {
		done++
		step.Set("measuring")
		step.Reach(console.Amount{Done: done, Total: len(left), Unit: "cells"})
		l.Notef("[%d/%d] %s: %s", done, len(left), r.Problem, duelLine(r, run.Rule))
		run.Peers = l.TableNotes(c.Refs, run.Run.Device, run.Families())
		if file.Name == "" {
			return nil
		}
		l.Saved = file.String()
		return run.Write(file) // nothing that is measured is lost
	}
	broken := m.Run(l.Ctx, &run.Experiment, left, c.Pairs) // what ended the run early
	if broken != nil && len(run.Duels) == 0 {
		return nil, broken
	}
	again := ""
	if c.Policy.Gate && broken == nil {
		step.Set("measuring slower cells again")
		step.Reach(console.Amount{})
		if broken = l.confirm(c, run); broken != nil {
			again = ", but not all of the slower ones again"
		}
	}
	there := fmt.Sprintf("%d of %s measured%s", len(run.Duels), console.Count(len(c.Pairs), "cell"), again)
	switch took := time.Since(start).Seconds(); {
	case broken != nil && l.Ctx.Err() != nil:
		broken = Interruptedf("%s", there)
	case broken != nil:
		l.Notef("ended early: %s in %.1f s", there, took)
	default:
		l.Notef("%s in %.1f s", console.Count(len(left), "cell"), took)
	}
	if file.Name != "" {
		if err := run.Write(file); err != nil {
			return run, Exit(ExitTrouble, l.WithRecords(err))
		}
		l.Notef("wrote %s", file)
	}
	return run, broken
}

func duelLine(r *ab.DuelResult, rule verdict.Rule) string {
	if r.Status != kernels.StatusOK {
		return fmt.Sprintf("%s, %s", r.Status, r.Reason)
	}
	j := verdict.Judge([]verdict.PairedRounds{r.PairedRounds()}, rule)[0]
	return fmt.Sprintf("%s, %s in %s", j.Verdict, j.Speedup(), console.Count(j.Rounds, "round"))
}

// confirm compares the cells again that a gate would fail, on a device opened anew.
func (l *Lab) confirm(c *CompareTask, run *report.LiveFile) error {
	slower := run.SlowerDuels()
	if len(slower) == 0 {
		return nil
	}
	l.Notef("%s slower, measuring again in a fresh worker", console.Count(len(slower), "cell"))
	c.Compare.Device.Close()
	devices, err := l.Open(c.Config, c.Refs...)
	if err != nil {
		return err
	}
	Close(devices[1:])
	c.Compare.Device, c.Compare.Registry = devices[0], l.Registry
	var tasks []sweep.Task
	for _, d := range slower {
		tasks = append(tasks, sweep.Task{Problem: d.Problem, Variants: []kernels.Variant{d.A, d.B}})
	}
	if err := l.Prepare(c.Config, devices[0], tasks); err != nil {
		return err
	}
	return c.Compare.Confirm(l.Ctx, &run.Experiment, slower,
		func(s *ab.Confirmation) { l.Notef("%s: %s", s.Problem, s) })
}
