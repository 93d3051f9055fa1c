package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/report"
	"normbench/tune/learn"
	"normbench/tune/rules"
)

func (e *env) tuneCommand() *cli.Command {
	return &cli.Command{
		Name:      "tune",
		Usage:     "fit a small set of launch rules to records, and print their regret on held-out shapes",
		ArgsUsage: "RECORDS...",
		Description: "Reads records files or results folders of one device and fits a few rules per op and pass. Prints them with their\n" +
			"regret (time over the best known) on shapes left out of the fit, beside the default's. --wide adds other\n" +
			"choices: the best single config, the nearest shape, and published launch rules (presets) where their picks\n" +
			"were measured. Rules that are worse than the default on a held-out shape are not written. `normbench rule`\n" +
			"exports the default itself as code.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write the rules to `FILE`; .yaml or .yml is YAML, else the format of --export"},
			&cli.StringFlag{Name: "export", Usage: strings.Join(launchrule.Formats, ", ") + ": format of the rules; without --out they go to standard output instead of the tables", DefaultText: "json"},
			&cli.BoolFlag{Name: "force", Usage: "write the rules even if they are worse than the default or than the rules in FILE"},
			&cli.StringFlag{Name: "plot", Usage: "draw the rules over the shapes to `FILE`, .svg or .png"},
			htmlFlag,
			priorFlag,
			kernelsFlag,
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
	if err := checkHTML(c.String("html")); err != nil {
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
	if d.Learned() {
		return e.tuneLearned(c, d, export, out)
	} else if c.IsSet("prior") {
		return hint.Errorf("leave it out", "--prior has no effect: these are no records of learn")
	}
	set, ev, err := rules.Fit(d, launchrule.Judge{Registry: e.registry, Device: d.Device}, rules.DefaultOptions, version())
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
	if err := e.writePage(c.String("html"), func() *report.Page { return rulesPage(set, ev, nil, report.Facts(d.Runs...)) }); err != nil {
		return err
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

func (e *env) plotRules(path string, set *launchrule.Set, d *rules.Data) error {
	var ps []kernels.Problem
	for _, s := range d.Shapes {
		ps = append(ps, s.Problem)
	}
	var b bytes.Buffer
	if err := rules.Plot(set, &b, ps, strings.TrimPrefix(filepath.Ext(path), ".")); err != nil {
		return err
	}
	return e.writeFile(path, b.Bytes())
}

// refusal says why a rule set should not be written to a file, or nil.
func (e *env) refusal(set *launchrule.Set, ev *rules.Evaluation, out string) error {
	if len(ev.Losses) > 0 {
		l := ev.Losses[0]
		return hint.Errorf("--force writes them all the same",
			"the rules are worse than the default on %s held out, at first %s by %.1f%%", count(len(ev.Losses), "shape"), l.Problem, 100*(l.Ratio-1))
	}
	return overwrites(set, out)
}

// showRules prints the regrets and the rules.
func (e *env) showRules(set *launchrule.Set, ev *rules.Evaluation, format string) error {
	if format == "json" { // one value: the file has the scores too
		text, err := set.JSON()
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(text)
		return err
	}
	tables := ruleTables(set, ev)
	switch {
	case format == report.FormatCSV: // one table
		tables = regretTables(set, ev, format)[:1]
	case e.wide():
		tables = append(tables, regretTables(set, ev, format)...)
	default:
		tables[0].Notes = append(tables[0].Notes, "--wide adds the regret by what was held out, and of other choices; --format csv has it as one table")
	}
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		if err := report.RenderTable(e.stdout, t, format); err != nil {
			return err
		}
	}
	return nil
}

// ruleTables are what became of each class, and its rules.
func ruleTables(set *launchrule.Set, ev *rules.Evaluation) []*report.Table {
	scores := map[[3]string]launchrule.Score{} // by class, held out and chooser
	drawn := false
	for _, s := range set.HeldOut {
		scores[[3]string{s.Class, s.Held, s.Chooser}] = s
		drawn = drawn || s.Held == learn.HeldFresh
	}
	headers := []string{"class", ">rules", ">shapes", ">regret", ">default", ">p95"}
	if drawn {
		headers = append(headers, ">drawn", ">regret drawn", ">default drawn")
	}
	t := newTable("rules of "+set.Device.Name+", and their regret: time over the best known, on shapes left out of the fit", append(headers, "worst")...)
	t.Drop = []string{"worst", "drawn", "shapes", "p95"}
	tables := []*report.Table{t}
	number := map[string]int{}
	for i := range set.Lists {
		number[set.Lists[i].Class.String()] += len(set.Lists[i].Rules)
	}
	seen := map[string]bool{}
	for i := range set.Lists {
		l := &set.Lists[i]
		class := l.Class.String()
		if !seen[class] {
			seen[class] = true
			row := []string{class, strconv.Itoa(number[class])}
			score := func(held string) {
				own, base := scores[[3]string{class, held, launchrule.ChooserRules}], scores[[3]string{class, held, rules.ChooserDefault}]
				if own.Shapes == 0 {
					row = append(row, "0", "", "")
					return
				}
				row = append(row, strconv.Itoa(own.Shapes), fmt.Sprintf("%.3f", own.Regret), fmt.Sprintf("%.3f", base.Regret))
			}
			score(launchrule.HeldShape)
			own := scores[[3]string{class, launchrule.HeldShape, launchrule.ChooserRules}]
			p95 := ""
			if own.Shapes > 0 {
				p95 = fmt.Sprintf("%.3f", own.P95)
			}
			row = append(row, p95)
			if drawn {
				score(learn.HeldFresh)
			}
			t.Rows = append(t.Rows, append(row, own.Worst))
		}
		if len(l.Rules) == 0 {
			continue
		}
		r := newTable(fmt.Sprintf("rules of %s, measured for %s", l.Class, l.Hull), ">", "where", "what", ">problems", ">regret", ">default")
		for n, rule := range l.Rules {
			r.Rows = append(r.Rows, []string{fmt.Sprint(n + 1), rule.Box.String(), rule.Recipe.String(), fmt.Sprint(rule.Evidence.Problems),
				fmt.Sprintf("%.3f", rule.Evidence.Regret), fmt.Sprintf("%.3f", rule.Evidence.DefaultRegret)})
		}
		tables = append(tables, r)
	}
	for _, tally := range tallies(set) {
		t.Notes = append(t.Notes, tally.N+" "+tally.Word)
	}
	if len(ev.Losses) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("worse than the default on %s held out", count(len(ev.Losses), "shape")))
	}
	return tables
}

