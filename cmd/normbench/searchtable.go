package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/study"
)

func (e *env) searchTableCommand() *cli.Command {
	return &cli.Command{
		Name:      "search-table",
		Usage:     "compare the search strategies on recorded grids: GPU time against regret",
		ArgsUsage: "RECORDS|CACHE",
		Description: "CACHE is a kernel_tuner cache or T4 results of any kernel, .json or .json.gz: its knobs and configs are the\n" +
			"space, and the table has a score and the mean regret over shares of it.\n\n" +
			"Replays each strategy on every problem of RECORDS. Each seed splits the samples in halves: searches see\n" +
			"the first, and what they found is held against the grid's best on the second.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "seeds", Usage: "searches of each problem by each strategy, 1 to 1000", Value: 100},
			&cli.BoolFlag{Name: "quick", Usage: "auto, random and the grid alone"},
			&cli.BoolFlag{Name: "naive", Usage: "searches from the base and from a variant of median time, at 1, 3, 6 and 10% of the configs"},
			&cli.StringFlag{Name: "plot", Usage: "`FILE`.svg or .png of regret against GPU time; may name both with a comma"},
			formatFlag,
		},
		Action: e.searchTable,
	}
}

func (e *env) searchTable(c *cli.Context) error {
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench search-table --help` shows its use", "search-table takes one records file or results folder, got %d", len(ops))
	}
	seeds := c.Int("seeds")
	if seeds < 1 || seeds > 1000 {
		return hint.Errorf("use 1 to 1000", "--seeds %d is out of range", seeds)
	}
	if c.Bool("naive") && (c.Bool("quick") || c.String("plot") != "") {
		return hint.Errorf("leave the others out", "--naive goes with neither --quick nor --plot")
	}
	f, err := freeFile(ops[0], false)
	if err != nil {
		return err
	}
	if f != nil {
		if c.String("plot") != "" || c.Bool("naive") {
			return hint.Errorf("leave --plot and --naive out", "a space of another tool has no GPU time to plot, nor a base")
		}
		return e.searchFreeTable(f, freeStrategies(c.Bool("quick")), seeds, c.String("format"))
	}
	g, err := study.Load(ops[0])
	if err != nil {
		return err
	}
	if g.Skipped > 0 {
		e.notef("%s without a base, a stream or a choice left out", count(g.Skipped, "problem"))
	}
	setups := study.Setups()
	if c.Bool("quick") {
		setups = study.Quick()
	}
	if c.Bool("naive") {
		setups = study.Naive()
	}
	e.measuring() // it says itself that it was stopped
	out, err := study.Run(e.ctx, g, setups, seeds, func(done, total int) {
		if done%10 == 0 || done == total {
			e.notef("%d of %s", done, count(total, "seed"))
		}
	})
	if err != nil {
		return err
	}
	var rows []study.Row
	for i, s := range setups {
		rows = append(rows, study.Summarize(g, s, out[i], nil))
	}
	if c.Bool("naive") {
		return report.RenderTable(e.stdout, naiveTable(g, rows, seeds), c.String("format"))
	}
	t := strategyTable(g, rows, seeds)
	halves := newTable("auto by op and pass", "problems", ">count", ">GPU %", ">regret p95 %", ">in 1%", ">med 1%")
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			n := 0
			r := study.Summarize(g, setups[0], out[0], func(x study.Grid) bool {
				ok := x.Problem.Op == op && x.Problem.Pass == pass
				if ok {
					n++
				}
				return ok
			})
			if n > 0 {
				halves.Rows = append(halves.Rows, []string{fmt.Sprintf("%s %s", op, pass), fmt.Sprint(n), pc(r.GPU), pc(r.P95), pc(r.Within), pc(r.Problems)})
			}
		}
	}
	if err := report.RenderTable(e.stdout, t, c.String("format")); err != nil {
		return err
	}
	if c.String("format") == report.FormatText || c.String("format") == report.FormatMarkdown {
		fmt.Fprintln(e.stdout)
		if err := report.RenderTable(e.stdout, halves, c.String("format")); err != nil {
			return err
		}
	}
	return report.PlotRegret(c.String("plot"), rows)
}

func pc(f float64) string { return unsigned(fmt.Sprintf("%.1f", 100*f)) }

// unsigned is a number without the minus of one that is rounded to zero.
func unsigned(s string) string {
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

func naiveTable(g *study.Grids, rows []study.Row, seeds int) *report.Table {
	t := newTable(fmt.Sprintf("%d problems of %s, %s", len(g.Problems), g.Device.Name, count(seeds, "seed")),
		"strategy", ">regret 1%", ">3%", ">6%", ">10%", ">in 1%", ">configs", ">GPU %", ">wall s")
	for i := 0; i < len(rows); {
		n := i + 1
		for n < len(rows) && rows[n].Label == rows[i].Label {
			n++
		}
		row := []string{rows[i].Label}
		for k := range study.NaiveShares { // a base alone has no budget
			row = append(row, unsigned(fmt.Sprintf("%.2f", 100*rows[min(i+k, n-1)].Mean)))
		}
		last := rows[n-1]
		t.Rows = append(t.Rows, append(row, pc(last.Within), fmt.Sprintf("%.0f", last.Variants), pc(last.GPU), fmt.Sprintf("%.1f", last.Wall[1])))
		i = n
	}
	t.Notes = append(t.Notes,
		"regret is the mean over problems and seeds, in %, at budgets of 1 to 10% of the configs; the other columns are of 10%;",
		"in 1% is the share of searches that end within 1% of the best; configs are those compiled per problem;",
		"GPU % is the search's GPU time over the grid's; wall s is per problem: compiling before every round on 16 cores, then the GPU;",
		"the naive base is the variant of median time; auto knows the problems before it, unless it says alone")
	return t
}

func strategyTable(g *study.Grids, rows []study.Row, seeds int) *report.Table {
	t := newTable(fmt.Sprintf("%d problems of %s, %s", len(g.Problems), g.Device.Name, count(seeds, "seed")),
		"strategy", ">budget", ">configs", ">wall s", ">GPU %", ">regret %", ">p95", ">saw 1%", ">in 1%", ">med 1%")
	t.Drop = []string{"saw 1%", "wall s", "GPU %"}
	for _, r := range rows {
		budget := "own"
		switch {
		case r.Share > 0:
			budget = fmt.Sprintf("%.0f%%", 100*r.Share)
		case r.Strategy == "grid":
			budget = "all"
		}
		t.Rows = append(t.Rows, []string{r.Label, budget, fmt.Sprintf("%.0f", r.Variants), fmt.Sprintf("%.1f", r.Wall[1]), pc(r.GPU),
			unsigned(fmt.Sprintf("%.2f", 100*r.Mean)), unsigned(fmt.Sprintf("%.2f", 100*r.P95)), pc(r.Saw), pc(r.Within), pc(r.Problems)})
	}
	t.Notes = append(t.Notes,
		"a row with a budget has every fifth seed;",
		"configs and wall s are per problem: compiling before every round on 16 cores, 0.21 s of a core per unit, then the GPU;",
		"GPU % is the search's GPU time over the grid's, checks and flushes included, of all problems together;",
		"regret is the mean, in %, and its 95th percentile, over the grid's best, on samples that no search saw;",
		"saw 1% is the share of searches that measured a variant within 1% of the best by all samples; in 1% is the share that chose one;",
		"med 1% is the share of problems with a median regret within 1%; the grid's own row is what the noise of the records allows")
	return t
}
