package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/tune/rules"
)

func (e *env) tuneCommand() *cli.Command {
	return &cli.Command{
		Name:      "tune",
		Usage:     "fit a small launch rule set to recorded sweeps, and say how good it is on shapes held out",
		ArgsUsage: "RECORDS...",
		Description: "Reads records files or results folders of one device, fits a few rules per op and pass, and prints their\n" +
			"regret (time over the best known) against the baselines, on shapes left out of the fit: the default, the best\n" +
			"single config, the nearest shape, and published launch rules (presets) as far as what they pick was measured.\n" +
			"Rules that are worse than the default on a shape held out are not written. `normbench rule` has the default\n" +
			"itself as code.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write the rules to `FILE`; .yaml or .yml is YAML, else the format of --export"},
			&cli.StringFlag{Name: "export", Usage: strings.Join(rules.Formats, ", ") + ": as what; without --out, to standard output instead of the tables", DefaultText: "json"},
			&cli.BoolFlag{Name: "force", Usage: "write rules that are worse than the default, or than those in FILE"},
			&cli.StringFlag{Name: "plot", Usage: "draw the rules over the shapes to `FILE`, .svg or .png"},
			formatFlag,
		},
		Action: e.tune,
	}
}

func (e *env) tune(c *cli.Context) error {
	paths := operands(c)
	format, export, out := c.String("format"), c.String("export"), c.String("out")
	if err := report.CheckFormat(format); err != nil {
		return err
	}
	if len(paths) == 0 {
		return hint.Errorf("`normbench tune results/nvidia-h200`, for one", "tune needs records")
	}
	export, err := exportFormat(export, out)
	if err != nil {
		return err
	}
	picture := c.String("plot")
	if ext := filepath.Ext(picture); picture != "" && ext != ".svg" && ext != ".png" {
		return hint.Errorf("name it .svg or .png", "cannot plot to %s", picture)
	}
	d, err := rules.Collect(paths)
	if err != nil {
		return err
	}
	if kept := d.Rebase(e.registry); kept > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("on %d of %d shapes the default is what was recorded as the base, not today's, which has no time", kept, len(d.Shapes)))
	}
	for _, n := range d.Notes {
		e.notef("%s", n)
	}
	set, ev, err := rules.Fit(d, rules.Judge{Registry: e.registry, Device: d.Device}, rules.DefaultOptions, version())
	if err != nil {
		return err
	}
	text, err := set.Export(export)
	if err != nil {
		return err
	}
	// Files come first: the tables may go to a pipe that closes.
	toStdout := out == "" && c.IsSet("export")
	refusal := e.refusal(set, ev, out)
	if refusal != nil && c.Bool("force") {
		e.notef("written by --force: %s", oneLine(refusal.Error()))
		refusal = nil
	}
	if out != "" && refusal == nil {
		if err := e.writeFile(out, text); err != nil {
			return err
		}
	}
	if picture != "" {
		if err := e.plotRules(picture, set, d); err != nil {
			return err
		}
	}
	switch {
	case refusal != nil && (out != "" || toStdout):
		return refusal
	case toStdout:
		_, err = e.stdout.Write(text)
		return err
	}
	return e.showRules(set, ev, format)
}

func (e *env) plotRules(path string, set *rules.Set, d *rules.Data) error {
	var ps []kernels.Problem
	for _, s := range d.Shapes {
		ps = append(ps, s.Problem)
	}
	var b bytes.Buffer
	if err := set.Plot(&b, ps, strings.TrimPrefix(filepath.Ext(path), ".")); err != nil {
		return err
	}
	return e.writeFile(path, b.Bytes())
}

// refusal says why a rule set should not be written to a file, or nil.
func (e *env) refusal(set *rules.Set, ev *rules.Evaluation, out string) error {
	if len(ev.Losses) > 0 {
		l := ev.Losses[0]
		return hint.Errorf("--force writes them all the same",
			"the rules are worse than the default on %s held out, at first %s by %.1f%%", count(len(ev.Losses), "shape"), l.Problem, 100*(l.Ratio-1))
	}
	return overwrites(set, out)
}

