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

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/replay"
	"normbench/kernels/rule"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/learn"
	"normbench/tune/ref"
)

func (c *command) addPrior(to *string) {
	c.add(catHow, "prior", to, "answer where nothing was measured: auto (this program's default), "+
		"none (the analytic base), or the map of a tuned `FILE`").offering("auto", "none")
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

func learnCommand() *command {
	cfg := &learnConfig{budget: 20 * time.Minute, prior: "auto", out: "results"}
	cfg.first = cfg.firstMap
	c := &command{
		common: &cfg.common,
		path:   "learn",
		usage:  "fill a device's map of launch answers by measurement, within a budget of time",
		about: `Measures problems that are drawn from the domain. On each it runs configs that do well
nearby and a few others. Writes the map of OUT/<device>/tuned.json (the sweep's entries stay), the
records, and learn.svg, a picture of the map. The same command resumes. ` +
			"`normbench tune OUT/<device>`" + ` fills the same map from the records. --judge searches
fresh problems in full and says how far behind the map's answers are.`,
		examples: `learn --device cuda --budget 20m --op rmsnorm,layernorm --pass fwd,bwd
learn --device cpu --budget 30s --domain M=1:256,N=64:1Ki --op rmsnorm --pass fwd --out out`,
		exits: []int{exitUnfit, exitSignal},
		run:   func(e *env) error { return runLearn(e, cfg) },
	}
	c.add(catHow, "budget", &cfg.budget, "wall `TIME` in all, such as 8m, including compiling and "+
		"earlier runs into the folder").positive("give a time such as 8m")
	c.add(catHow, "judge", &cfg.judge, "after the budget, search `N` fresh problems in full and "+
		"compare with the map; 60 take about 10 minutes").
		within(0, 10_000, "60 problems are enough for a mean")
	c.add(catHow, "domain", &cfg.bounds, "`BOUNDS` on rows, columns and elements").
		or("M=1:1Mi,N=64:64Ki,MN=256Mi")
	c.addPrior(&cfg.prior)
	c.add(catOutput, "out", &cfg.out, "`FOLDER` for results")
	c.addHTML()
	c.addStand(&cfg.stand)
	c.drop("shapes")
	return c
}

func runLearn(e *env, cfg *learnConfig) (err error) {
	domain := shapes.Everything
	if cfg.bounds != "" {
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
	if cfg.devices, err = e.Open(cfg.config("cold")); err != nil {
		return err
	}
	defer lab.Close(cfg.devices)
	cfg.info = cfg.devices[0].Info()
	hosted := func(f *kernels.Family) bool { return len(f.Host) > 0 }
	if cfg.info.Kind == kernels.KindCPU && !slices.ContainsFunc(e.Users, hosted) {
		why := errors.New("none of its families has a host stage, so none runs on a cpu")
		if err := e.Unused(why); err != nil {
			return err
		}
	}
	p, err := policy(e, cfg.prior, cfg.info, domain, classes)
	if err != nil {
		return err
	}
	if d, ok := cfg.devices[0].(*replay.Device); ok {
		p.Only = d.Problems()
	}
	l := &lesson{env: e, cfg: cfg, policy: p}
	if err := l.open(); err != nil {
		return err
	}
	defer l.records.Close()
	return l.learn()
}

// A lesson is a learn that has a device and a place for what it measures.
type lesson struct {
	*env
	cfg     *learnConfig
	policy  *learn.Policy
	data    *learn.Data
	at      durable.Place // of the map
	old     *tune.Table   // there, nil for none
	records *record.Writer
	took    time.Duration // by earlier runs
	run     record.Run
	shown   *rule.Map // the last one that was written
	lost    error     // what could not be written
}

// open reads what earlier runs measured, and opens the records.
func (l *lesson) open() (err error) {
	info, root := l.cfg.info, l.cfg.out
	if l.data, l.took, err = l.policy.Resume(filepath.Join(root, info.ID)); err != nil {
		return err
	}
	if err := checkResults(root, info.ID, tune.FileName, "learn.svg"); err != nil {
		return err
	}
	if l.records, err = l.openWriter(root, info.ID); err != nil {
		return err
	}
	l.at = durable.Place{Root: root, Name: filepath.Join(info.ID, tune.FileName)}
	l.old, _ = tune.Read(l.at.String()) // the first has none
	if n := len(l.data.Points); n > 0 {
		l.Notef("%s of earlier runs, which took %s of the budget", console.Count(n, "problem"),
			l.took.Round(time.Second))
	}
	l.run = newRun(l.env, info, l.cfg.protocol(info))
	return testTimer(l.env, l.cfg.devices[0], &l.run)
}

// learn measures within the budget, and writes and shows the map.
func (l *lesson) learn() error {
	cfg := l.cfg
	if l.policy.Prior != nil {
		l.Notef("the prior is %s", l.policy.Prior.Step)
	}
	loop := &learn.Loop{Policy: *l.policy, Registry: l.Registry, Devices: cfg.devices, Sink: l.records,
		Run: l.run, Seed: cfg.seed, Rounds: 8, Now: time.Now, Budget: cfg.budget, Spent: l.took,
		Deadline: true, Data: l.data}
	begun := time.Now()
	loop.Checkpoint = func(m *rule.Map) error {
		l.shown = m
		l.policy.Describe(m, l.data)
		l.lost = l.late(l.policy.Write(l.at, l.old, m))
		return l.lost
	}
	waiting := l.Wait("compiling and measuring the first problems")
	loop.Progress = func(s learn.Status) {
		l.Notef("%s", learnLine(s))
		waiting.Set("measuring")
	}
	m, err := loop.Learn(l.Ctx)
	waiting.End()
	l.Notes(report.RunNotes(loop.Summary, 0, cfg.devices))
	switch {
	case l.lost != nil: // the map is printed all the same
		return cmp.Or(showMap(l.env, l.shown, l.data, &common{format: cfg.format}), l.lost)
	case errors.Is(err, context.Canceled) && l.Ctx.Err() != nil:
		there := "no map yet"
		if l.shown != nil {
			there = l.at.String() + " has the last whole map"
		}
		return errInterrupted("%s kept in %s, the same command goes on from there; %s",
			console.Count(loop.Summary.Problems, "problem"), l.records.Path(), there)
	case err != nil:
		return err
	}
	l.Notef("%s in %.0f s; %s", console.Count(len(l.data.Points), "problem"),
		time.Since(begun).Seconds(), loop.Why)
	if err := l.keep(m); err != nil {
		return err
	}
	spent := report.Fact{Name: "budget", Value: fmt.Sprintf("%s, of which %s were spent", cfg.budget,
		(l.took + time.Since(begun)).Round(time.Second))}
	err = showMap(l.env, m, l.data, &cfg.common, spent)
	if err == nil && cfg.judge > 0 {
		err = l.judge(loop, m)
	}
	return cmp.Or(err, l.lost)
}

// keep packs the records, and draws the map.
func (l *lesson) keep(m *rule.Map) error {
	if err := l.records.Close(); err != nil {
		return err
	}
	if l.lost = l.late(record.Pack(l.at.In(record.FileName))); l.lost == nil {
		l.saved += ".gz"
	}
	l.Notef("wrote the map of %s", l.at)
	tellChange(l.env, l.policy.Filler, l.old, m)
	drawn := learn.Plot(m, l.data.Points, l.cfg.info)
	l.lost = cmp.Or(l.lost, l.late(l.write(l.at.In("learn.svg"), drawn)))
	return nil
}

// judge searches fresh problems in full, and shows how far behind the map is.
func (l *lesson) judge(loop *learn.Loop, m *rule.Map) error {
	waiting := l.Wait("judge: searching")
	j, err := learn.Judge(l.Ctx, loop, m, l.cfg.judge, func(s string) { waiting.Set("judge: %s", s) })
	waiting.End()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	l.lost = cmp.Or(l.lost, l.late(l.write(l.at.In(judgeFile), text)))
	if l.cfg.format == report.FormatJSON {
		return nil
	}
	fmt.Fprintln(l.out)
	return report.RenderTable(l.out, judgedTable(j), l.cfg.format)
}

// learnLine is how far a loop is.
func learnLine(s learn.Status) string {
	text := fmt.Sprintf("[%s of %s] %s", s.Spent.Round(time.Second), s.Budget, console.Count(s.Problems, "problem"))
	if s.Of > 0 {
		text += fmt.Sprintf("; at the last %d the map's answer was %.1f%% ±%.1f behind the best found", s.Of, 100*s.Regret, 100*s.Half)
	}
	return text + fmt.Sprintf("; %s left", max(s.Budget-s.Spent, 0).Round(time.Second))
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
