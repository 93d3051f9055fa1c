package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/tune/ref"
)

// A benchConfig is what the flags of bench ask for.
type benchConfig struct {
	stand
	all bool
	out string
}

func benchCommand() *command {
	cfg := &benchConfig{}
	cfg.first = func(*env) *report.Table { return report.BenchTable(nil, &record.Run{}) }
	c := &command{
		common: &cfg.common,
		path:   "bench",
		usage:  "measure given variants, with the time of each stage",
		args:   "REF...",
		about:  ref.RunHelp + ". Knobs that a label leaves out take the family's base value.",
		examples: `bench base rms_bwd/two_pass@br2 --op rmsnorm --pass bwd --shapes 64x1024
bench base peer:best --device cuda --shapes growth-rows --out out/growth`,
		exits:  []int{exitGate, exitUnfit, exitSignal},
		offers: refNames,
		run:    func(e *env) error { return bench(e, cfg) },
	}
	c.addStand(&cfg.stand)
	c.addTiming(&cfg.timing)
	c.addPeers(&cfg.Config)
	c.add(catWhat, "all-candidates", &cfg.all, "measure every variant of a REF that times several "+
		"(an autotuned preset, peer:best), not only the fastest")
	c.add(catOutput, "out", &cfg.out, "`FOLDER` to record into").or("none")
	return c
}

func bench(e *env, cfg *benchConfig) error {
	if len(cfg.operands) == 0 {
		return hint.Errorf("`normbench bench base --shapes 4096x8192 --op rmsnorm`, for one",
			"bench needs a REF")
	}
	refs, err := e.ParseAll(cfg.operands...)
	if err != nil {
		return err
	}
	if err := cfg.open(e, false, refs...); err != nil {
		return err
	}
	devices, info, pr := cfg.devices, cfg.info, cfg.protocol(cfg.info)
	defer lab.Close(devices)
	if err := e.PreparePeers(&cfg.Config, devices[0], refs, cfg.problems); err != nil {
		return err
	}
	fastest := e.Chooser(devices[0], pr)
	if cfg.all {
		fastest = nil
	}
	tasks, err := e.Tasks(cfg.problems, refs, info, fastest)
	if err == nil {
		err = e.CheckUsed(tasks, info)
	}
	if err != nil {
		return err
	}
	sink, kept := &memory{}, "not kept without --out"
	if dir := cfg.out; dir != "" {
		if err := lab.CheckRecording(devices[0], dir); err != nil {
			return err
		}
		w, err := e.openWriter(dir, info.ID)
		if err != nil {
			return err
		}
		defer w.Close()
		sink.next, kept = w, "kept in "+w.Path()
	}
	run := newRun(e, info, pr)
	if info.Kind == kernels.KindCUDA && !strings.HasPrefix(info.ID, replay.Prefix) {
		if run.FloorUS, err = sweep.Floor(e.Ctx, e.Registry, devices[0]); err != nil {
			return err
		}
	}
	p := report.NewProgress(e.Err, "variants")
	sum, err := sweep.Run(e.Ctx, e.Registry, devices, tasks, sink, sweep.Options{
		Run: run, Seed: cfg.seed, Trace: true, Observe: p.Observe,
	})
	p.Clear()
	if err == nil || len(sink.records) > 0 { // a run that ended early still has its rows
		e.Notes(report.RunNotes(sum, 0, devices))
		t := report.BenchTable(sink.records, &run)
		var measured []string
		for _, r := range sink.records {
			measured = append(measured, r.Family)
		}
		t.Notes = append(append(t.Notes, e.TableNotes(refs, info, measured)...), report.LadderNotes(devices[0].Info())...)
		err = cmp.Or(err, report.RenderTable(e.out, t, cfg.format))
	}
	switch {
	case errors.Is(err, context.Canceled) && e.Ctx.Err() != nil:
		return errInterrupted("%d of %s measured, %s", sum.Measured,
			console.Count(lab.CountVariants(tasks), "variant"), kept)
	case err != nil:
		return e.late(err)
	case sum.Failed+sum.Refused > 0:
		help := "the table's last column has the reason of each; `normbench verify` names the " +
			"outputs that are wrong"
		return &exitError{exitGate, hint.Errorf(help, "%d of %d variants failed",
			sum.Failed+sum.Refused, sum.Measured)}
	}
	return nil
}

// memory is a Sink that keeps records, and passes them on to another.
type memory struct {
	records []*record.Record
	next    sweep.Sink
}

func (m *memory) AppendAll(vs ...interface{ CheckValid() error }) error {
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
func (m *memory) Status(string) (kernels.Status, bool) { return "", false }
