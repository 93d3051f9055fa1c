package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/report/export"
	"normbench/sweep/record"
)

// exportCommand makes the command export.
func exportCommand(e *env) *cli.Command {
	x := &commonFlags{only: "one records file or results folder"}
	var format, out string
	return e.command(&cli.Command{
		Name:      "export",
		Usage:     "write records for other tools: kernel_tuner's cache, Go's benchmark format",
		ArgsUsage: "RECORDS",
		Description: "kt-cache writes one file per problem, OUT/problem/device.json. " +
			"benchfmt goes to standard output, for benchstat. If a variant was " +
			"measured more than once, its finals count, else its last record.",
		Flags: []cli.Flag{
			&cli.StringFlag{Destination: &format, Name: "format", Category: catOutput,
				Usage: "`FORMAT`: kt-cache or benchfmt"},
			&cli.StringFlag{Destination: &out, Name: "out", Category: catOutput,
				Usage: "`FOLDER` for kt-cache"},
		},
	}, x, func() error {
		if format == "" {
			return hint.Errorf("use kt-cache or benchfmt", "export needs --format")
		}
		switch {
		case format == export.Benchfmt && out != "":
			return hint.Errorf("leave --out out, and redirect standard output",
				"benchfmt goes to standard output")
		case format != export.Benchfmt && out == "":
			return hint.Errorf("add --out FOLDER", "export --format %s writes files, and has no --out",
				format)
		}
		ps, notes, err := record.ReadProblems(x.operands[0])
		if err != nil {
			return err
		}
		e.NoteOnce(notes...)
		if format == export.Benchfmt {
			return export.WriteBenchfmt(e.out, ps)
		}
		n, err := export.WriteFiles(out, ps)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.out, "%s in %s\n", console.Count(n, "file"), out)
		return nil
	})
}
