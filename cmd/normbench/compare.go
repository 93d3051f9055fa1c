package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/verdict"
)

// A compareConfig is what the flags of compare ask for.
type compareConfig struct {
	stand
	atLeast float64
	live    liveConfig
}

func compareCommand(e *env) *cli.Command {
	cfg := &compareConfig{}
	cfg.files = []*string{&cfg.live.resume}
	cfg.first = func() *report.Table {
		if ops := cfg.operands; cfg.format != report.FormatJSON && len(ops) == 2 && cfg.runs(e) {
			return (&report.Live{Match: ab.Match{A: ops[0], B: ops[1], Rule: verdict.Default()}}).Table()
		}
		return nil
	}
	// Of two recorded operands these have no effect.
	live := slices.Concat(cfg.live.flags(), cfg.cacheFlags(), []cli.Flag{cfg.seedFlag()},
		cfg.machine.flags(), cfg.peerFlags(), optionFlags(&cfg.Selection))
	cfg.live.names = names(live)
	return e.command(&cli.Command{
		Name:      "compare",
		Usage:     "compare two operands, recorded or run live on the device: an A/B table",
		ArgsUsage: "BASE CANDIDATE",
		Description: "A recorded operand is a records file, a results folder, or tuned:FILE (a tuned " +
			"table). A file or folder stands for what a problem's finals chose, else its fastest " +
			"correct variant. A suffix chooses others: PATH#base, PATH#FAMILY, PATH#FAMILY@LABEL " +
			"or PATH#tuned:FILE. FILE#A and FILE#B are the two arms of a live compare's file; " +
			"both together print that compare's own table.\n\n" +
			"If an operand is base, FAMILY or FAMILY@LABEL, or with --live, both run on the " +
			"device. Interleaved rounds visit them and a second copy of BASE, and each cell gets " +
			"a verdict: see docs/verdicts.md. Every table has each side's speed as a share of the " +
			"stream's; the stream is a copy of the same tensors.",
		Flags: slices.Concat(shapeFlags(&cfg.Selection, "recorded: all; live: as for bench"), []cli.Flag{
			&cli.Float64Flag{Destination: &cfg.atLeast, Name: "at-least",
				Usage:       "exit 1 if CANDIDATE is below this share of the stream's speed, such as 0.8",
				DefaultText: "not checked",
				// a copy is not beaten by more
				Action: within("at-least", 1e-9, 1.5, "write 0.8 for 80% of the stream's speed")},
			cfg.htmlFlag(),
		}, cfg.tableFlags(), cfg.kernelFlags(), live),
	}, &cfg.common, func() error { return compare(e, cfg) })
}

func compare(e *env, cfg *compareConfig) error {
	ops := cfg.operands
	if len(ops) != 2 {
		return hint.Errorf("normbench compare BASE CANDIDATE", "compare takes two operands, got %d", len(ops))
	}
	if err := e.UseBaseline(cfg.live.baseline); err != nil {
		return err
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
	if file, ok := oneLive(ops); ok {
		return compareArms(e, cfg, file, wanted)
	}
	return compareRecorded(e, cfg, wanted)
}

// compareRecorded compares what two operands have recorded.
func compareRecorded(e *env, cfg *compareConfig, wanted func(kernels.Problem) bool) error {
	ops := cfg.operands
	var sides [2]report.Side
	for i, text := range ops {
		s, err := e.Side(text)
		if err != nil {
			return err
		}
		maps.DeleteFunc(s.Cells, func(p kernels.Problem, _ report.Cell) bool { return !wanted(p) })
		if len(s.Cells) == 0 {
			return lab.NoRecord(text)
		}
		sides[i] = s
	}
	if err := checkCompared(e, sides[:]); err != nil {
		return err
	}
	table := report.Compare(sides[0], sides[1])
	if len(table.Rows) == 0 { // so each has some of its own
		has := map[string]kernels.Problem{}
		for _, o := range table.OneSided {
			has[o.Side] = o.Problem
		}
		return lab.NoneInCommon("%s has %s, and %s has %s", ops[0], has["A"], ops[1], has["B"])
	}
	for _, text := range ops {
		if strings.HasPrefix(text, "tuned:") {
			table.Notes = append(table.Notes,
				text+" has times of the sweeps that chose its entries, records the latest of a "+
					"variant: `normbench explain` has the default's of the same sweep.")
		}
	}
	if err := report.Render(e.out, table, cfg.format); err != nil {
		return err
	}
	if err := e.writePage(cfg.html, func() *report.Page {
		names := report.Names(sides[:])
		return table.Page(fmt.Sprintf("%s against %s", names[1], names[0]), report.RunsOf(sides[:]...))
	}); err != nil {
		return err
	}
	return cfg.reaches(e, sides[1])
}

// runs says whether a compare runs its operands on a device.
func (cfg *compareConfig) runs(e *env) bool {
	return cfg.live.on || cfg.live.baseline != "" || e.Runs(cfg.operands[0]) || e.Runs(cfg.operands[1])
}

// checkCompared refuses --kernels where no side has a variant of the folder.
func checkCompared(e *env, sides []report.Side) error {
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

// compareArms shows the verdicts of a live compare. Its arms were measured in turns. A comparison
// of recordings does not know the rounds, and would call differences that the rounds do not show.
func compareArms(e *env, cfg *compareConfig, file string, wanted func(kernels.Problem) bool) error {
	ops := cfg.operands
	for i, arm := range []string{"#A", "#B"} {
		if !strings.HasSuffix(ops[i], arm) {
			return hint.Errorf("`normbench report "+file+"`, or compare "+file+"#A "+file+"#B",
				"the rounds of %s are of B against A", file)
		}
	}
	run, err := report.ReadLivePart(file, wanted)
	if err != nil {
		return err
	}
	arms := run.Sides()
	if err := checkCompared(e, arms[:]); err != nil {
		return err
	}
	if err := showLive(e, &cfg.common, run); err != nil {
		return err
	}
	side := arms[1]
	side.Label = ops[1]
	return cfg.reaches(e, side)
}

// reaches is the gate of --at-least: nil if the side reaches that share of the stream everywhere,
// or if the flag is not given.
func (cfg *compareConfig) reaches(e *env, s report.Side) error {
	if cfg.atLeast == 0 {
		return nil
	}
	least := cfg.atLeast
	lows := report.Shortfalls(s, least)
	if len(lows) == 0 {
		return nil
	}
	for _, l := range lows {
		e.Notef("below %g%% of stream: %s", 100*least, l)
	}
	return &exitError{exitGate, hint.Errorf("`normbench bench` shows its stages; `normbench sweep` finds "+
		"what is faster", "%s is below %g%% of stream in %d of %s, worst %s",
		s.Label, 100*least, len(lows), console.Count(len(s.Cells), "problem"), lows[0])}
}
