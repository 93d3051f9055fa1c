package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/kernels/replay"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune/learn"
	"normbench/tune/rules"
)

var priorFlag = &cli.StringFlag{Name: "prior", Usage: "answer where no learned rule does: auto (this program's default), none (the analytic base), or a rules `FILE`", Value: "auto"}

func (e *env) learnCommand() *cli.Command {
	return &cli.Command{
		Name:  "learn",
		Usage: "learn launch rules on a device, within a budget of time",
		Description: "Draws problems from the domain, measures today's answer against a few challengers, and fits rules. This repeats\n" +
			"until the budget ends, or until the regret on problems drawn at random is below the target. Writes\n" +
			"OUT/<device>/rules.json (rules with their evidence), the records, and learn.svg (a map of rows by columns).\n" +
			"The same command resumes. `normbench tune OUT/<device>` fits the same rules to the records.",
		Flags: join([]cli.Flag{
			&cli.DurationFlag{Name: "budget", Usage: "wall `TIME` in all, such as 8m, including compiling and earlier runs into the folder", Value: 20 * time.Minute},
			&cli.StringFlag{Name: "target", Usage: "stop when the held-out regret is below this `SHARE`, such as 2%; 0 never stops", Value: "2%"},
			&cli.StringFlag{Name: "domain", Usage: "`BOUNDS` on rows, columns and elements", DefaultText: "M=1:1Mi,N=64:64Ki,MN=256Mi"},
			priorFlag,
			&cli.StringFlag{Name: "out", Usage: "`FOLDER` for results", Value: "results"},
		}, classFlags, optionFlags, deviceFlags, []cli.Flag{seedFlag, kernelsFlag, includeFlag, htmlFlag, formatFlag}),
		Action: e.learn,
	}
}

// share reads 2% or 0.02.
func share(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f < 1) {
		return 0, hint.Errorf("write a share such as 2%; 0 for none", "malformed --target %q", text)
	}
	return f, nil
}

