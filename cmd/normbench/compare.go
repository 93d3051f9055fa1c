package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
)

func (e *env) compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "compare two operands, recorded or run live on the device: an A/B table",
		ArgsUsage: "BASE CANDIDATE",
		Description: "A recorded operand is a records file, a results folder, or tuned:FILE (a tuned table). A file or folder stands for\n" +
			"what a problem's finals chose, else its fastest correct variant. A suffix chooses others: PATH#base, PATH#FAMILY, PATH#FAMILY@LABEL\n" +
			"or PATH#tuned:FILE. FILE#A and FILE#B are the two arms of a live compare's file; both together print that\n" +
			"compare's own table.\n\n" +
			"If an operand is base, FAMILY or FAMILY@LABEL, or with --live, both run on the device. Interleaved rounds visit\n" +
			"them and a second copy of BASE, and each cell gets a verdict: see docs/verdicts.md. Every table has each side's\n" +
			"speed as a share of the stream's; the stream is a copy of the same tensors.",
		Flags: join([]cli.Flag{
			&cli.StringFlag{Name: "shapes", Category: catWhat, Usage: "`GROUP`, FILE#GROUP, FILE, MxN, or several with commas", DefaultText: "recorded: all; live: smoke on a cpu, default on a GPU"},
			&cli.StringFlag{Name: "op", Category: catWhat, Usage: strings.Join(allOps, ", "), DefaultText: "all"},
			&cli.StringFlag{Name: "pass", Category: catWhat, Usage: "fwd or bwd", DefaultText: "both"},
			&cli.StringFlag{Name: "dtype", Category: catWhat, Usage: "bf16, fp16 or fp32, or several", DefaultText: "recorded: all; live: bf16"},
			&cli.Float64Flag{Name: "at-least", Usage: "exit 1 if CANDIDATE is below this share of the stream's speed, such as 0.8", DefaultText: "not checked"},
			htmlFlag, formatFlag, kernelsFlag, includeFlag,
		}, liveFlags, deviceFlags),
		Action: e.compare,
	}
}

func (e *env) compare(c *cli.Context) error {
	ops := operands(c)
	if len(ops) != 2 {
		return hint.Errorf("normbench compare BASE CANDIDATE", "compare takes two operands, got %d", len(ops))
	}
	if err := checkAtLeast(c); err != nil {
		return err
	}
	if err := e.UseBaseline(c.String("baseline-kernels")); err != nil {
		return err
	}
	if e.comparesLive(c, ops) {
		return e.live(c, ops)
	}
	for _, f := range join(liveFlags, deviceFlags) {
		if name := f.Names()[0]; c.IsSet(name) {
			return hint.Errorf("add --live to run both operands on the device", "--%s is for a live compare, and both operands are recorded", name)
		}
	}
	wanted, err := selectionOf(c).Filter()
	if err != nil {
		return err
	}
	if file, ok := oneLive(ops); ok {
		return e.compareArms(c, file, ops, wanted)
	}
	var sides [2]report.Side
	for i, text := range ops {
		s, err := e.Side(text)
		if err != nil {
			return err
		}
		maps.DeleteFunc(s.Cells, func(p kernels.Problem, _ report.Cell) bool { return !wanted(p) })
		if len(s.Cells) == 0 {
			return hint.Errorf("leave out --shapes, --op, --pass and --dtype to see all it holds; "+report.OperandHelp, "%s holds no record that fits", text)
		}
		sides[i] = s
	}
	if err := e.checkCompared(sides[:]); err != nil {
		return err
	}
	report.Alike(sides[:])
	table := report.Compare(sides[0], sides[1])
	if len(table.Rows) == 0 { // so each has some of its own
		has := map[string]kernels.Problem{}
		for _, o := range table.OneSided {
			has[o.Side] = o.Problem
		}
		return noneInCommon("%s has %s, and %s has %s", ops[0], has["A"], ops[1], has["B"])
	}
	for _, text := range ops {
		if strings.HasPrefix(text, "tuned:") {
			table.Notes = append(table.Notes, text+" has times of the sweeps that chose its entries, records the latest of a variant: `normbench explain` has the default's of the same sweep.")
		}
	}
	if err := report.Render(e.out, table, c.String("format")); err != nil {
		return err
	}
	if err := e.writePage(c.String("html"), func() *report.Page {
		names := report.Names(sides[:])
		return table.Page(fmt.Sprintf("%s against %s", names[1], names[0]), e.Scope.RunsOf(sides[:]...))
	}); err != nil {
		return err
	}
	return e.atLeast(c, sides[1])
}

