package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/report/export"
)

func (e *env) exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write records for other tools: kernel_tuner's cache, Go's benchmark format",
		ArgsUsage: "RECORDS",
		Description: "kt-cache writes one file per problem, OUT/problem/device.json, and one per family of the problem. benchfmt goes\n" +
			"to standard output, for benchstat. If a variant was measured more than once, its finals count, else its last record.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Category: catOutput, Usage: "`FORMAT`: kt-cache or benchfmt"},
			&cli.StringFlag{Name: "out", Category: catOutput, Usage: "`FOLDER` for kt-cache"},
		},
		Action: func(c *cli.Context) error {
			ops := operands(c)
			if len(ops) != 1 {
				return hint.Errorf("`normbench export --help` shows its use", "export takes one records file or results folder, got %d", len(ops))
			}
			format, out := c.String("format"), c.String("out")
			if format == "" {
				return hint.Errorf("use kt-cache or benchfmt", "export needs --format")
			}
			if err := export.CheckFormat(format); err != nil {
				return err
			}
			switch {
			case format == export.Benchfmt && out != "":
				return hint.Errorf("leave --out out, and redirect standard output", "benchfmt goes to standard output")
			case format != export.Benchfmt && out == "":
				return hint.Errorf("add --out FOLDER", "export --format %s writes files, and has no --out", format)
			}
			ps, notes, err := export.Load(ops[0])
			if err != nil {
				return err
			}
			for _, n := range notes {
				e.Notef("%s", n)
			}
			if format == export.Benchfmt {
				return export.WriteBenchfmt(e.out, ps)
			}
			n, err := export.WriteFiles(out, ps)
			if err != nil {
				return err
			}
			fmt.Fprintf(e.out, "%s in %s\n", console.Count(n, "file"), out)
			return nil
		},
	}
}
