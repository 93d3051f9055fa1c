package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// checkOutputs checks what a command will print and write, before anything is measured. late is for
// what fails at its end all the same: the result is printed by then.

// checkOutputs refuses a format, a column or a file that the end of the command would refuse.
func (e *env) checkOutputs(c *cli.Context, flags []cli.Flag) error {
	if hasFlag(flags, "format") && c.Command.Name != "export" { // its formats are no tables
		if err := report.CheckFormat(c.String("format")); err != nil {
			return err
		}
	}
	if html := c.String("html"); html != "" && filepath.Ext(html) != ".html" {
		return hint.Errorf("name it .html", "cannot write a page to %s", html)
	}
	if err := report.CheckPlot(c.String("plot")); err != nil {
		return err
	}
	files := []string{c.String("plot"), c.String("html"), c.String("resume")}
	if slices.Contains([]string{"tune", "rule"}, c.Command.Name) { // elsewhere it is a folder
		files = append(files, c.String("out"))
	}
	for _, file := range files {
		if err := checkPlace(durable.Place{Name: file}); file != "" && err != nil {
			return err
		}
	}
	if len(e.out.Layout.Columns) > 0 {
		if t := e.firstTable(c); t != nil {
			return e.out.Layout.Check(t, c.String("format"))
		}
	}
	return nil
}

func checkPlace(p durable.Place) error {
	err := p.Check()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		err = hint.With(err, "make the folder first")
	}
	return hint.Errorf(durable.Help(err), "cannot write %s: %w", p, durable.Cause(err))
}

// checkResults refuses a results folder of a device in which the files of that name cannot be
// written.
func checkResults(out, device string, names ...string) error {
	if err := record.CheckFolder(out, device); err != nil {
		return err
	}
	for _, name := range names {
		if err := checkPlace(durable.Place{Root: out, Name: filepath.Join(device, name)}); err != nil {
			return err
		}
	}
	return nil
}

// firstTable is the first table that a command which measures or fits will print, without its rows;
// nil where it prints none. The columns of the other commands are checked when they print.
func (e *env) firstTable(c *cli.Context) *report.Table {
	ops, json := operands(c), c.String("format") == report.FormatJSON
	switch name := c.Command.Name; {
	case name == "bench" && !plansBench(c):
		return benchTable(nil, &record.Run{})
	case name == "verify":
		return verifyTable(0, nil)
	case name == "selftest":
		return selftestTable("")
	case json: // of the others it is no table
	case name == "compare" && len(ops) == 2 && e.comparesLive(c, ops):
		return (&report.Live{Match: ab.Match{A: ops[0], B: ops[1], Rule: verdict.Default()}}).Table()
	case name == "sweep":
		return report.Compare(report.Side{}, report.Side{}).Table()
	case name == "learn", name == "tune":
		return mapTable(&rule.Map{})
	}
	return nil
}

// late is an error of what a command wrote after it had measured: its hint says where the records
// are.
func (e *env) late(err error) error {
	if _, gone := os.Stat(e.saved); err == nil || gone != nil {
		return err
	}
	kept := "what was measured is kept in " + e.saved
	if h := hint.Of(err); h != "" {
		kept = h + "; " + kept
	}
	return hint.With(err, kept)
}
