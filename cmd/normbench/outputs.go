package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/report"
	"normbench/sweep/record"
)

// What commands print and write.

// setLayout has standard output know how tables look.
func (x *common) setLayout(e *env) {
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
func (x *common) check(e *env) error {
	if x.html != "" && filepath.Ext(x.html) != ".html" {
		return hint.Errorf("name it .html", "cannot write a page to %s", x.html)
	}
	if err := report.CheckPlot(x.plot); err != nil {
		return err
	}
	for _, file := range append([]*string{&x.plot, &x.html}, x.files...) {
		if err := checkPlace(durable.Place{Name: *file}); *file != "" && err != nil {
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

// write writes a file, and says so.
func (e *env) write(p durable.Place, data []byte) error {
	if err := p.Write(data); err != nil {
		return err
	}
	e.Notef("wrote %s", p)
	return nil
}

// writePage writes a page where one was asked for.
func (e *env) writePage(path string, make func() *report.Page) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	err := make().Write(&console.Plain{Writer: &b})
	if err == nil {
		err = e.write(durable.Place{Name: path}, b.Bytes())
	}
	return e.late(err)
}

// command is a command that runs with the flags and operands that are read into x. These may stand
// in any order.
func (e *env) command(c *cli.Command, x *common, run func() error) *cli.Command {
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
		x.setLayout(e)
		peers := hasFlag(c.Flags, "peers")
		if err := e.UseKernels(x.kernels, x.include.Value(), x.python, peers || !hasFlag(c.Flags, "kernels")); err != nil {
			return err
		}
		if err := x.check(e); err != nil {
			return err
		}
		return run()
	}
	return c
}

// takes refuses operands that are not of a number.
func (x *common) takes(n int, what string) error {
	if len(x.operands) == n {
		return nil
	}
	return hint.Errorf(fmt.Sprintf("`normbench %s --help` has examples", strings.Fields(what)[0]), "%s, got %d", what, len(x.operands))
}

// openWriter opens a results folder for records, and says what of it was not read. Until it is read
// a signal ends the program: nothing is measured yet.
func (e *env) openWriter(out, id string) (*record.Writer, error) {
	stop := context.AfterFunc(e.Ctx, func() {
		e.Notef("interrupted")
		os.Exit(exitSignal)
	})
	defer stop()
	w, notes, err := record.OpenWriter(out, id)
	if err != nil {
		return nil, err
	}
	e.saved = w.Path()
	e.Once(notes...)
	return w, nil
}
