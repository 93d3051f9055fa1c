package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/lab"
	"normbench/report"
)

// What commands print and write.

// setLayout has standard output know how tables look.
func (x *commonFlags) setLayout(e *env) {
	l := &e.out.Layout
	columns, tty := e.width()
	l.Wide, l.Width = x.wide, max(columns, 40)
	if x.given["width"] {
		l.Width = x.width
	}
	l.Color = x.color == "always" ||
		x.color == "auto" && tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	e.Out.Color = l.Color
	if x.columns != "" {
		l.Columns = strings.Split(x.columns, ",")
	}
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

// check refuses a column or a file that the end of the command would refuse, before anything is
// measured.
func (x *commonFlags) check(e *env) error {
	if x.html != "" && filepath.Ext(x.html) != ".html" {
		return hint.Errorf("name it .html", "cannot write a page to %s", x.html)
	}
	if x.plot != "" && filepath.Ext(x.plot) != ".svg" {
		return hint.Errorf("name it .svg; a browser opens it, and `rsvg-convert x.svg -o x.png` makes "+
			"a PNG of it", "cannot plot to %s", x.plot)
	}
	for _, file := range append([]*string{&x.plot, &x.html}, x.files...) {
		if *file == "" { // an empty name is the working folder
			continue
		}
		if err := lab.CheckPlace(durable.Place{Name: *file}); err != nil {
			return err
		}
	}
	if x.columns != "" && x.first != nil {
		if t := x.first(); t != nil {
			return e.out.Layout.Check(t, x.format)
		}
	}
	return nil
}

// writePage writes a page where one was asked for.
func (e *env) writePage(path string, make func() *report.Page) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	err := make().Write(&console.PlainWriter{Writer: &b})
	if err == nil {
		err = e.Write(durable.Place{Name: path}, b.Bytes())
	}
	return e.WithRecords(err)
}

// command is a command that runs with the flags and operands that are read into x. These may stand
// in any order.
func (e *env) command(c *cli.Command, x *commonFlags, run func() error) *cli.Command {
	c.Flags = append(c.Flags, &cli.BoolFlag{Destination: &x.quiet, Name: "quiet", Category: catOutput,
		Usage: "print no notes and no progress on standard error, errors alone"})
	c.SkipFlagParsing = true // the library's stops at the first operand, as package flag does
	c.Action = func(ctx *cli.Context) error {
		err := x.parse(ctx, c)
		if errors.Is(err, errHelp) {
			cli.HelpPrinter(ctx.App.Writer, c.CustomHelpTemplate, ctx.Command)
			return nil
		}
		if err != nil {
			return err
		}
		e.Quiet = x.quiet
		if !x.hosts { // what waits longest tells more
			defer e.Wait("%s is at work", strings.TrimPrefix(ctx.Command.HelpName, "normbench ")).End()
		}
		x.setLayout(e)
		if !x.loads {
			flags := names(c.Flags)
			if err := e.UseKernels(x.kernels, x.include.Value(), x.python, slices.Contains(flags, "peers") ||
				!slices.Contains(flags, "kernels"), append(strings.Split(ctx.String("family"), ","), x.operands...)); err != nil {
				return err
			}
		}
		if err := x.check(e); err != nil {
			return err
		}
		return run()
	}
	return c
}