// tallies are the mean regret of the rules over all classes, and how many there are.
func tallies(set *launchrule.Set) (list []report.Tally) {
	mean := func(held, by string) (regret float64, of int) {
		for _, s := range set.HeldOut {
			if s.Held == held && s.Chooser == by {
				regret, of = regret+float64(s.Shapes)*math.Log(s.Regret), of+s.Shapes
			}
		}
		return 100 * math.Expm1(regret/float64(max(of, 1))), of
	}
	for _, held := range [][2]string{{learn.HeldFresh, "drawn at random"}, {launchrule.HeldShape, "left out of the fit"}} {
		own, of := mean(held[0], launchrule.ChooserRules)
		if base, _ := mean(held[0], rules.ChooserDefault); of > 0 {
			list = append(list, report.Tally{N: fmt.Sprintf("%.1f%%", own), Word: fmt.Sprintf("regret on %s %s (default: %.1f%%)", count(of, "problem"), held[1], base)})
		}
	}
	n := 0
	for i := range set.Lists {
		n += len(set.Lists[i].Rules)
	}
	number, word, _ := strings.Cut(count(n, "rule"), " ")
	return append(list, report.Tally{N: number, Word: word + " in " + count(len(set.Lists), "class")})
}

// regretTables are the regret of the rules and of what could answer in their place, and the
// published rules where there are some.
func regretTables(set *launchrule.Set, ev *rules.Evaluation, format string) []*report.Table {
	t := newTable(fmt.Sprintf("regret: time over the best known, of %s", set.Device.Name),
		"class", "held out", "by", ">shapes", ">of", ">geomean", ">p95", ">max", ">within 2%", ">within 5%", "worst")
	t.Drop = []string{"within 5%", "of", "max", "shapes"}
	t.Legend = []report.Meaning{{Column: "geomean", Text: "geometric mean with its 95% interval"}}
	t.Data = newTable("", "class", "held out", "by", ">shapes", ">of", ">geomean", "95% interval", ">p95", ">max", ">within 2%", ">within 5%", "worst")
	of := map[string]int{} // shapes of each class
	for _, s := range set.HeldOut {
		of[s.Class] = max(of[s.Class], s.Shapes)
	}
	add := func(s launchrule.Score) {
		held := map[string]string{launchrule.HeldNothing: "nothing", launchrule.HeldShape: "one shape", launchrule.HeldN: "one N", learn.HeldFresh: "a fresh draw"}[s.Held]
		row := []string{s.Class, held, s.Chooser, fmt.Sprint(s.Shapes), fmt.Sprint(of[s.Class]), fmt.Sprintf("%.3f", s.Regret), fmt.Sprintf("%.3f to %.3f", s.Lo, s.Hi),
			fmt.Sprintf("%.3f", s.P95), fmt.Sprintf("%.3f", s.Max), fmt.Sprintf("%.0f%%", 100*s.Within2), fmt.Sprintf("%.0f%%", 100*s.Within5), s.Worst}
		t.Data.Rows = append(t.Data.Rows, row)
		row = slices.Delete(slices.Clone(row), 6, 7)
		row[5] = fmt.Sprintf("%.3f (%.3f-%.3f)", s.Regret, s.Lo, s.Hi)
		t.Rows = append(t.Rows, row)
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
	by := func(chooser string) bool {
		return slices.ContainsFunc(set.HeldOut, func(s launchrule.Score) bool { return s.Chooser == chooser })
	}
	if by(rules.ChooserNearest) {
		t.Notes = append(t.Notes, "unpruned is the rules before the shapes held out had a say; single is one config for the class; nearest is the best known of the nearest shape")
	}
	if by(rules.ChooserPresets) {
		t.Notes = append(t.Notes, "presets is the fastest published launch rule of each shape, over the shapes on which one was measured; fitted to nothing")
	}
	if len(ev.Barred) > 0 {
		t.Notes = append(t.Notes, "left to the default, as rules fitted without them were worse there: "+joinProblems(ev.Barred))
	}
	if ev.Unknown > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%s held out without a measured time, taken for a third slower than the default", count(ev.Unknown, "answer")))
	}
	tables := []*report.Table{t}
	if len(ev.Presets) > 0 {
		tables = append(tables, presetTable(ev.Presets))
	}
	return tables
}