// showRules prints the regrets and the rules.
func (e *env) showRules(set *rules.Set, ev *rules.Evaluation, format string) error {
	t := newTable(fmt.Sprintf("regret: time over the best known, of %s", set.Device.Name),
		"class", "held out", "by", ">shapes", ">of", ">geomean", "95% interval", ">p95", ">max", ">within 2%", ">within 5%", "worst")
	t.Drop = []string{"within 5%", "of", "max", "95% interval", "shapes"}
	of := map[string]int{} // shapes of each class
	for _, s := range set.HeldOut {
		of[s.Class] = max(of[s.Class], s.Shapes)
	}
	add := func(s rules.Score) {
		held := map[string]string{rules.HeldNothing: "nothing", rules.HeldShape: "one shape", rules.HeldN: "one N"}[s.Held]
		t.Rows = append(t.Rows, []string{s.Class, held, s.Chooser, fmt.Sprint(s.Shapes), fmt.Sprint(of[s.Class]), fmt.Sprintf("%.3f", s.Regret), fmt.Sprintf("%.3f to %.3f", s.Lo, s.Hi),
			fmt.Sprintf("%.3f", s.P95), fmt.Sprintf("%.3f", s.Max), fmt.Sprintf("%.0f%%", 100*s.Within2), fmt.Sprintf("%.0f%%", 100*s.Within5), s.Worst})
	}
	for _, s := range set.HeldOut {
		add(s)
	}
	if format == report.FormatCSV { // one table, so the presets one by one are in it
		for _, p := range ev.Presets {
			if p.Shapes > 0 && p.Chooser != rules.ChooserPresets {
				p.Chooser = "preset:" + p.Chooser
				add(p.Score)
			}
		}
	}
	if slices.ContainsFunc(set.HeldOut, func(s rules.Score) bool { return s.Chooser == rules.ChooserPresets }) {
		t.Notes = append(t.Notes, "presets is the fastest published launch rule of each shape, over the shapes on which one was measured; fitted to nothing")
	}
	if len(ev.Barred) > 0 {
		t.Notes = append(t.Notes, "left to the default, as rules fitted without them were worse there: "+joinProblems(ev.Barred))
	}
	if ev.Unknown > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%s held out without a measured time, taken for a third slower than the default", count(ev.Unknown, "answer")))
	}
	if len(ev.Losses) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("worse than the default on %s held out", count(len(ev.Losses), "shape")))
	}
	if format == "json" { // one value: the file has the scores too
		text, err := set.JSON()
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(text)
		return err
	}
	if err := report.RenderTable(e.stdout, t, format); err != nil {
		return err
	}
	if format == "csv" {
		return nil
	}
	if len(ev.Presets) > 0 {
		fmt.Fprintln(e.stdout)
		if err := report.RenderTable(e.stdout, presetTable(ev.Presets), format); err != nil {
			return err
		}
	}
	for i := range set.Classes {
		l := &set.Classes[i]
		t := newTable(fmt.Sprintf("rules of %s, measured for %s", l.Class, l.Hull), ">", "where", "what", ">problems", ">regret", ">default")
		for n, r := range l.Rules {
			t.Rows = append(t.Rows, []string{fmt.Sprint(n + 1), r.Box.String(), r.Recipe.String(), fmt.Sprint(r.Evidence.Problems),
				fmt.Sprintf("%.3f", r.Evidence.Regret), fmt.Sprintf("%.3f", r.Evidence.DefaultRegret)})
		}
		fmt.Fprintln(e.stdout)
		if err := report.RenderTable(e.stdout, t, format); err != nil {
			return err
		}
	}
	return nil
}

// presetTable is each published launch rule as a rule by itself.
func presetTable(ps []rules.PresetScore) *report.Table {
	t := newTable("published launch rules, as far as the records have what they pick",
		"class", "preset", ">shapes", ">of", ">covered", ">unmeasured", ">geomean", ">rules there", ">default there", ">max", "worst")
	t.Drop = []string{"unmeasured", "of", "max", "covered", "default there"}
	for _, p := range ps {
		row := []string{p.Class, p.Chooser, fmt.Sprint(p.Shapes), fmt.Sprint(p.Of), fmt.Sprintf("%.0f%%", 100*float64(p.Shapes)/float64(p.Of)), fmt.Sprint(p.Unmeasured)}
		if p.Shapes > 0 {
			row = append(row, fmt.Sprintf("%.3f", p.Regret), fmt.Sprintf("%.3f", p.Rules), fmt.Sprintf("%.3f", p.Default), fmt.Sprintf("%.3f", p.Max), p.Worst)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Notes = append(t.Notes,
		"shapes: those with a time of what the preset launches, or of all that it would try; a geomean is over these alone",
		"unmeasured: its pick has no time in the records: `normbench bench preset:NAME --all-candidates --out DIR` measures it, and tune takes DIR too; on the rest it launches nothing of ours",
		"rules there: the regret of the rules on the same shapes, each held out")
	return t
}

func joinProblems(ps []kernels.Problem) string {
	var list []string
	for _, p := range ps {
		list = append(list, p.String())
	}
	return strings.Join(list, ", ")
}
