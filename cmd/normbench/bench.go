package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/sweep/stats"
	"normbench/tune/ref"
)

// A benchConfig is what the flags of bench ask for.
type benchConfig struct {
	stand
	all bool
	out string
}

func benchCommand(e *env) *cli.Command {
	cfg := &benchConfig{}
	cfg.first = func() *report.Table {
		if cfg.plans() {
			return nil
		}
		return benchTable(nil, &record.Run{})
	}
	return e.command(&cli.Command{
		Name:        "bench",
		Usage:       "measure given variants, with the time of each stage",
		ArgsUsage:   "REF...",
		Description: ref.RunHelp + ".\nKnobs that a label leaves out take the family's base value.",
		Flags: slices.Concat(cfg.flags(), cfg.timing.flags(), cfg.peerFlags(), []cli.Flag{
			&cli.BoolFlag{Destination: &cfg.all, Name: "all-candidates", Category: catWhat, Usage: "measure every variant of a REF that times several (an autotuned preset, peer:best), not only the fastest"},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput, Usage: "`FOLDER` to record into (default: none)"},
		}),
	}, &cfg.common, func() error { return bench(e, cfg) })
}

func bench(e *env, cfg *benchConfig) error {
	texts := cfg.operands
	if len(texts) == 0 {
		texts = []string{"base"}
	}
	refs, err := e.ParseAll(texts...)
	if err != nil {
		return err
	}
	if err := cfg.open(e, false, refs...); err != nil {
		return err
	}
	devices, info, pr := cfg.devices, cfg.info, cfg.protocol(cfg.info)
	defer lab.Close(devices)
	if cfg.plans() {
		return benchPlan(e, cfg, refs, pr)
	}
	if err := e.PreparePeers(&cfg.Config, devices[0], refs, cfg.problems); err != nil {
		return err
	}
	fastest := e.Chooser(devices[0], pr)
	if cfg.all {
		fastest = nil
	}
	tasks, err := e.Tasks(cfg.problems, refs, info, e.Variants, fastest)
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
		summarize(e, sum, 0, devices)
		t := benchTable(sink.records, &run)
		var measured []string
		for _, r := range sink.records {
			measured = append(measured, r.Family)
		}
		t.Notes = append(append(t.Notes, e.TableNotes(refs, info, measured)...), report.LadderNotes(devices[0].Info())...)
		err = cmp.Or(err, report.RenderTable(e.out, t, cfg.format))
	}
	switch {
	case errors.Is(err, context.Canceled) && e.Ctx.Err() != nil:
		variants := 0
		for _, t := range tasks {
			variants += len(t.Variants)
		}
		return interrupted("%d of %s measured, %s", sum.Measured, console.Count(variants, "variant"), kept)
	case err != nil:
		return e.late(err)
	case sum.Failed+sum.Refused > 0:
		return &coded{exitGate, hint.Errorf("the table's last column has the reason of each; `normbench verify` names the outputs that are wrong", "%d of %d variants failed", sum.Failed+sum.Refused, sum.Measured)}
	}
	return nil
}

// plans says whether a bench was told nothing, and so only says what it would measure.
func (cfg *benchConfig) plans() bool {
	var s shapes.Selection
	return len(cfg.operands) == 0 && !slices.ContainsFunc(names(append(shapeFlags(&s, ""), optionFlags(&s)...)),
		func(name string) bool { return cfg.given[name] })
}

// benchPlan says what a bench that was told nothing would measure, and how to choose.
func benchPlan(e *env, cfg *benchConfig, refs []*ref.Ref, pr record.Protocol) error {
	info := cfg.info
	tasks, err := e.Tasks(cfg.problems, refs, info, e.Variants, nil)
	if err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("bench base would time the base of %s on %s: group %s, %d %s samples each", console.Count(len(tasks), "problem"), info.Name, group(info), pr.Samples, pr.Name),
		"op", "pass", ">problems", ">smallest", ">largest")
	for _, task := range tasks {
		p := task.Problem
		shape, i := fmt.Sprintf("%dx%d", p.M, p.N), len(t.Rows)-1
		if i < 0 || t.Rows[i][0] != string(p.Op) || t.Rows[i][1] != string(p.Pass) {
			t.Rows = append(t.Rows, []string{string(p.Op), string(p.Pass), "0", shape, shape})
			i++
		}
		n, _ := strconv.Atoi(t.Rows[i][2])
		t.Rows[i][2] = strconv.Itoa(n + 1)
		for column, sign := range map[int]int64{3: 1, 4: -1} {
			var m, n int64
			fmt.Sscanf(t.Rows[i][column], "%dx%d", &m, &n)
			if sign*(p.M*p.N) < sign*m*n {
				t.Rows[i][column] = shape
			}
		}
	}
	t.Notes = []string{"`normbench bench base` runs it. Choose with REFs and --shapes, --op, --pass and --dtype:",
		"  normbench bench base --shapes 4096x8192 --op rmsnorm --pass bwd"}
	return report.RenderTable(e.out, t, cfg.format)
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

// A benchRow is a record with what a table says of its samples.
type benchRow struct {
	*record.Record
	value  report.Value
	spread any // in percent
}

