package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/shapes"
)

// A reportConfig is what the flags of report ask for.
type reportConfig struct {
	commonFlags
	shapes.Selection
}

func reportCommand(e *env) *cli.Command {
	cfg := &reportConfig{}
	return e.command(&cli.Command{
		Name:      "report",
		Usage:     "print what one file or folder has recorded, as tables, a plot or a page",
		ArgsUsage: "FILE|FOLDER",
		Description: "Prints the table of a live compare again, from the compare-RUN.json that `normbench " +
			"compare --out` wrote. Of a records file or a results folder it compares the fastest " +
			"config of each problem, B, with its base, A. `normbench compare A B` compares two.\n\n" +
			plotHelp,
		Flags: slices.Concat(cfg.plotFlags(), shapeFlags(&cfg.Selection, "all", "all"), cfg.tableFlags()),
	}, &cfg.commonFlags, func() error { return showReport(e, cfg) })
}

func showReport(e *env, cfg *reportConfig) error {
	cfg.Given = cfg.given
	wanted, err := cfg.Filter()
	if err != nil {
		return err
	}
	ops := cfg.operands
	switch {
	case len(ops) == 2:
		return hint.Errorf("`normbench compare "+quoteWords(ops)+"` compares two",
			"report takes one recorded file or folder, got 2")
	case len(ops) != 1:
		return hint.Errorf("`normbench report results/nvidia-h200`, for one",
			"report takes one recorded file or folder, got %d", len(ops))
	case strings.Contains(ops[0], "#") || strings.HasPrefix(ops[0], "tuned:"):
		return hint.Errorf("`normbench compare A B` compares it with another",
			"%s is an operand, and report takes a whole file or folder", ops[0])
	}
	var c *report.Comparison
	if textfile.Ext(ops[0]) == ".json" {
		var live *report.LiveFile
		if live, err = report.ReadLive(ops[0]); err != nil {
			return err
		}
		if live.Keep(wanted); len(live.Duels) == 0 {
			return hint.Errorf("leave out --shapes, --model, --op, --pass or --dtype",
				"%s has none of the problems asked for", ops[0])
		}
		c = live.Comparison()
	} else if c, err = compareRecorded(e, []string{ops[0] + "#base", ops[0]}, wanted); err != nil {
		return err
	} else if err = putBeside(e, c, ops[0], wanted); err != nil {
		return err
	}
	page := "report.html"
	if _, err := os.Stat(defaultOut); err == nil {
		page = filepath.Join(defaultOut, page)
	}
	next := "`normbench report " + quoteWord(ops[0]) + " --html " + page + "` draws it as a page"
	if cfg.html != "" {
		next = "open " + cfg.html + " in a browser"
	}
	c.Next = next + "; `normbench sweep` tunes kernels on this machine"
	return showCompared(e, &cfg.commonFlags, &cfg.Selection, c)
}

// putBeside puts normbench's default beside what a family against itself has recorded.
func putBeside(e *env, c *report.Comparison, path string, wanted func(kernels.Problem) bool) error {
	var sides [2]report.Side
	for i, text := range []string{path + "#default", path} {
		s, err := e.Side(text)
		if err != nil {
			return err
		}
		maps.DeleteFunc(s.Cells, func(p kernels.Problem, _ report.Measurement) bool { return !wanted(p) })
		sides[i] = s
	}
	sides[0].Label = "normbench's default"
	c.PutBeside(sides[0], sides[1])
	return nil
}
