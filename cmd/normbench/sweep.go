package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/tune"
)

func (e *env) sweepCommand() *cli.Command {
	return &cli.Command{
		Name:  "sweep",
		Usage: "check and time every config of the kernel families over shapes; write records and the tuned table",
		Description: "Appends one record per variant to OUT/<device>/records.jsonl as it is measured, and ends by writing\n" +
			"OUT/<device>/tuned.json and printing the table of base against best. A second sweep into the same folder\n" +
			"measures only what is missing, or what has changed since.",
		Flags: join(problemFlags, deviceFlags, measureFlags, []cli.Flag{
			seedFlag,
			&cli.StringFlag{Name: "family", Usage: "families to sweep, with commas (default: all that serve the problem)"},
			&cli.StringSliceFlag{Name: "knob", Usage: "`KEY=V,V` replaces the values of a knob, such as --knob p=66,132; may repeat"},
			&cli.StringFlag{Name: "out", Usage: "`FOLDER` for results", Value: "results"},
			&cli.BoolFlag{Name: "retry-failed", Usage: "measure again what failed before"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say how much is left to measure, and stop"},
			formatFlag,
		}),
		Action: e.sweep,
	}
}

func (e *env) sweep(c *cli.Context) error {
	if err := noOperands(c); err != nil {
		return err
	}
	format := c.String("format")
	if err := report.CheckFormat(format); err != nil {
		return err
	}
	overrides, err := knobOverrides(c.StringSlice("knob"))
	if err != nil {
		return err
	}
	var only []string
	if c.IsSet("family") {
		only = strings.Split(c.String("family"), ",")
	}
	if err := checkProblems(c); err != nil {
		return err
	}
	devices, err := e.devices(c)
	if err != nil {
		return err
	}
	defer closeAll(devices)
	info := devices[0].Info()
	ps, err := problems(c, info)
	if err != nil {
		return err
	}
	pr, err := protocol(c, info)
	if err != nil {
		return err
	}
	tasks, err := sweep.Grid(e.registry, ps, info, only, overrides)
	if err != nil {
		return err
	}
	variants, refused := 0, 0
	for _, t := range tasks {
		variants += len(t.Variants)
		refused += t.Refused
	}
	if err := checkOverrides(tasks, overrides); err != nil {
		return err
	}
	e.notef("%s: %s, %s; %s refused by the spaces", info.Name, count(len(tasks), "problem"), count(variants, "variant"), count(refused, "config"))
	dir := filepath.Join(c.String("out"), info.ID)
	if c.Bool("dry-run") {
		keys := map[string]kernels.Status{}
		if f, err := record.Load(dir); err == nil {
			for _, x := range f.Entries {
				keys[x.Key] = x.Status
			}
		}
		left, err := sweep.Left(e.registry, info, tasks, pr, keys)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%s to measure, %d in %s already\n", count(left, "variant"), variants-left, dir)
		return nil
	}

	w, notes, err := record.OpenWriter(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, n := range notes {
		e.notef("%s", n)
	}
	// A table that the end could not merge with is better known before hours of
	// measuring.
	if old, err := tune.Read(filepath.Join(dir, tune.FileName)); err == nil {
		if _, err := tune.Merge(old, &tune.Table{Device: info}); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	run := e.newRun(info, pr)
	// A GPU's ruler is tested in a second, and the result kept with the records.
	// On a cpu it takes as long as a small sweep: that is left to selftest.
	if info.Kind == kernels.KindCUDA {
		if run.SelfTest, err = sweep.SelfTest(e.ctx, e.registry, devices[0]); err != nil {
			return err
		}
		for _, x := range run.SelfTest {
			if !x.OK {
				e.notef("selftest: %s is %s, wanted %s", x.Name, x.Found, x.Wanted)
			}
		}
	}
	p := newProgress(e.stderr)
	sum, err := sweep.Run(e.ctx, e.registry, devices, tasks, w, sweep.Options{
		Run: run, Seed: seed(c), Repeats: 2, RetryFailed: c.Bool("retry-failed"), Observe: p.observe,
	})
	p.finish()
	e.summarize(sum)
	if errors.Is(err, context.Canceled) && e.ctx.Err() != nil {
		e.notef("interrupted; %d records are kept in %s, the same command goes on from there", sum.Measured, w.Path())
		return &coded{code: exitSignal}
	}
	if err != nil {
		return err
	}
	return e.conclude(dir, ps, info, pr, format)
}

// checkOverrides refuses values of --knob of which no config made it into a
// space: the sweep would measure the base alone.
func checkOverrides(tasks []sweep.Task, overrides []kernels.Range) error {
	for _, o := range overrides {
		used := false
		for _, t := range tasks {
			for _, v := range t.Variants {
				if n, ok := v.Config.Lookup(o.Knob); ok && slices.Contains(o.Values, n) {
					used = true
				}
			}
		}
		if !used {
			return hint.Errorf("`normbench list configs` shows why configs are refused", "every config with the values of --knob %s is refused", o.Knob.Key)
		}
	}
	return nil
}

// count is "1 variant" or "12 variants".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// conclude folds the records of a results folder into its tuned table and
// prints base against best for the problems at hand.
func (e *env) conclude(dir string, ps []kernels.Problem, info kernels.DeviceInfo, pr record.Protocol, format string) error {
	f, err := record.Load(filepath.Join(dir, record.FileName))
	if err != nil {
		return err
	}
	entries := under(f.Latest(), pr)
	path := filepath.Join(dir, tune.FileName)
	old, err := tune.Read(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	table := &tune.Table{Schema: tune.Schema, Tool: version(), Created: time.Now().UTC().Truncate(time.Second),
		Device: info, Protocol: pr, Entries: tune.Pick(entries)}
	if old != nil {
		if table, err = tune.Merge(old, table); err != nil {
			return err
		}
	}
	if err := table.Write(path); err != nil {
		return err
	}
	e.notef("wrote %s", path)
	base := side("base", pick(entries, ps, func(x *record.Entry) bool { return x.Base }))
	best := side("best", pick(entries, ps, func(x *record.Entry) bool { return true }))
	return report.Render(e.stdout, report.Compare(base, best), format)
}

// under keeps the entries that were taken under a protocol.
func under(entries []record.Entry, pr record.Protocol) []record.Entry {
	var kept []record.Entry
	for _, x := range entries {
		if x.Run != nil && x.Run.Protocol == pr {
			kept = append(kept, x)
		}
	}
	return kept
}

// newRun describes this invocation for the records.
func (e *env) newRun(info kernels.DeviceInfo, pr record.Protocol) record.Run {
	env := environment()
	e.peerVersions(env)
	return record.Run{
		ID:       uuid.NewString()[:13],
		Time:     time.Now().UTC().Truncate(time.Millisecond),
		Tool:     version(),
		Command:  append([]string{"normbench"}, e.args[1:]...),
		Device:   info,
		Env:      env,
		Protocol: pr,
	}
}

// summarize says how a run went.
func (e *env) summarize(s sweep.Summary) {
	text := count(s.Measured, "variant") + " measured"
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d of them failed", s.Failed)
	}
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d were there already", s.Skipped)
	}
	if s.Measured > 0 && s.Wall > 0 {
		text += fmt.Sprintf("; %.1f s, %.0f variants/min, device at work %.0f%% of the time",
			s.Wall.Seconds(), float64(s.Measured)/s.Wall.Minutes(), 100*s.Busy.Seconds()/s.Wall.Seconds())
	}
	e.notef("%s", text)
}

// noProblem is the trouble of having nothing to show.
func noProblem(what string) error {
	return hint.Errorf("check --shapes, --op, --pass and --dtype", "%s serves none of the problems asked for", what)
}
