package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/replay"
	"normbench/kernels/rule"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/learn"
	"normbench/tune/ref"
)

func priorFlag(to *string, value string) cli.Flag {
	return &cli.StringFlag{Destination: to, Name: "prior", Usage: "answer where nothing was measured: auto (this program's default), none (the analytic base), or the map of a tuned `FILE`", Value: value}
}

// judgeFile is what learn --judge writes beside the map.
const judgeFile = "judged.json"

// A learnConfig is what the flags of learn ask for.
type learnConfig struct {
	stand
	budget             time.Duration
	judge              int
	bounds, prior, out string
}

func learnCommand(e *env) *cli.Command {
	cfg := &learnConfig{}
	cfg.first = cfg.firstMap
	return e.command(&cli.Command{
		Name:  "learn",
		Usage: "fill a device's map of launch answers by measurement, within a budget of time",
		Description: "Measures problems that are drawn from the domain. On each it runs configs that do well nearby and a few\n" +
			"others. Writes the map of OUT/<device>/tuned.json (the sweep's entries stay), the records, and learn.svg, a picture\n" +
			"of the map. The same command resumes. `normbench tune OUT/<device>` fills the same map from the records. --judge searches fresh\n" +
			"problems in full and says how far behind the map's answers are.",
		Flags: slices.Concat([]cli.Flag{
			&cli.DurationFlag{Destination: &cfg.budget, Name: "budget", Usage: "wall `TIME` in all, such as 8m, including compiling and earlier runs into the folder", Value: 20 * time.Minute,
				Action: positive("budget", "give a time such as 8m")},
			&cli.IntFlag{Destination: &cfg.judge, Name: "judge", Usage: "after the budget, search `N` fresh problems in full and compare with the map; 60 take about 10 minutes",
				Action: within("judge", 0, 10_000, "60 problems are enough for a mean")},
			&cli.StringFlag{Destination: &cfg.bounds, Name: "domain", Usage: "`BOUNDS` on rows, columns and elements", DefaultText: "M=1:1Mi,N=64:64Ki,MN=256Mi"},
			priorFlag(&cfg.prior, "auto"),
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput, Usage: "`FOLDER` for results", Value: "results"},
			cfg.htmlFlag(),
		}, slices.DeleteFunc(cfg.flags(), func(f cli.Flag) bool { return f.Names()[0] == "shapes" })),
	}, &cfg.common, func() error { return runLearn(e, cfg) })
}

func runLearn(e *env, cfg *learnConfig) error {
	domain := shapes.Everything
	if cfg.bounds != "" {
		var err error
		if domain, err = shapes.ParseDomain(cfg.bounds); err != nil {
			return err
		}
	}
	classes, err := cfg.Of(shapes.Shape{M: 1, N: 1})
	if err != nil {
		return err
	}
	if _, err := priorStep(cfg.prior, kernels.DeviceInfo{}); err != nil { // before a device is opened
		return err
	}
	devices, err := e.Open(cfg.config(&cfg.common, "cold"))
	if err != nil {
		return err
	}
	defer lab.Close(devices)
	info := devices[0].Info()
	if info.Kind == kernels.KindCPU && !slices.ContainsFunc(e.Users, func(f *kernels.Family) bool { return len(f.Host) > 0 }) {
		if err := e.Unused(errors.New("none of its families has a host stage, so none runs on a cpu")); err != nil {
			return err
		}
	}
	p, err := policy(e, cfg.prior, info, domain, classes)
	if err != nil {
		return err
	}
	if d, ok := devices[0].(*replay.Device); ok {
		p.Only = d.Problems()
	}
	dir := filepath.Join(cfg.out, info.ID)
	data, took, err := p.Resume(dir)
	if err != nil {
		return err
	}
	if err := checkResults(cfg.out, info.ID, tune.FileName, "learn.svg"); err != nil {
		return err
	}
	w, err := e.openWriter(cfg.out, info.ID)
	if err != nil {
		return err
	}
	defer w.Close()
	out := durable.Place{Root: cfg.out, Name: filepath.Join(info.ID, tune.FileName)}
	old, _ := tune.Read(out.String()) // the first has none
	if len(data.Points) > 0 {
		e.Notef("%s of earlier runs, which took %s of the budget", console.Count(len(data.Points), "problem"), took.Round(time.Second))
	}
	n := 20
	if info.Kind == kernels.KindCPU {
		n = 7
	}
	run := newRun(e, info, sweep.ColdProtocol(info, n))
	if err := testTimer(e, devices[0], &run); err != nil {
		return err
	}
	if p.Prior != nil {
		e.Notef("the prior is %s", p.Prior.Step)
	}
	loop := &learn.Loop{Policy: *p, Registry: e.Registry, Devices: devices, Sink: w, Run: run, Seed: cfg.seed, Rounds: 8,
		Now: time.Now, Budget: cfg.budget, Spent: took, Deadline: true, Data: data}
	var lost error      // what could not be written
	var shown *rule.Map // the last one
	begun := time.Now()
	loop.Checkpoint = func(m *rule.Map) error {
		shown = m
		p.Describe(m, data)
		lost = e.late(p.Write(out, old, m))
		return lost
	}
	waiting := e.Wait("compiling and measuring the first problems")
	loop.Progress = func(spent time.Duration, problems int) {
		e.Notef("[%s of %s] %s; %s left", spent.Round(time.Second), cfg.budget, console.Count(problems, "problem"),
			max(cfg.budget-spent, 0).Round(time.Second))
		waiting.Set("measuring")
	}
	m, err := loop.Learn(e.Ctx)
	waiting.End()
	e.Notes(report.RunNotes(loop.Summary, 0, devices))
	if lost != nil { // the map is printed all the same
		return cmp.Or(showMap(e, shown, data, &common{format: cfg.format}), lost)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) && e.Ctx.Err() != nil {
			there := "no map yet"
			if shown != nil {
				there = out.String() + " has the last whole map"
			}
			return interrupted("%s kept in %s, the same command goes on from there; %s", console.Count(loop.Summary.Problems, "problem"), w.Path(), there)
		}
		return err
	}
	e.Notef("%s in %.0f s; %s", console.Count(len(data.Points), "problem"), time.Since(begun).Seconds(), loop.Why)
	if err := w.Close(); err != nil {
		return err
	}
	lost = e.late(record.Pack(out.In(record.FileName)))
	if lost == nil {
		e.saved += ".gz"
	}
	e.Notef("wrote the map of %s", out)
	tellChange(e, p.Filler, old, m)
	lost = cmp.Or(lost, e.late(e.write(out.In("learn.svg"), learn.Plot(m, data.Points, info))))
	spent := report.Fact{Name: "budget", Value: fmt.Sprintf("%s, of which %s were spent", cfg.budget, (took + time.Since(begun)).Round(time.Second))}
	if err := showMap(e, m, data, &cfg.common, spent); err != nil || cfg.judge == 0 {
		return cmp.Or(err, lost)
	}
	waiting = e.Wait("judge: searching")
	j, err := learn.Judge(e.Ctx, loop, m, cfg.judge, func(s string) { waiting.Set("judge: %s", s) })
	waiting.End()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	lost = cmp.Or(lost, e.late(e.write(out.In(judgeFile), text)))
	if cfg.format == "json" {
		return lost
	}
	fmt.Fprintln(e.out)
	return cmp.Or(report.RenderTable(e.out, judgedTable(j), cfg.format), lost)
}