func benchTable(records []*record.Record, run *record.Run) *report.Table {
	title := fmt.Sprintf("median of %d %s samples; GB/s of compulsory bytes", run.Protocol.Samples, run.Protocol.Name)
	stages := []string{}
	var rows []benchRow
	var notes []string
	how := map[string]string{
		kernels.ByCUPTI:  "stages with a gap are by CUPTI: each kernel alone, without its launch",
		kernels.ByEvents: "stages without a gap are by events between launches: each includes the cost of its launch",
	}
	for _, r := range records {
		row := benchRow{Record: r}
		cell := report.Cell{Variant: r.Variant(), Status: r.Status, Reason: r.Reason, StreamUS: r.StreamUS}
		if r.Status == kernels.StatusOK {
			s := stats.Summarize(r.SamplesUS)
			cell.MedianUS, cell.Lo, cell.Hi, row.spread = s.Median, s.Lo, s.Hi, 100*s.Spread
		}
		row.value = report.ValueOf(cell, r.Bytes)
		rows = append(rows, row)
		if n := how[r.StagesBy]; n != "" && !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
		for _, s := range r.Stages {
			if !slices.Contains(stages, s.Stage) {
				stages = append(stages, s.Stage)
			}
		}
	}
	if len(records) == 0 { // the stages are not known yet
		stages = []string{"*"}
	}
	t := report.NewTable(strings.Join(append([]string{title}, report.Timer(run)...), "\n"), rows, benchColumns(stages))
	t.Notes, t.Group = notes, report.ByProblem
	t.Drop = []string{"spill B", "spread %", "GB/s", "CTAs/SM", "regs", "stages us"}
	return t
}

// benchColumns have one for each stage, behind those that are always there.
func benchColumns(stages []string) []report.Column[benchRow] {
	type column = report.Column[benchRow]
	kernel := func(head, name string, of func(*kernels.Resource) any) column {
		return column{Head: head, Name: name, Value: func(r benchRow) any {
			if k := r.Check.Main(); k != nil && r.Status == kernels.StatusOK {
				return of(k)
			}
			return nil
		}}
	}
	value := func(names ...string) []column {
		return report.ValueColumns(func(r benchRow) report.Value { return r.value }, "", "", names...)
	}
	spread := func(r benchRow) any { return r.spread }
	list := report.ProblemColumns(func(r benchRow) (kernels.Problem, int64) { return r.Problem, r.Bytes }, "problem")
	variant, us, speeds := value("variant", "status"), value("us", "lo_us", "hi_us"), value("gbps", "stream_percent")
	variant[0].Head = "variant"
	us[0].Head, us[0].Means = "us", "median with its 95% interval"
	us[0].Text = func(r benchRow) string { return report.Interval(r.value.US, r.value.LoUS, r.value.HiUS) }
	speeds[0].Head, speeds[0].Text = "GB/s", func(r benchRow) string { return report.Whole(r.value.GBps) }
	speeds[1].Head, speeds[1].Means = "%stream", "time of a copy of the same tensors over the kernel's"
	speeds[1].Text = func(r benchRow) string { return report.Whole(r.value.StreamPercent) }
	list = append(slices.Concat(list, variant, us, []column{{Head: "spread %", Value: spread, Format: "%.1f"}}, speeds),
		column{Name: "spread_percent", Value: spread},
		column{Head: "stages us", Text: func(r benchRow) string { return stageText(r.Record) }},
		kernel("regs", "regs", func(k *kernels.Resource) any { return k.Registers }),
		kernel("spill B", "spill_bytes", func(k *kernels.Resource) any { return k.Spill }),
		kernel("CTAs/SM", "ctas_per_sm", func(k *kernels.Resource) any { return k.Occupancy }),
		column{Head: "status", Name: "reason", Value: func(r benchRow) any { return r.Reason }, Text: func(r benchRow) string {
			if r.Status != kernels.StatusOK {
				return string(r.Status) + ": " + r.Reason
			}
			return "ok"
		}},
		column{Name: "stages_by", Value: func(r benchRow) any { return r.StagesBy }},
		column{Name: "gap_us", Value: func(r benchRow) any {
			if r.StagesBy != kernels.ByCUPTI {
				return nil
			}
			return r.GapUS
		}})
	for _, name := range stages {
		list = append(list, column{Name: "stage_" + name + "_us", Value: func(r benchRow) any {
			if i := slices.IndexFunc(r.Stages, func(s record.Stage) bool { return s.Stage == name }); i >= 0 {
				return stats.Median(r.Stages[i].SamplesUS)
			}
			return nil
		}})
	}
	return list
}

// stageText is the median of each stage with its share, and the time between
// them where it is known: "k1 56.9 (93%), k2 3.9 (6%), gap 0.6".
func stageText(r *record.Record) string {
	var parts []string
	total := r.GapUS
	for _, s := range r.Stages {
		total += stats.Median(s.SamplesUS)
	}
	for _, s := range r.Stages {
		m := stats.Median(s.SamplesUS)
		parts = append(parts, fmt.Sprintf("%s %.1f (%.0f%%)", s.Stage, m, 100*m/total))
	}
	if r.StagesBy == kernels.ByCUPTI {
		parts = append(parts, fmt.Sprintf("gap %.1f", r.GapUS))
	}
	return strings.Join(parts, ", ")
}
