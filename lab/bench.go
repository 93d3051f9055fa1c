package lab

import (
	"context"
	"errors"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/tune/ref"
)

// A BenchTask says what to measure, on devices that are open.
type BenchTask struct {
	Config   *OpenOptions
	Devices  []kernels.Device
	Problems []kernels.Problem
	Refs     []*ref.Ref
	Protocol record.Protocol
	Seed     uint64
	All      bool   // every variant of a REF, not only the fastest
	Out      string // folder to record into; "" for none
}

// BenchResult is what was measured, as a table.
type BenchResult struct {
	*report.Table
	Records          []*record.Record
	Run              *record.Run
	Measured, Failed int
}

// Bench measures variants, with the time of each stage. What it measured before an error stands
// beside it.
func (l *Lab) Bench(c *BenchTask) (*BenchResult, error) {
	info := c.Devices[0].Info()
	tasks, err := l.benchTasks(c)
	if err != nil {
		return nil, err
	}
	sink, kept := &recordTee{}, "not kept without --out"
	if c.Out != "" {
		w, err := l.OpenWriter(c.Out, info.ID)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		sink.next, kept = w, "kept in "+w.Path()
	}
	run := l.NewRun(info, c.Protocol)
	if info.Kind == kernels.KindCUDA && !strings.HasPrefix(info.ID, replay.Prefix) {
		if run.FloorUS, err = sweep.Floor(l.Ctx, l.Registry, c.Devices[0]); err != nil {
			return nil, err
		}
	}
	total := 0
	for _, t := range tasks {
		total += len(t.Variants)
	}
	p := report.NewProgress(l.Console, "variants", total)
	sum, err := sweep.Run(l.Ctx, l.Registry, c.Devices, tasks, sink, sweep.RunOptions{
		Run: run, Seed: c.Seed, Observe: p.Observe,
	})
	p.End()
	var found *BenchResult
	if err == nil || len(sink.records) > 0 { // a run that ended early still has its rows
		l.Notes(report.RunNotes(sum, c.Devices))
		found = &BenchResult{report.BenchTable(sink.records, &run), sink.records, &run, sum.Measured, sum.Failed + sum.Refused}
		var families []string
		var problems []kernels.Problem
		for _, r := range sink.records {
			families, problems = append(families, r.Family), append(problems, r.Problem)
		}
		found.Notes = append(append(found.Notes, l.TableNotes(c.Refs, info, families)...),
			report.LadderNotes(info, problems)...)
	}
	if errors.Is(err, context.Canceled) && l.Ctx.Err() != nil {
		variants := 0
		for _, t := range tasks {
			variants += len(t.Variants)
		}
		return found, Interruptedf("%d of %s measured, %s", sum.Measured,
			console.Count(variants, "variant"), kept)
	}
	return found, l.WithRecords(err)
}

// benchTasks lays out a bench; of a REF that times several variants the fastest is chosen.
func (l *Lab) benchTasks(c *BenchTask) ([]sweep.Task, error) {
	dev := c.Devices[0]
	if err := l.PreparePeers(c.Config, dev, c.Refs, c.Problems); err != nil {
		return nil, err
	}
	fastest := l.chooser(dev, c.Protocol)
	if c.All {
		fastest = nil
	}
	tasks, err := l.Tasks(c.Problems, c.Refs, dev.Info(), fastest)
	if err != nil {
		return nil, err
	}
	return tasks, l.CheckUsed(tasks, dev.Info())
}

// A recordTee is a Sink that keeps records, and passes them on to another.
type recordTee struct {
	records []*record.Record
	next    sweep.RecordStore
}

func (m *recordTee) AppendAll(vs ...interface{ CheckValid() error }) error {
	for _, v := range vs {
		if r, ok := v.(*record.Record); ok {
			m.records = append(m.records, r)
		}
		if err := v.CheckValid(); err != nil {
			return err
		}
	}
	if m.next != nil {
		return m.next.AppendAll(vs...)
	}
	return nil
}

// Status knows no record, also if there is a next sink: bench measures again what it
// is asked for.
func (m *recordTee) Status(string) (kernels.Status, bool) { return "", false }