// comparesLive says whether a compare runs its operands on a device.
func (e *env) comparesLive(c *cli.Context, ops []string) bool {
	return c.Bool("live") || c.IsSet("baseline-kernels") || e.Runs(ops[0]) || e.Runs(ops[1])
}

// checkCompared refuses --kernels where no side has a variant of the folder.
func (e *env) checkCompared(sides []report.Side) error {
	for _, s := range sides {
		for _, x := range s.Cells {
			if e.Ours(x.Variant) {
				return nil
			}
		}
	}
	return e.Unused(errors.New("both operands are recorded, and neither has a variant of it"))
}

// oneLive is the live compare that both operands are arms of.
func oneLive(ops []string) (file string, ok bool) {
	var files [2]string
	for i, text := range ops {
		path, arm, _ := strings.Cut(text, "#")
		if textfile.Ext(path) != ".json" || arm != "A" && arm != "B" {
			return "", false
		}
		files[i] = filepath.Clean(path)
	}
	return files[0], files[0] == files[1]
}

// compareArms shows the verdicts of a live compare. Its arms were measured in turns. A comparison of
// recordings does not know the rounds, and would call differences that the rounds do not show.
func (e *env) compareArms(c *cli.Context, file string, ops []string, wanted func(kernels.Problem) bool) error {
	for i, arm := range []string{"#A", "#B"} {
		if !strings.HasSuffix(ops[i], arm) {
			return hint.Errorf("`normbench report "+file+"`, or compare "+file+"#A "+file+"#B", "the rounds of %s are of B against A", file)
		}
	}
	run, err := readLivePart(file, wanted)
	if err != nil {
		return err
	}
	arms := run.Sides()
	if err := e.checkCompared(arms[:]); err != nil {
		return err
	}
	if err := run.Render(e.out, c.String("format")); err != nil {
		return err
	}
	if err := e.writePage(c.String("html"), run.Page); err != nil {
		return err
	}
	side := arms[1]
	side.Label = ops[1]
	return e.atLeast(c, side)
}

// noneInCommon is the trouble of two operands that cannot be compared; the rest says what
// they have, and may know the way out.
func noneInCommon(format string, args ...any) error {
	why := fmt.Errorf(format, args...)
	return hint.Errorf(cmp.Or(hint.Of(why), "check --shapes, --op, --pass and --dtype"), "the operands have no problem in common; %w", why)
}

func checkAtLeast(c *cli.Context) error {
	if x := c.Float64("at-least"); c.IsSet("at-least") && !(x > 0 && x <= 1.5) { // a copy is not beaten by more
		return hint.Errorf("write 0.8 for 80% of the stream's speed", "--at-least %g is out of range", x)
	}
	return nil
}

// atLeast is the gate of --at-least: nil if the side reaches that share of the
// stream everywhere, or if the flag is not given.
func (e *env) atLeast(c *cli.Context, s report.Side) error {
	if !c.IsSet("at-least") {
		return nil
	}
	least := c.Float64("at-least")
	lows := report.Below(s, least)
	if len(lows) == 0 {
		return nil
	}
	for _, l := range lows {
		e.Notef("below %g%% of stream: %s", 100*least, l)
	}
	return &coded{exitGate, hint.Errorf("`normbench bench` shows its stages; `normbench sweep` finds what is faster", "%s is below %g%% of stream in %d of %s, worst %s",
		s.Label, 100*least, len(lows), console.Count(len(s.Cells), "problem"), lows[0])}
}
