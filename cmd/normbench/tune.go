package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/launchrule"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/shapes"
	"normbench/tune/learn"
	"normbench/tune/rules"
)

func (e *env) tuneCommand() *cli.Command {
	return &cli.Command{
		Name:      "tune",
		Usage:     "fit a small set of launch rules to records, and print their regret on held-out shapes",
		ArgsUsage: "RECORDS...",
		Description: "Reads records files or results folders of one device, of sweep or of learn, and fits a few rules per op and pass.\n" +
			"Prints them with their regret (time over the best known) on shapes left out of the fit, beside the default's.\n" +
			"--wide adds other ways to hold out, and published launch rules (presets) where their picks were measured. With\n" +
			"--prior, and for learn's records, the file has the prior's rules behind its own. `normbench rule` exports the\n" +
			"default itself as code.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write the rules to `FILE`; .yaml or .yml is YAML, else the format of --export"},
			&cli.StringFlag{Name: "export", Usage: strings.Join(launchrule.Formats, ", ") + ": format of the rules; without --out they go to standard output instead of the tables", DefaultText: "json"},
			&cli.BoolFlag{Name: "force", Usage: "write the rules even if they are worse than the rules in FILE"},
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
	export, out := c.String("export"), c.String("out")
	if len(paths) == 0 {
		return hint.Errorf("`normbench tune results/nvidia-h200`, for one", "tune needs records")
	}
	export, err := exportFormat(export, out)
	if err != nil {
		return err
	}
	picture := c.String("plot")
	d, err := rules.Collect(paths)
	if err != nil {
		return err
	}
	for _, n := range d.Notes {
		e.notef("%s", n)
	}
	policy, err := e.policy(c.String("prior"), d.Device, shapes.Everything, nil)
	if err != nil {
		return err
	}
	points, kept := policy.Points(d, c.String("prior") == "auto")
	if len(points) == 0 {
		return hint.Errorf("give the --prior that learn had", "no problem of the records has a time of what the prior answers")
	}
	if n := len(d.Shapes) - len(points); n > 0 {
		e.notef("%s left out, as what the prior answers there was not measured", count(n, "problem"))
	}
	if kept > 0 {
		e.notef("on %d of %s the default is the recorded base, as today's was not measured", kept, count(len(points), "problem"))
	}
	res := learn.Fit(points, policy.Judge, learn.DefaultOptions, policy.Memo, true)
	learned := slices.ContainsFunc(points, func(p *learn.Point) bool { return p.Asked.Family != "" })
	if strings.HasPrefix(d.Protocol.Search, rules.Learned) {
		d.Protocol = sweep.ContestProtocol(d.Protocol, rules.Learned, d.Protocol.Samples/sweep.FinalLaunches)
	}
	whole := learned || c.IsSet("prior")
	if !whole { // what lies beyond a sweep is the program's, also a later one's
		policy.Prior = nil
	}
	if err := policy.Finish(res, version(), d.Tool, d.Protocol, points, func(family string) string { return d.Sources[family] }); err != nil {
		return err
	}
	res.Set.Whole = whole
	text, err := res.Set.Export(export)
	if err != nil {
		return err
	}
	// Files come first: the tables may go to a pipe that closes.
	if out != "" {
		switch err := overwrites(res.Set, out); {
		case err == nil:
		case !c.Bool("force"):
			return err
		default:
			e.notef("written by --force: %s", oneLine(err.Error()))
		}
		if err := e.writeFile(out, text); err != nil {
			return err
		}
	}
	if picture != "" {
		var b bytes.Buffer
		if err := res.Plot(&b, strings.TrimPrefix(filepath.Ext(picture), ".")); err != nil {
			return err
		}
		if err := e.writeFile(picture, b.Bytes()); err != nil {
			return err
		}
	}
	if out == "" && c.IsSet("export") {
		_, err = e.stdout.Write(text)
		return err
	}
	return e.showLearned(res, c.String("format"), c.String("html"), report.Facts(d.Runs...), report.Timer(d.Runs...))
}