func (e *env) learn(c *cli.Context) error {
	if err := noOperands(c); err != nil {
		return err
	}
	budget := c.Duration("budget")
	if budget <= 0 {
		return hint.Errorf("give a time such as 8m", "--budget %s is not positive", budget)
	}
	target, err := share(c.String("target"))
	if err != nil {
		return err
	}
	domain := shapes.Everything
	if c.IsSet("domain") {
		if domain, err = shapes.ParseDomain(c.String("domain")); err != nil {
			return err
		}
	}
	classes, err := crossed(c, []shapes.Shape{{M: 1, N: 1}}, "")
	if err != nil {
		return err
	}
	if _, err := e.prior(c.String("prior"), kernels.DeviceInfo{}); err != nil { // before a device is opened
		return err
	}
	devices, err := e.devices(c)
	if err != nil {
		return err
	}
	defer closeAll(devices)
	info := devices[0].Info()
	policy, err := e.policy(c.String("prior"), info, domain, classes)
	if err != nil {
		return err
	}
	if d, ok := devices[0].(*replay.Device); ok {
		policy.Only = d.Problems()
	}
	dir := filepath.Join(c.String("out"), info.ID)
	before, runs, took, err := e.learned(dir, policy)
	if err != nil {
		return err
	}
	if err := checkResults(c.String("out"), info.ID, "rules.json", "learn.svg"); err != nil {
		return err
	}
	w, notes, err := record.OpenWriterBelow(c.String("out"), info.ID)
	if err != nil {
		return err
	}
	defer w.Close()
	e.saved = w.Path()
	out := durable.Place{Root: c.String("out"), Name: filepath.Join(info.ID, "rules.json")}
	for _, n := range notes {
		e.notef("%s", n)
	}
	if len(before) > 0 {
		e.notef("%s of earlier runs, which took %s of the budget", count(len(before), "problem"), took.Round(time.Second))
	}
	n := 20
	if info.Kind == kernels.KindCPU {
		n = 7
	}
	run := e.newRun(info, sweep.ColdProtocol(info, n))
	if err := e.testTimer(devices[0], &run); err != nil {
		return err
	}
	if c.String("prior") != "none" {
		e.notef("the prior is %s", launchrule.Ladder([]*launchrule.Set{policy.Prior}, &info))
	}
	lab := &learn.Lab{Registry: e.registry, Devices: devices, Sink: w, Run: run, Seed: seed(c), Rounds: 8, Now: time.Now}
	loop := &learn.Loop{Policy: *policy, Lab: lab, Options: learn.DefaultOptions, Budget: budget, Spent: took, Target: target, Deadline: true}
	var lost error          // what could not be written
	var shown *learn.Result // as far as it is known then
	begun := time.Now()
	loop.Progress = func(s learn.Status) { e.notef("%s", learnLine(s)) }
	loop.Checkpoint = func(r *learn.Result, points []*learn.Point, last bool) (err error) {
		if err := policy.Finish(r, version(), version(), sweep.ContestProtocol(run.Protocol, rules.Learned, lab.Rounds), points, sourcesOf(e.registry, info.Kind)); err != nil {
			return err
		}
		text, err := r.Set.JSON()
		if err != nil {
			return err
		}
		defer func() { lost, shown = e.late(err), r }()
		if err := launchrule.WritePlace(out, text); err != nil || !last {
			return err
		}
		e.notef("wrote %s", out)
		var b bytes.Buffer
		if err := r.Plot(&b, "svg"); err != nil {
			return err
		}
		return e.writePlace(out.In("learn.svg"), b.Bytes())
	}
	res, err := loop.Learn(e.ctx, before)
	e.summarize(lab.Summary(), 0, devices)
	if lost != nil { // the rules are printed all the same
		return cmp.Or(e.showLearned(shown, c.String("format"), "", nil, nil), lost)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) && e.ctx.Err() != nil {
			there := "no rules yet"
			if _, err := os.Stat(out.String()); err == nil {
				there = out.String() + " is the last complete fit"
			}
			return interrupted("%s kept in %s, the same command goes on from there; %s", count(lab.Summary().Problems, "problem"), w.Path(), there)
		}
		return err
	}
	e.notef("%s in %.0f s; %s", count(loop.Problems(), "problem"), time.Since(begun).Seconds(), loop.Why)
	if err := w.Close(); err != nil {
		return err
	}
	lost = e.late(pack(out.In(record.FileName)))
	if lost == nil {
		e.saved += ".gz"
	}
	facts := append(report.Facts(append(runs, &run)...), report.Fact{Name: "budget", Value: fmt.Sprintf("%s, of which %s were spent", budget, (took + time.Since(begun)).Round(time.Second))})
	return cmp.Or(e.showLearned(res, c.String("format"), c.String("html"), facts, report.Timer(append(runs, &run)...)), lost)
}

// learnLine is how far a loop is.
func learnLine(s learn.Status) string {
	text := fmt.Sprintf("[%s of %s] %s, %s", s.Spent.Round(time.Second), s.Budget, count(s.Problems, "problem"), count(s.Rules, "rule"))
	if s.Fresh > 0 {
		text += fmt.Sprintf("; held out %.1f%% ±%.1f (%d drawn at random)", 100*s.Regret, 100*s.Half, s.Fresh)
	}
	return text + fmt.Sprintf("; %s left", max(s.Budget-s.Spent, 0).Round(time.Second))
}

// prior is what answers where no learned rule does: the rules of a file, of the program for a device, or none.
func (e *env) prior(text string, info kernels.DeviceInfo) (*launchrule.Set, error) {
	switch text {
	case "none":
		return nil, nil
	case "auto":
		return families.Step(info).Set, nil
	}
	return launchrule.Read(text)
}

