package main

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
)

func (e *env) reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "show recorded times against the stream, over rows, columns or shapes: table, plots, page",
		ArgsUsage: "RECORDS...",
		Description: "Each operand is an arm, written as for compare: PATH#base, PATH#peers, PATH#FAMILY, PATH#tuned:FILE, tuned:FILE\n" +
			"and so on. A records file or results folder without a # has up to three arms: the base, our fastest and the\n" +
			"fastest peer. The file of a live compare has its two arms. Alone and without --over, it prints its own table.\n\n" +
			"A plot over M or N has a panel for each fixed other side with three sizes or more. A plot over shape has all\n" +
			"problems of an op and pass side by side. 100% is the stream, a copy of the same tensors in the same run.\n" +
			"`normbench bench base --shapes growth-rows --out DIR` measures the records for a plot over M.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "over", Category: catWhat, Usage: "M or N (the side that grows), or shape (every problem): the order of the table and the axis of the plot"},
			&cli.StringFlag{Name: "plot", Category: catOutput, Usage: "draw to `FILE`.svg; needs --over"},
			htmlFlag,
			&cli.StringFlag{Name: "title", Category: catOutput, Usage: "title of the plot and the page", DefaultText: "the device and the protocol"},
			&cli.StringFlag{Name: "shapes", Category: catWhat, Usage: "`GROUP`, FILE#GROUP, FILE, MxN, or several with commas", DefaultText: "all"},
			&cli.StringFlag{Name: "op", Category: catWhat, Usage: strings.Join(allOps, ", "), DefaultText: "all"},
			&cli.StringFlag{Name: "pass", Category: catWhat, Usage: "fwd or bwd", DefaultText: "both"},
			&cli.StringFlag{Name: "dtype", Category: catWhat, Usage: "bf16, fp16 or fp32, or several", DefaultText: "all"},
			formatFlag,
		},
		Action: e.report,
	}
}

func (e *env) report(c *cli.Context) error {
	format, picture, html := c.String("format"), c.String("plot"), c.String("html")
	over, err := report.AxisOf(c.String("over"))
	if err != nil {
		return err
	}
	if picture != "" && over == nil {
		return hint.Errorf("add --over M, --over N or --over shape", "--plot does not know what to go over")
	}
	wanted, err := selectionOf(c).Filter()
	if err != nil {
		return err
	}
	ops := operands(c)
	if len(ops) == 1 && isLive(ops[0]) && over == nil {
		run, err := readLivePart(ops[0], wanted)
		if err != nil {
			return err
		}
		if err := e.writePage(html, run.Page); err != nil {
			return err
		}
		return run.Render(e.out, format)
	}
	arms, err := e.arms(ops, wanted)
	if err != nil {
		return err
	}
	title := c.String("title")
	if !c.IsSet("title") {
		title = titleOf(arms)
	}
	g := report.Grow(over, arms...)
	if len(ops) == 1 && isLive(ops[0]) {
		if err := tellLive(g, ops[0], wanted); err != nil {
			return err
		}
	} else if len(arms) == 2 {
		g.Tell(report.Compared(arms[0], arms[1]))
	}
	if picture != "" {
		drawn, err := g.Plot(title, over)
		if err != nil {
			return err
		}
		if err := e.writeFile(picture, drawn); err != nil {
			return err
		}
	}
	if err := e.writePage(html, func() *report.Page { return g.Page(title, e.Scope.RunsOf(arms...)) }); err != nil {
		return err
	}
	return g.Render(e.out, format)
}

// tellLive adds the verdicts of a live compare's rounds.
func tellLive(g *report.Growth, path string, wanted func(kernels.Problem) bool) error {
	run, err := readLivePart(path, wanted)
	if err != nil {
		return err
	}
	told := map[kernels.Problem]report.Told{}
	for _, j := range run.Judged {
		told[j.Problem] = report.Told{Speedup: j.Speedup(), Verdict: string(j.Verdict)}
	}
	g.Tell(told)
	return nil
}

