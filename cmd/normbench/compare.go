package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/sweep/verdict"
)

// A compareConfig is what the flags of compare ask for.
type compareConfig struct {
	targetFlags
	live liveConfig
}

func compareCommand(e *env) *cli.Command {
	cfg := &compareConfig{}
	cfg.files = []*string{&cfg.live.resume}
	cfg.first = func() *report.Table {
		if ops := cfg.operands; len(ops) == 2 && cfg.runs(e) {
			return (&report.LiveFile{Experiment: ab.Experiment{A: ops[0], B: ops[1], Rule: verdict.Default()}}).
				Comparison().Table()
		}
		return nil
	}
	// Of two recorded operands these have no effect.
	live := slices.Concat(cfg.live.flags(), cfg.cacheFlags(), []cli.Flag{cfg.seedFlag()},
		cfg.machineFlags.flags(), cfg.peerFlags(), optionFlags(&cfg.Selection))
	cfg.live.names = names(live)
	return e.command(&cli.Command{
		Name:      "compare",
		Usage:     "compare two operands, recorded or run live on the device: an A/B table",
		ArgsUsage: "A B",
		Description: "A is the baseline and B is judged against it: speedup is A's time over B's. A " +
			"recorded operand is a records file, a results folder, or tuned:FILE (a tuned " +
			"table). A file or folder stands for what a problem's finals chose, else its fastest " +
			"correct variant. A suffix chooses others: PATH#base, PATH#FAMILY or PATH#FAMILY@LABEL. " +
			"`normbench report FILE` prints the table of a live compare again.\n\n" +
			"If an operand is base, FAMILY or FAMILY@LABEL, or with --live, both run on the " +
			"device. Interleaved rounds visit them and a second copy of A, and each problem gets " +
			"a verdict: see docs/read-a-table.md. Every table has each side's speed as a share of the " +
			"stream's; the stream is a copy of the same tensors.\n\n" + plotHelp,
		Flags: slices.Concat(shapeFlags(&cfg.Selection, "recorded: all; live: as for bench", "recorded: all; live: as for bench"),
			cfg.plotFlags(), cfg.tableFlags(), cfg.kernelFlags(), live),
	}, &cfg.commonFlags, func() error { return compare(e, cfg) })
}

func compare(e *env, cfg *compareConfig) error {
	ops := cfg.operands
	if len(ops) != 2 {
		help := "normbench compare A B"
		if len(ops) == 1 {
			help += "; `normbench report " + quoteWord(ops[0]) + "` prints what one has recorded"
		}
		return hint.Errorf(help, "compare takes two operands, got %d", len(ops))
	}
	if cfg.Device == "cpu" && cfg.live.baseline != "" { // better said before another checkout is read
		return lab.NoSources("the cpu")
	}
	if err := e.UseBaseline(cfg.live.baseline); err != nil {
		return err
	}
	for _, manifest := range slices.Sorted(maps.Keys(e.Unread)) {
		why := e.Unread[manifest]
		return hint.Errorf(hint.Of(why), "--baseline-kernels %s: %w", cfg.live.baseline, why)
	}
	if cfg.runs(e) {
		return compareLive(e, cfg)
	}
	for _, name := range append(cfg.live.names, "python") {
		if cfg.given[name] {
			return hint.Errorf("add --live to run both operands on the device",
				"--%s is for a live compare, and both operands are recorded", name)
		}
	}
	cfg.Given = cfg.given
	wanted, err := cfg.Filter()
	if err != nil {
		return err
	}
	c, err := compareRecorded(e, ops, wanted)
	if err != nil {
		return err
	}
	return showCompared(e, &cfg.commonFlags, &cfg.Selection, c)
}

// compareRecorded compares what two operands have recorded.
func compareRecorded(e *env, ops []string, wanted func(kernels.Problem) bool) (*report.Comparison, error) {
	var sides [2]report.Side
	for i, text := range ops {
		s, err := e.Side(text)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(s.Cells, func(p kernels.Problem, _ report.Measurement) bool { return !wanted(p) })
		if len(s.Cells) == 0 {
			return nil, hint.Errorf("leave out --shapes, --model, --op, --pass and --dtype to see all it holds; "+
				record.OperandHelp, "%s holds no record that fits", text)
		}
		sides[i] = s
	}
	ours := func(x report.Measurement) bool { return e.IsUsers(x.Variant) }
	if !sides[0].HoldsForAny(ours) && !sides[1].HoldsForAny(ours) {
		why := errors.New("both operands are recorded, and neither has a variant of it")
		if err := e.ExplainUnused(why); err != nil {
			return nil, err
		}
	}
	c := report.Compare(sides[0], sides[1])
	if len(c.Rows) == 0 { // so each has some of its own
		has := map[bool]kernels.Problem{} // by whether A lacks it
		for _, r := range c.OneSided {
			has[r.A.Status == report.Missing] = r.Problem
		}
		return nil, ab.NoneInCommon("%s has %s, and %s has %s", ops[0], has[false], ops[1], has[true])
	}
	for _, text := range ops {
		if strings.HasPrefix(text, "tuned:") {
			c.Notes = append(c.Notes,
				text+" has times of the sweeps that chose its entries, records the latest of a "+
					"variant: `normbench explain` has the default's of the same sweep.")
		}
	}
	return c, nil
}

// showCompared draws a comparison, prints it with what it is worth in the steps that are asked for, and
// writes its page.
func showCompared(e *env, x *commonFlags, s *shapes.Selection, c *report.Comparison) error {
	steps, err := s.Steps()
	if err != nil {
		return err
	}
	c.SetSteps(steps)
	title := cmp.Or(x.title, c.Title())
	if x.plot != "" {
		drawn, err := c.Plot(title)
		if err != nil {
			return err
		}
		if err := e.Write(durable.Place{Name: x.plot}, drawn); err != nil {
			return err
		}
	}
	if err := report.Render(e.out, c, x.format); err != nil {
		return err
	}
	return e.writePage(x.html, func() *report.Page { return c.Page(title) })
}

// runs says whether a compare runs its operands on a device.
func (cfg *compareConfig) runs(e *env) bool {
	return cfg.live.on || cfg.live.baseline != "" || e.Runs(cfg.operands[0]) || e.Runs(cfg.operands[1])
}
