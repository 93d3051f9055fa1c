package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/rules"
)

func (e *env) explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "what a tuned table or rules file answers for a shape, and why",
		ArgsUsage: "SHAPE",
		Description: "SHAPE is MxN, for every op and pass that the file has, or a problem such as rmsnorm/bwd/4096x8192/bf16.\n" +
			"Says how good the match is: exact (an entry of its own), rule, or default; and what is launched.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tuned", Usage: "the `FILE`, by sweep or tune"},
			&cli.StringFlag{Name: "device", Usage: "h200 or cpu, to launch on", Value: "h200"},
			formatFlag,
		},
		Action: e.explain,
	}
}

// knownDevice is one that commands without a device can reason about.
func (e *env) knownDevice(name string) (kernels.DeviceInfo, error) {
	switch name {
	case "h200":
		return h200, nil
	case "cpu":
		d, err := e.cpu()
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		return d.Info(), nil
	}
	return kernels.DeviceInfo{}, hint.Errorf("use h200 or cpu", "unknown device %q", name)
}

func (e *env) explain(c *cli.Context) error {
	if err := report.CheckFormat(c.String("format")); err != nil {
		return err
	}
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench explain 4096x8192 --tuned results/nvidia-h200/tuned.json`, for one", "explain takes one shape or problem, got %d", len(ops))
	}
	if c.String("tuned") == "" {
		return hint.Errorf("--tuned results/nvidia-h200/tuned.json, for one", "explain needs --tuned")
	}
	d, err := e.knownDevice(c.String("device"))
	if err != nil {
		return err
	}
	f, err := readTunedFile(c.String("tuned"))
	if err != nil {
		return err
	}
	ps, err := f.problems(ops[0])
	if err != nil {
		return err
	}
	if len(ps) == 0 {
		return hint.Errorf("`normbench lint "+c.String("tuned")+"` says more", "%s has no entry, and so nothing to explain", c.String("tuned"))
	}
	if d.ID != f.device().ID {
		e.notef("%s is of %s, not of %s", c.String("tuned"), f.device().ID, d.ID)
	}
	t := newTable("", "problem", "match", "why", "variant", "launches")
	for _, p := range ps {
		v, match, why := f.answer(p)
		if v.Family == "" {
			if v, err = e.registry.Base(p, d); err != nil {
				return err
			}
		}
		if _, err := e.registry.Lookup(v.Family); err != nil {
			return hint.Errorf("`normbench lint "+c.String("tuned")+"` lists all that is wrong with it", "%s: %s: %w", c.String("tuned"), p, err)
		}
		launches := ""
		if _, full, plan, err := e.registry.Resolve(p, v, d); err != nil {
			launches = "refused: " + oneLine(err.Error())
		} else {
			v, launches = full, strings.TrimSpace(strings.ReplaceAll(plan.String(), "\n", "; "))
		}
		t.Rows = append(t.Rows, []string{p.String(), match, why, v.String(), launches})
	}
	if c.String("format") != "text" {
		return report.RenderTable(e.stdout, t, c.String("format"))
	}
	// A plan is too wide for a column.
	for i, row := range t.Rows {
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		fmt.Fprintln(e.stdout, row[0])
		for j, name := range t.Header[1:] {
			for k, line := range e.wrap(row[j+1], 12) {
				if k > 0 {
					name = ""
				}
				fmt.Fprintf(e.stdout, "  %-9s %s\n", name, line)
			}
		}
	}
	return nil
}

// problems are those that a shape means: itself, or one of each class that the
// file knows.
func (t tunedFile) problems(text string) ([]kernels.Problem, error) {
	if strings.Contains(text, "/") {
		p, err := kernels.ParseProblem(text)
		return []kernels.Problem{p}, err
	}
	list, err := shapes.ParseList(text)
	if err != nil {
		return nil, err
	}
	var ps []kernels.Problem
	seen := map[kernels.Problem]bool{}
	add := func(p kernels.Problem) {
		p.M, p.N = list[0].M, list[0].N
		if !seen[p] && p.Validate() == nil {
			seen[p] = true
			ps = append(ps, p)
		}
	}
	if t.rules != nil && t.rules.Of != "" {
		for _, p := range t.rules.UpTo {
			add(p)
		}
	} else if t.rules != nil {
		for _, l := range t.rules.Classes {
			d := kernels.BF16
			if l.Bytes == kernels.FP32.Size() {
				d = kernels.FP32
			}
			add(kernels.Problem{Op: l.Op, Pass: l.Pass, DType: d, Weight: d, Bias: l.Bias})
		}
	} else {
		for _, x := range t.table.Entries {
			add(x.Problem)
		}
	}
	return ps, nil
}

// entryTimes are those of an entry and of the default, with both estimates of how they compare:
// by medians, as tables of records have it, and by rounds, which tell more where time drifts.
func entryTimes(x *tune.Entry) string {
	text := report.Micros(x.MedianUS) + " us"
	b := x.Base
	switch {
	case b == nil:
		return text
	case x.Variant() == (kernels.Variant{Family: b.Family, Config: b.Config}):
		return text + ", and the default"
	}
	text += fmt.Sprintf(", the default %s us in the same sweep: %s by medians", report.Micros(b.MedianUS), report.Ratio(b.MedianUS/x.MedianUS))
	if len(x.SpeedupCI) == 2 {
		text += fmt.Sprintf(", %s (95%% %.2f-%.2f) by rounds", report.Ratio(x.Speedup), x.SpeedupCI[0], x.SpeedupCI[1])
	}
	return text
}

// answer is the variant for a problem, zero for the default, how good the match
// is, and why.
func (t tunedFile) answer(p kernels.Problem) (v kernels.Variant, match, why string) {
	if t.table != nil {
		x, m := t.table.Lookup(p)
		if m != tune.MatchExact {
			return v, "default", "the table has no entry for it"
		}
		return x.Variant(), "exact", "an entry of its own: " + entryTimes(&x)
	}
	a := t.rules.Pick(p)
	rows := rules.RowsPerSM(p.M, t.rules.Device.Units)
	if of := t.rules.Of; of != "" {
		switch a.Match {
		case rules.MatchRule:
			return a.Variant, "rule", fmt.Sprintf("rule %d of %s, of what %s launches: %s", a.Rule+1, a.List.Class, of, a.List.Rules[a.Rule].Box)
		case rules.MatchClass:
			return v, "default", fmt.Sprintf("what %s launches is not known of it: other columns, more rows, or another problem", of)
		}
		return v, "default", fmt.Sprintf("%s has no launch for it", of)
	}
	switch a.Match {
	case rules.MatchRule:
		r := &a.List.Rules[a.Rule]
		return a.Variant, "rule", fmt.Sprintf("rule %d of %s: %s; it has M/SM = %d; over %s, regret %.3f (default %.3f)",
			a.Rule+1, a.List.Class, r.Box, rows, count(r.Evidence.Problems, "measured problem"), r.Evidence.Regret, r.Evidence.DefaultRegret)
	case rules.MatchOutside:
		return v, "default", fmt.Sprintf("outside the measured hull: %s; it has M/SM = %d", a.List.Hull, rows)
	case rules.MatchClass:
		return v, "default", fmt.Sprintf("nothing of %s was measured", rules.ClassOf(p))
	}
	return v, "default", fmt.Sprintf("no rule of %s fires: nothing known beats the default there; it has M/SM = %d", a.List.Class, rows)
}