// policy is what a loop knows before it measures anything, and what tune has to know of learn's records.
func (e *env) policy(prior string, info kernels.DeviceInfo, domain shapes.Domain, classes []kernels.Problem) (*learn.Policy, error) {
	set, err := e.prior(prior, info)
	if err != nil {
		return nil, err
	}
	if set != nil && launchrule.Ladder([]*launchrule.Set{set}, &info).Set == nil {
		return nil, noStep("--prior "+prior, set, info)
	}
	p := &learn.Policy{Judge: launchrule.Judge{Registry: e.registry, Device: info}, Domain: domain, Classes: classes, Prior: set,
		Challengers: 8, Batch: 24, Wide: 0.3, Fan: 24, Memo: learn.NewMemo()}
	base := families.Over(e.registry)
	p.Analytic = func(q kernels.Problem) (kernels.Variant, error) { return base.Base(q, info) }
	p.Default = p.Analytic
	if set != nil {
		r := families.Over(e.registry, set)
		p.Default = func(q kernels.Problem) (kernels.Variant, error) { return r.Base(q, info) }
	} else { // there is more to find
		p.Wide, p.Fan = 0.6, 32
	}
	list, err := shapes.Select("default")
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if domain.Holds(s.M, s.N) {
			p.Listed = append(p.Listed, s)
		}
	}
	return p, nil
}

// learned are the points that are in a results folder already, the runs that measured them, and the time that they took.
func (e *env) learned(dir string, p *learn.Policy) ([]*learn.Point, []*record.Run, time.Duration, error) {
	path := filepath.Join(dir, record.FileName)
	if f, err := os.Stat(path); err != nil || f.Size() == 0 { // a run that measured nothing leaves an empty one
		if _, err := os.Stat(path + ".gz"); err != nil {
			return nil, nil, 0, nil
		}
		path += ".gz"
	}
	spans := map[string]span{}
	_, err := record.Read(path, func(r *record.Record, run *record.Run) error {
		if strings.HasPrefix(run.Protocol.Search, rules.Learned) {
			s := spans[run.ID]
			if s.first.IsZero() {
				s.first = run.Time
			}
			if r.Time.After(s.last) {
				s.last = r.Time
			}
			s.records++
			if slices.ContainsFunc(p.Classes, func(q kernels.Problem) bool { return launchrule.ClassOf(q) == launchrule.ClassOf(r.Problem) }) {
				s.asked++
			}
			spans[run.ID] = s
		}
		return nil
	})
	if err != nil {
		return nil, nil, 0, err
	}
	if len(spans) == 0 {
		return nil, nil, 0, nil
	}
	took := spent(slices.Collect(maps.Values(spans)))
	d, err := rules.Collect([]string{path})
	if errors.Is(err, rules.ErrNoDefault) { // it ended before its first problem was through
		return nil, nil, took, nil
	}
	if err != nil {
		return nil, nil, 0, err
	}
	if d.Device.ID != p.Judge.Device.ID || d.Device.Compiler != p.Judge.Device.Compiler || d.Device.Driver != p.Judge.Device.Driver {
		return nil, nil, 0, hint.Errorf("choose another --out", "%s has records of %s, %s, %s, which do not compare with what this device would add",
			path, d.Device.ID, d.Device.Driver, d.Device.Compiler)
	}
	points, _ := p.Points(d, false)
	return points, d.Runs, took, nil
}

// A span is from when to when a run measured, and how many of its records are of the classes that are asked for.
type span struct {
	first, last    time.Time
	records, asked int
}

// spent is the time that spans took: what overlaps counts once, and of each the part of the classes asked for.
func spent(spans []span) (total time.Duration) {
	slices.SortFunc(spans, func(a, b span) int { return a.first.Compare(b.first) })
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].first.Before(s.last); i++ {
			if n := spans[i]; n.last.After(s.last) {
				s.last = n.last
			}
			s.records, s.asked = s.records+spans[i].records, s.asked+spans[i].asked
		}
		total += time.Duration(float64(max(s.last.Sub(s.first), 0)) * float64(s.asked) / float64(s.records))
	}
	return total
}

// pack puts a records file in its packed form, from which a writer unpacks it again.
func pack(p durable.Place) error {
	f, err := os.Open(p.String())
	if err != nil {
		return err
	}
	defer f.Close()
	in, out := io.Pipe()
	go func() {
		z, _ := gzip.NewWriterLevel(out, gzip.BestCompression)
		_, err := io.Copy(z, f)
		out.CloseWithError(errors.Join(err, z.Close()))
	}()
	if err := p.In(filepath.Base(p.Name) + ".gz").WriteFrom(in); err != nil {
		return hint.Errorf(durable.Help(err), "%s.gz: %w", p, durable.Cause(err))
	}
	return os.Remove(p.String())
}
