package main

import (
	"fmt"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/report/export"
)

func exportCommand() *command {
	var format, out string
	c := &command{
		common: &common{},
		path:   "export",
		usage:  "write records for other tools: kernel_tuner's cache, Go's benchmark format",
		args:   "RECORDS",
		only:   "one records file or results folder",
		about: `kt-cache writes one file per problem, OUT/problem/device.json, and one per family of
the problem. benchfmt goes to standard output, for benchstat. If a variant was measured more than
once, its finals count, else its last record.`,
		examples: `export results/nvidia-h200 --format kt-cache --out out/caches
export results/nvidia-h200 --format benchfmt`,
	}
	c.add(catOutput, "format", &format, "`FORMAT`: kt-cache or benchfmt").
		only(export.KTCache, export.Benchfmt)
	c.add(catOutput, "out", &out, "`FOLDER` for kt-cache")
	c.run = func(e *env) error {
		if format == "" {
			return hint.Errorf("use kt-cache or benchfmt", "export needs --format")
		}
		switch {
		case format == export.Benchfmt && out != "":
			return hint.Errorf("leave --out out, and redirect standard output", "benchfmt goes to standard output")
		case format != export.Benchfmt && out == "":
			return hint.Errorf("add --out FOLDER", "export --format %s writes files, and has no --out", format)
		}
		ps, notes, err := export.Load(c.operands[0])
		if err != nil {
			return err
		}
		e.Once(notes...)
		if format == export.Benchfmt {
			return export.WriteBenchfmt(e.out, ps)
		}
		n, err := export.WriteFiles(out, ps)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.out, "%s in %s\n", console.Count(n, "file"), out)
		return nil
	}
	return c
}
