package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/report"
)

// How tables look: flags of every command that prints one.
var layoutFlags = []cli.Flag{
	&cli.BoolFlag{Name: "wide", Category: catOutput, Usage: "print every column of a table, one line per row, beyond the terminal's width"},
	&cli.StringFlag{Name: "columns", Category: catOutput, Usage: "print only these `COLUMNS` of the table, such as 'problem,B us,verdict'"},
	&cli.IntFlag{Name: "width", Category: catOutput, Usage: "width of text tables", DefaultText: "the terminal's, or $COLUMNS; 100 in a pipe"},
	&cli.StringFlag{Name: "color", Category: catOutput, Usage: "colour verdicts: auto, always or never; $NO_COLOR turns auto off", Value: "auto"},
}

// withLayout adds the layout flags to a command that has --format. rule has --columns of its
// own: the widths of a matrix.
func withLayout(c *cli.Command) []cli.Flag {
	flags := c.Flags
	if !hasFlag(flags, "format") || c.Name == "export" { // its formats are no tables
		return flags
	}
	flags = slices.Clip(flags)
	for _, f := range layoutFlags {
		if !hasFlag(c.Flags, f.Names()[0]) {
			flags = append(flags, f)
		}
	}
	return flags
}

func hasFlag(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// setLayout reads the layout flags of a command into standard output.
func (e *env) setLayout(c *cli.Context, flags []cli.Flag) error {
	if !hasFlag(flags, "wide") {
		return nil
	}
	l := &e.out.Layout
	l.Wide = c.Bool("wide")
	width, tty := e.width()
	l.Width = width
	if c.IsSet("width") {
		if l.Width = c.Int("width"); l.Width < 40 {
			return hint.Errorf("use 40 or more, or --wide", "--width %d is too narrow for a table", l.Width)
		}
	}
	l.Width = max(l.Width, 40)
	switch v := c.String("color"); v {
	case "always":
		l.Color = true
	case "never":
	case "auto":
		l.Color = tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	default:
		return hint.Errorf("use auto, always or never", "unknown --color %q", v)
	}
	e.Out.Color = l.Color
	if list := c.String("columns"); list != "" && c.Command.Name != "rule" {
		l.Columns = strings.Split(list, ",")
	}
	return nil
}

// width is that of standard output, or what $COLUMNS says, and whether it is a terminal.
func (e *env) width() (columns int, tty bool) {
	columns = report.DefaultWidth
	t, tty := console.TerminalOf(e.Raw)
	if tty {
		columns = t.Columns()
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		columns = n
	}
	return columns, tty
}