// rulesPage is rules as a page: how good they are, where, and what stands behind each.
func rulesPage(set *launchrule.Set, ev *rules.Evaluation, maps []learn.Map, facts []report.Fact) *report.Page {
	p := &report.Page{Title: "Launch rules of " + set.Device.Name, Facts: facts,
		What: "Regret is a launch's time over the best known of its problem, less one. It is held out where the fit did not see the problem."}
	p.Tally = tallies(set)
	for _, m := range maps {
		speed := report.Map{Title: m.Class.String() + ": % of a copy's speed", Unit: "%", Limits: []float64{50, 70, 85, 95}}
		regret := report.Map{Title: m.Class.String() + ": regret of the rules", Unit: "%", Limits: []float64{20, 10, 5, 2}}
		for _, d := range m.Dots {
			of := "measured"
			if !d.Known {
				of = "expected"
			}
			dot := report.MapDot{Rows: d.Problem.M, Columns: d.Problem.N, Square: d.Fresh,
				Tip: fmt.Sprintf("%s: %.1f%% of a copy's speed, regret %.1f%%, %s", report.ShapeOf(d.Problem), d.Percent, 100*d.Regret, of)}
			if dot.Value = d.Percent; d.Percent > 0 {
				speed.Dots = append(speed.Dots, dot)
			}
			dot.Value = 100 * d.Regret
			regret.Dots = append(regret.Dots, dot)
		}
		p.Maps = append(p.Maps, speed, regret)
	}
	p.Tables = append(ruleTables(set, ev), regretTables(set, ev, report.FormatText)...)
	return p
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