// arms are the operands as sides, with only the problems that are wanted.
func (e *env) arms(ops []string, wanted func(kernels.Problem) bool) ([]report.Side, error) {
	if len(ops) == 0 {
		return nil, hint.Errorf("`normbench report results/nvidia-h200`, for one", "report needs records")
	}
	var arms []report.Side
	for _, text := range ops {
		sides, err := e.armsOf(text)
		if err != nil {
			return nil, err
		}
		n := len(arms)
		var fastest report.Side
		for _, s := range sides {
			maps.DeleteFunc(s.Cells, func(p kernels.Problem, _ report.Cell) bool { return !wanted(p) })
			// The fastest of a run of the base alone is the base.
			if len(s.Cells) == 0 || len(sides) > 1 && sameCells(s, fastest) {
				continue
			}
			fastest = s
			if len(ops) > 1 && len(sides) > 1 {
				s.Label, s.Name = text+" "+s.Label, filepath.Base(text)+" "+s.Label
			}
			arms = append(arms, s)
		}
		if len(arms) == n {
			return nil, hint.Errorf("leave out --shapes, --op, --pass and --dtype to see all it holds; "+report.OperandHelp, "%s holds no record that fits", text)
		}
	}
	if len(arms) > report.MaxArms {
		return nil, hint.Errorf("give fewer operands, or choose among their variants with #", "%d arms are more than the %d that a report tells apart", len(arms), report.MaxArms)
	}
	report.Alike(arms)
	return arms, nil
}

// armsOf are the sides of one operand.
func (e *env) armsOf(text string) ([]report.Side, error) {
	switch {
	case strings.Contains(text, "#") || strings.HasPrefix(text, "tuned:"):
		s, err := e.Side(text)
		return []report.Side{s}, err
	case isLive(text):
		arms, err := report.ReadArms(text)
		return arms[:], err
	}
	var sides []report.Side
	for _, arm := range []struct{ selector, label, name string }{{"#base", "base", "normbench default"},
		{"", "fastest of ours", "normbench, fastest recorded"}, {"#peers", "fastest peer", "best other library"}} {
		s, err := e.Side(text + arm.selector)
		if err != nil {
			return nil, err
		}
		s.Label, s.Name = arm.label, arm.name
		sides = append(sides, s)
	}
	return sides, nil
}

// isLive says whether an operand is what a live compare left, with both its arms.
func isLive(text string) bool {
	return textfile.Ext(text) == ".json" && !strings.Contains(text, "#") && !strings.HasPrefix(text, "tuned:")
}

// readLivePart reads a live compare. The whole keeps its verdicts. A part is judged again, because
// verdicts depend on the number of cells.
func readLivePart(path string, wanted func(kernels.Problem) bool) (*report.Live, error) {
	run, err := report.ReadLive(path)
	if err != nil {
		return nil, err
	}
	if run.Keep(wanted); len(run.Duels) == 0 {
		return nil, hint.Errorf("leave out --shapes, --op, --pass or --dtype", "%s has none of the problems asked for", path)
	}
	run.Score()
	return run, nil
}

// sameCells says whether two sides are the same measurements.
func sameCells(a, b report.Side) bool {
	return maps.EqualFunc(a.Cells, b.Cells, func(x, y report.Cell) bool { return x.Run == y.Run && x.Variant == y.Variant })
}

// titleOf names the devices and protocols that arms are of.
func titleOf(arms []report.Side) string {
	var devices, protocols []string
	add := func(list *[]string, v string) {
		if v != "" && !slices.Contains(*list, v) {
			*list = append(*list, v)
		}
	}
	for _, a := range arms {
		for _, c := range a.Cells {
			add(&devices, cmp.Or(c.Card, c.Device))
			add(&protocols, c.Protocol)
		}
	}
	slices.Sort(devices)
	slices.Sort(protocols)
	title := "Speed against the stream"
	if len(devices) > 0 {
		title += " on " + strings.Join(devices, ", ")
	}
	if len(protocols) > 0 {
		title += ", " + strings.Join(protocols, ", ")
	}
	return title
}