// showLearned prints the regrets and the rules, and writes them as a page.
func (e *env) showLearned(r *learn.Result, format, html string, facts []report.Fact, timer []string) error {
	if r.Guessed > 0 {
		e.notef("%d of %s held out have no measured time there: they count as what is expected from what was measured nearby", r.Guessed, count(r.Answers, "answer"))
	}
	set := *r.Set
	set.Lists = slices.Clone(r.Set.Lists[:r.Learned])
	lost := e.writePage(html, func() *report.Page { return rulesPage(&set, r, facts) })
	return cmp.Or(e.showRules(&set, r.Presets, format, timer), lost)
}

// showRules prints the regrets and the rules.
func (e *env) showRules(set *launchrule.Set, published []learn.PresetScore, format string, timer []string) error {
	if format == "json" { // one value: the file has the scores too
		text, err := set.JSON()
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(text)
		return err
	}
	tables := ruleTables(set)
	for _, line := range timer {
		tables[0].Title += "\n" + line
	}
	switch {
	case format == report.FormatCSV: // one table
		tables = regretTables(set, published, format)[:1]
	case e.wide():
		tables = append(tables, regretTables(set, published, format)...)
	default:
		tables[0].Notes = append(tables[0].Notes, "--wide adds the regret by what was held out, and published launch rules; --format csv has it as one table")
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
func ruleTables(set *launchrule.Set) []*report.Table {
	scores := map[[3]string]launchrule.Score{} // by class, held out and chooser
	drawn := false
	for _, s := range set.HeldOut {
		scores[[3]string{s.Class, s.Held, s.Chooser}] = s
		drawn = drawn || s.Held == learn.HeldFresh
	}
	t := newTable("rules of "+set.Device.Name+", and their regret: time over the best known, on shapes left out of the fit", ruleHeader(drawn)...)
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
				own, base := scores[[3]string{class, held, launchrule.ChooserRules}], scores[[3]string{class, held, learn.ChooserDefault}]
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
	return tables
}

func ruleHeader(drawn bool) []string {
	headers := []string{"class", ">rules", ">shapes", ">regret", ">default", ">p95"}
	if drawn {
		headers = append(headers, ">drawn", ">regret drawn", ">default drawn")
	}
	return append(headers, "worst")
}

// learnedTable is the first table of tune and learn, without its rows.
func learnedTable() *report.Table {
	t := newTable("", ruleHeader(true)...)
	t.Data = regretTables(&launchrule.Set{}, nil, report.FormatCSV)[0].Data
	return t
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
		if base, _ := mean(held[0], learn.ChooserDefault); of > 0 {
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
func regretTables(set *launchrule.Set, published []learn.PresetScore, format string) []*report.Table {
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
		for _, p := range published {
			if p.Shapes > 0 && p.Chooser != learn.ChooserPresets {
				p.Chooser = "preset:" + p.Chooser
				add(p.Score)
			}
		}
	}
	tables := []*report.Table{t}
	if len(published) > 0 {
		tables = append(tables, presetTable(published))
	}
	return tables
}

// rulesPage is rules as a page: how good they are, where, and what stands behind each.
func rulesPage(set *launchrule.Set, r *learn.Result, facts []report.Fact) *report.Page {
	p := &report.Page{Title: "Launch rules of " + set.Device.Name, Facts: facts,
		What: "Regret is a launch's time over the best known of its problem, less one. It is held out where the fit did not see the problem."}
	p.Tally = tallies(set)
	for _, m := range r.Maps() {
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
	p.Tables = append(ruleTables(set), regretTables(set, r.Presets, report.FormatText)...)
	return p
}

// presetTable is each published launch rule as a rule by itself.
func presetTable(ps []learn.PresetScore) *report.Table {
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
