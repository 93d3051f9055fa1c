package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

// A compareConfig is what the flags of compare ask for.
type compareConfig struct {
	stand
	atLeast float64
	live    liveConfig
}

func compareCommand() *command {
	cfg := &compareConfig{}
	cfg.first = func(e *env) *report.Table {
		ops := cfg.operands
		if cfg.format != report.FormatJSON && len(ops) == 2 && cfg.runs(e) {
			run := ab.Match{A: ops[0], B: ops[1], Rule: verdict.Default()}
			return (&report.Live{Match: run}).Table()
		}
		return nil
	}
	c := &command{
		common: &cfg.common,
		path:   "compare",
		usage:  "compare two operands, recorded or run live on the device: an A/B table",
		args:   "BASE CANDIDATE",
		about: `A recorded operand is a records file, a results folder, or tuned:FILE (a tuned table).
A file or folder stands for what a problem's finals chose, else its fastest correct variant. A
suffix chooses others: PATH#base, PATH#FAMILY, PATH#FAMILY@LABEL or PATH#tuned:FILE. FILE#A and
FILE#B are the two arms of a live compare's file; both together print that compare's own table.

If an operand is base, FAMILY or FAMILY@LABEL, or with --live, both run on the device. Interleaved
rounds visit them and a second copy of BASE, and each cell gets a verdict: see docs/verdicts.md.
Every table has each side's speed as a share of the stream's; the stream is a copy of the same
tensors.`,
		examples: `compare results/nvidia-h200#base results/nvidia-h200 --shapes fast-llm
compare rms_bwd/two_pass rms_bwd/reg_persist --shapes 32x1024 --op rmsnorm --pass bwd
compare base base --baseline-kernels out/main/kernels/families --gate --device cuda --shapes fast-llm`,
		exits:  []int{exitGate, exitUnclear, exitUnfit, exitWrong, exitSignal},
		offers: refNames,
		run:    func(e *env) error { return compare(e, cfg) },
	}
	c.addShapes(&cfg.Selection, "recorded: all; live: as for bench")
	c.add(catHow, "at-least", &cfg.atLeast, "exit 1 if CANDIDATE is below this share of the "+
		"stream's speed, such as 0.8").or("not checked").
		within(1e-9, 1.5, "write 0.8 for 80% of the stream's speed") // a copy is not beaten by more
	c.addHTML()
	c.addTable()
	c.addKernels()
	c.addInclude()
	// Of two recorded operands the others have no effect.
	recorded := len(c.flags)
	c.addPython()
	c.addLive(&cfg.live)
	c.addCache(&cfg.timing)
	c.addSeed()
	c.addMachine(&cfg.Config)
	c.addPeers(&cfg.Config)
	c.addOptions(&cfg.Selection)
	cfg.live.flags = c.flags[recorded:]
	return c
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
	for _, o := range cfg.live.flags {
		if cfg.given[o.name] {
			return hint.Errorf("add --live to run both operands on the device",
				"--%s is for a live compare, and both operands are recorded", o.name)
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
	sides, err := recordedSides(e, cfg, wanted)
	if err != nil {
		return err
	}
	table := report.Compare(sides[0], sides[1])
	if len(table.Rows) == 0 { // so each has some of its own
		has := map[string]kernels.Problem{}
		for _, o := range table.OneSided {
			has[o.Side] = o.Problem
		}
		return ref.NoneInCommon("%s has %s, and %s has %s", ops[0], has["A"], ops[1], has["B"])
	}
	for _, text := range ops {
		if strings.HasPrefix(text, "tuned:") {
			table.Notes = append(table.Notes, text+" has times of the sweeps that chose its entries, "+
				"records the latest of a variant: `normbench explain` has the default's of the same sweep.")
		}
	}
	render := func(w io.Writer, format string) error { return report.Render(w, table, format) }
	page := func() *report.Page {
		names := report.Names(sides)
		return table.Page(fmt.Sprintf("%s against %s", names[1], names[0]), e.Scope.RunsOf(sides...))
	}
	if err := cfg.show(e, render, page); err != nil {
		return err
	}
	return cfg.reaches(e, sides[1])
}

// recordedSides are the operands' cells that are wanted.
func recordedSides(e *env, cfg *compareConfig, wanted func(kernels.Problem) bool) (
	sides []report.Side, err error) {
	for _, text := range cfg.operands {
		s, err := e.Side(text)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(s.Cells, func(p kernels.Problem, _ report.Cell) bool { return !wanted(p) })
		if len(s.Cells) == 0 {
			return nil, hint.Errorf("leave out --shapes, --op, --pass and --dtype to see all it holds; "+
				report.OperandHelp, "%s holds no record that fits", text)
		}
		sides = append(sides, s)
	}
	report.MatchPhases(sides)
	return sides, checkCompared(e, sides)
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
	if err := cfg.show(e, run.Render, run.Page); err != nil {
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
	return &exitError{exitGate, hint.Errorf(
		"`normbench bench` shows its stages; `normbench sweep` finds what is faster",
		"%s is below %g%% of stream in %d of %s, worst %s", s.Label, 100*least, len(lows),
		console.Count(len(s.Cells), "problem"), lows[0])}
}
