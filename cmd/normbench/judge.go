package main

import (
	"cmp"
	"io"
	"math"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/verdict"
)

func judgeCommand(e *env) *cli.Command {
	x := &commonFlags{only: "one file of rounds"}
	var step float64
	var gate bool
	return e.command(&cli.Command{
		Name:      "judge",
		Usage:     "say whether B is faster than A, from paired rounds that any tool measured",
		ArgsUsage: "ROUNDS",
		Description: "A round visits A, B and, if you can, A2 (a second copy of A) in random order; its " +
			"times are medians of a few launches, in any one unit. 12 rounds find a change of 2% " +
			"if equal visits scatter by up to 0.6%, 24 if by up to 1%; of a scatter of 2% they " +
			"find an eighth and a half. 10 rounds are the minimum. ROUNDS is CSV with a header, " +
			"a,b[,a2][,cell]; - reads standard input. cell names the comparison; each cell is judged " +
			"by itself. FASTER and SLOWER are about B, speedup is A's time over B's, and verdicts are wrong in at most 0.5% of cells under " +
			"drift, slow periods and outliers. Where one side keeps a mode of its own, more are " +
			"wrong: 1 to 4% of cells (kept over 3 rounds) or 8 to 13% (over 8). SAME means " +
			"within 1%. INCONCLUSIVE has a reason, such as two modes of the rounds. A round that takes " +
			"100 times its arm's median is named and does not count. q is p by Benjamini and Hochberg over the cells. " +
			"Without A2, nothing shows how much two copies of one code differ: then trust no " +
			"effect below 2%. The exit status is 0 whatever the verdict, unless --gate asks.",
		Flags: append([]cli.Flag{
			&cli.Float64Flag{Destination: &step, Name: "step",
				Usage:  "step of the clock, in the unit of the times, which widens what counts as no difference; 0 is none",
				Action: checkRange("step", 0, math.MaxFloat64, "give it in the unit of the times")},
			&cli.BoolFlag{Destination: &gate, Name: "gate",
				Usage: "exit 1 if a cell is SLOWER, and say so first"},
		}, x.tableFlags()...),
	}, x, func() error { return judge(e, x.operands[0], step, gate, x.format) })
}

func judge(e *env, file string, step float64, gate bool, format string) error {
	var data []byte
	var err error
	name := file
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(e.stdin)
	} else {
		data, err = textfile.Read(name, textfile.Large)
	}
	if err != nil {
		return hint.Errorf(cmp.Or(hint.Of(err), "give a file of rounds, or - for standard input"),
			"rounds %s: %w", file, durable.Cause(err))
	}
	cells, err := verdict.ParseRounds(name, data)
	if err != nil {
		return err
	}
	t := report.RoundsTable(cells, step, gate)
	if err := report.RenderTable(e.out, t, format); err != nil || !gate || t.Outcome.Kind == report.Passed {
		return err
	}
	return lab.Exit(exitGate, hint.Errorf("\"speedup\" has the interval of each; measure them again to be sure",
		"%s", t.Outcome.Reason))
}
