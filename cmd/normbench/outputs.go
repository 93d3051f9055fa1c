package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// prepare reads what the flags of many commands name, and refuses a column or a file that the end
// of the command would refuse, before anything is measured.
func (c *command) prepare(e *env) error {
	c.setLayout(e)
	runsPython := c.flag("peers") != nil || c.flag("kernels") == nil
	if err := e.UseKernels(c.kernels, c.include, c.python, runsPython); err != nil {
		return err
	}
	for _, o := range c.flags {
		if o.file && c.given[o.name] {
			if err := checkPlace(durable.Place{Name: *o.to.(*string)}); err != nil {
				return err
			}
		}
	}
	if c.columns != "" && c.first != nil {
		if t := c.first(e); t != nil {
			return e.out.Layout.Check(t, c.format)
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

// show prints what has tables and a page, and writes the page where one was asked for.
func (x *common) show(e *env, render func(io.Writer, string) error,
	page func() *report.Page) error {
	if err := render(e.out, x.format); err != nil {
		return err
	}
	return e.writePage(x.html, page)
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
