package main

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/shapes"
)

// A reportConfig is what the flags of report ask for.
type reportConfig struct {
	common
	shapes.Selection
	over, title string
}

func reportCommand(e *env) *cli.Command {
	cfg := &reportConfig{}
	return e.command(&cli.Command{
		Name:      "report",
		Usage:     "show recorded times against the stream, over rows, columns or shapes: table, plots, page",
		ArgsUsage: "RECORDS...",
		Description: "Each operand is an arm, written as for compare: PATH#base, PATH#peers, PATH#FAMILY, PATH#tuned:FILE, tuned:FILE\n" +
			"and so on. A records file or results folder without a # has up to three arms: the base, our fastest and the\n" +
			"fastest peer. The file of a live compare has its two arms. Alone and without --over, it prints its own table.\n\n" +
			"A plot over M or N has a panel for each fixed other side with three sizes or more. A plot over shape has all\n" +
			"problems of an op and pass side by side. 100% is the stream, a copy of the same tensors in the same run.\n" +
			"`normbench bench base --shapes growth-rows --out DIR` measures the records for a plot over M.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.over, Name: "over", Category: catWhat, Usage: "M or N (the side that grows), or shape (every problem): the order of the table and the axis of the plot"},
			&cli.StringFlag{Destination: &cfg.plot, Name: "plot", Category: catOutput, Usage: "draw to `FILE`.svg; needs --over"},
			cfg.htmlFlag(),
			&cli.StringFlag{Destination: &cfg.title, Name: "title", Category: catOutput, Usage: "title of the plot and the page", DefaultText: "the device and the protocol"},
		}, shapeFlags(&cfg.Selection, "all"), cfg.tableFlags()),
	}, &cfg.common, func() error { return showReport(e, cfg) })
}

func showReport(e *env, cfg *reportConfig) error {
	cfg.Given = cfg.given
	over, err := report.AxisOf(cfg.over)
	if err != nil {
		return err
	}
	if cfg.plot != "" && over == nil {
		return hint.Errorf("add --over M, --over N or --over shape", "--plot does not know what to go over")
	}
	wanted, err := cfg.Filter()
	if err != nil {
		return err
	}
	ops := cfg.operands
	if len(ops) == 1 && isLive(ops[0]) && over == nil {
		run, err := readLivePart(ops[0], wanted)
		if err != nil {
			return err
		}
		if err := e.writePage(cfg.html, run.Page); err != nil {
			return err
		}
		return run.Render(e.out, cfg.format)
	}
	sides, err := arms(e, ops, wanted)
	if err != nil {
		return err
	}
	title := cfg.title
	if title == "" {
		title = titleOf(sides)
	}
	g := report.Grow(over, sides...)
	if len(ops) == 1 && isLive(ops[0]) {
		if err := tellLive(g, ops[0], wanted); err != nil {
			return err
		}
	} else if len(sides) == 2 {
		g.Tell(report.Compared(sides[0], sides[1]))
	}
	if cfg.plot != "" {
		drawn, err := g.Plot(title, over)
		if err != nil {
			return err
		}
		if err := e.write(durable.Place{Name: cfg.plot}, drawn); err != nil {
			return err
		}
	}
	if err := e.writePage(cfg.html, func() *report.Page { return g.Page(title, e.Scope.RunsOf(sides...)) }); err != nil {
		return err
	}
	return g.Render(e.out, cfg.format)
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
func arms(e *env, ops []string, wanted func(kernels.Problem) bool) ([]report.Side, error) {
	if len(ops) == 0 {
		return nil, hint.Errorf("`normbench report results/nvidia-h200`, for one", "report needs records")
	}
	var arms []report.Side
	for _, text := range ops {
		sides, err := armsOf(e, text)
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
func armsOf(e *env, text string) ([]report.Side, error) {
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