// judgedTable is a judgement, the worst problems first.
func judgedTable(j *learn.Judgement) *report.Table {
	t := report.New(fmt.Sprintf("the map against a full search of %s that it had not seen", console.Count(len(j.Problems), "problem")),
		"problem", ">map", ">found", ">regret", ">95%", "the map's", "found")
	t.Drop = []string{"the map's", "found", "95%"}
	list := slices.Clone(j.Problems)
	slices.SortStableFunc(list, func(a, b learn.Judged) int {
		if a.Regret > b.Regret {
			return -1
		}
		return 1
	})
	for _, x := range list {
		t.Rows = append(t.Rows, []string{x.Problem.String(), fmt.Sprintf("%.2f us", x.PickUS), fmt.Sprintf("%.2f us", x.FoundUS), fmt.Sprintf("%.1f%%", x.Regret),
			fmt.Sprintf("%.1f to %.1f%%", x.Interval[0], x.Interval[1]), x.Pick.String(), x.Found.String()})
	}
	t.Notes = append(t.Notes, fmt.Sprintf("regret: mean %.1f%% (95%% %.1f to %.1f, by shape), 95th percentile %.1f%%, worst %.1f%%",
		j.Mean, j.Interval[0], j.Interval[1], j.P95, j.Worst))
	if j.MeanAboveFloor != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("above the %.2f us of an empty launch: mean %.1f%%", j.FloorUS, *j.MeanAboveFloor))
	}
	if j.Failed > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%s without a time left out", console.Count(j.Failed, "problem")))
	}
	return t
}

// prior is the step whose map answers where nothing was measured: that of a file, of the program
// for a device, or none.
func priorStep(text string, info kernels.DeviceInfo) (rule.Step, error) {
	switch text {
	case "none":
		return rule.Step{}, nil
	case "auto":
		return families.Step(info), nil
	}
	t, err := ref.Read(text)
	switch {
	case err != nil:
		return rule.Step{}, err
	case t.Map == nil:
		return rule.Step{}, hint.Errorf("`normbench learn` and `normbench tune` write maps", "--prior %s has no map", text)
	case info.ID == "":
		return rule.Step{}, nil
	}
	return ref.Step("--prior "+text, t.Map, &info)
}

// policy is what a loop knows before it measures anything.
func policy(e *env, prior string, info kernels.DeviceInfo, domain shapes.Domain, classes []kernels.Problem) (*learn.Policy, error) {
	step, err := priorStep(prior, info)
	if err != nil {
		return nil, err
	}
	return learn.NewPolicy(e.Registry, step, info, domain, classes)
}
