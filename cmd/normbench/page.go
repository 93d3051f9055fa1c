package main

import (
	"bytes"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/report"
)

var htmlFlag = &cli.StringFlag{Name: "html", Category: catOutput, Usage: "write one page with the verdict, charts and tables to `FILE`"}

// writePage writes a page where one was asked for.
func (e *env) writePage(path string, make func() *report.Page) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	err := make().Write(&console.Plain{Writer: &b})
	if err == nil {
		err = durable.Place{Name: path}.Write(b.Bytes())
	}
	if err != nil {
		return e.late(err)
	}
	e.Notef("wrote %s", path)
	return nil
}
