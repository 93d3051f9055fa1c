package main

import (
	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/report"
)

func (e *env) compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "A/B table of two recorded operands",
		ArgsUsage: "BASE CANDIDATE",
		Description: "An operand is a records file or a results folder, of which the fastest right variant of each problem\n" +
			"counts, or those behind a #: PATH#base, PATH#FAMILY, PATH#FAMILY@LABEL; or tuned:FILE, a tuned table.",
		Flags:  []cli.Flag{formatFlag},
		Action: e.compare,
	}
}

func (e *env) compare(c *cli.Context) error {
	ops := operands(c)
	if len(ops) != 2 {
		return hint.Errorf("normbench compare BASE CANDIDATE", "compare takes two operands, got %d", len(ops))
	}
	if err := report.CheckFormat(c.String("format")); err != nil {
		return err
	}
	a, err := e.recordedSide(ops[0])
	if err != nil {
		return err
	}
	b, err := e.recordedSide(ops[1])
	if err != nil {
		return err
	}
	for i, s := range []report.Side{a, b} {
		if len(s.Cells) == 0 {
			return hint.Errorf(refHelp, "%s holds no record that fits", ops[i])
		}
	}
	return report.Render(e.stdout, report.Compare(a, b), c.String("format"))
}
