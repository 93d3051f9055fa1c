package study

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/sweep/search"
)

// TestLab prints the tables of docs/search.md, in Markdown, and draws its plot. `make lab` runs it.
//
//	NORMBENCH_LAB="results/nvidia-h200/grids cache.json.gz" go test ./sweep/study -run Lab -v
//
// A folder has recorded grids, of `sweep --strategy grid`. A file is a kernel_tuner cache of any
// kernel. Paths are relative to the repository. NORMBENCH_LAB_SEEDS is the number of searches of each
// problem by each strategy: 100 of grids and 24 of a cache, unless it says otherwise.
// NORMBENCH_LAB_PLOT=FILE.svg draws regret against GPU time for the grids.
func TestLab(t *testing.T) {
	paths := strings.Fields(os.Getenv("NORMBENCH_LAB"))
	if len(paths) == 0 {
		t.Skip("NORMBENCH_LAB names no records: see `make lab`")
	}
	seeds := func(usual int) int {
		text := os.Getenv("NORMBENCH_LAB_SEEDS")
		if text == "" {
			return usual
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("NORMBENCH_LAB_SEEDS=%s is no number of searches", text)
		}
		return n
	}
	for _, path := range paths {
		path = fromRoot(path)
		if st, err := os.Stat(path); err != nil {
			t.Fatal(err)
		} else if st.IsDir() {
			labGrids(t, path, seeds(100), os.Getenv("NORMBENCH_LAB_PLOT"))
		} else {
			labCache(t, path, seeds(24))
		}
	}
}

func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", "..", path)
}

// labGrids prints what each strategy comes to on recorded grids.
func labGrids(t *testing.T, path string, seeds int, plot string) {
	g, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	all, setups := Setups(), append(Setups(), Naive()...)
	out, err := Run(t.Context(), g, setups, seeds)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for i, s := range setups {
		rows = append(rows, Summarize(g, s, out[i], nil))
	}
	title := fmt.Sprintf("%d problems of %s, %d seeds", len(g.Problems), g.Device.Name, seeds)
	if g.Skipped > 0 {
		title += fmt.Sprintf("; %d without a base, a stream or a choice left out", g.Skipped)
	}
	fmt.Print(strategyTable(title, rows[:len(all)]), passTable(g, all[0], out[0]), naiveTable(title, rows[len(all):]))
	if plot != "" {
		if err := plotRegret(fromRoot(plot), rows[:len(all)]); err != nil {
			t.Fatal(err)
		}
	}
}

// labCache prints what each strategy comes to on a space of another tool.
func labCache(t *testing.T, path string, seeds int) {
	f, err := readCache(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := RunFree(t.Context(), f, []string{search.Auto, search.Evolve, search.Random}, seeds)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Print(freeTable(f, rows, seeds))
}

// markdown lays out a table whose first column is text.
func markdown(title string, header []string, rows [][]string, notes ...string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("|" + strings.Join(cells, "|") + "|\n") }
	b.WriteString("**" + title + "**\n\n")
	line(header)
	b.WriteString("|:--|" + strings.Repeat("--:|", len(header)-1) + "\n")
	for _, r := range rows {
		line(r)
	}
	b.WriteByte('\n')
	for _, n := range notes {
		b.WriteString("- " + n + "\n")
	}
	return b.String() + "\n"
}

// fixed writes a number without the minus of one that is rounded to zero.
func fixed(digits int, f float64) string {
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

func pc(f float64) string { return fixed(1, 100*f) }

func strategyTable(title string, rows []Row) string {
	var cells [][]string
	for _, r := range rows {
		budget := "own"
		switch {
		case r.Share > 0:
			budget = fixed(0, 100*r.Share) + "%"
		case r.Strategy == search.Grid:
			budget = "all"
		}
		cells = append(cells, []string{r.Label, budget, fixed(0, r.Variants), fixed(1, r.Wall[1]), pc(r.GPU),
			fixed(2, 100*r.Mean), fixed(2, 100*r.P95), pc(r.Saw), pc(r.Within), pc(r.Problems)})
	}
	return markdown(title, []string{"strategy", "budget", "configs", "wall s", "GPU %", "regret %", "p95", "saw 1%", "in 1%", "med 1%"}, cells,
		"a row with a budget has every fifth seed;",
		"configs and wall s are per problem: compiling before every round on 16 cores, 0.21 s of a core per unit, then the GPU;",
		"GPU % is the search's GPU time over the grid's, checks and flushes included, of all problems together;",
		"regret is the mean, in %, and its 95th percentile, over the grid's best, on samples that no search saw;",
		"saw 1% is the share of searches that measured a variant within 1% of the best by all samples; in 1% is the share that chose one;",
		"med 1% is the share of problems with a median regret within 1%; the grid's own row is what the noise of the records allows")
}

// passTable has a setup's row by op and pass.
func passTable(g *Grids, s Setup, outcomes [][]Outcome) string {
	var cells [][]string
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			n := 0
			r := Summarize(g, s, outcomes, func(x Grid) bool {
				ok := x.Problem.Op == op && x.Problem.Pass == pass
				if ok {
					n++
				}
				return ok
			})
			if n > 0 {
				cells = append(cells, []string{fmt.Sprintf("%s %s", op, pass), strconv.Itoa(n), pc(r.GPU), pc(r.P95), pc(r.Within), pc(r.Problems)})
			}
		}
	}
	return markdown(s.Label+" by op and pass", []string{"problems", "count", "GPU %", "regret p95 %", "in 1%", "med 1%"}, cells)
}

func naiveTable(title string, rows []Row) string {
	var cells [][]string
	for i := 0; i < len(rows); {
		n := i + 1
		for n < len(rows) && rows[n].Label == rows[i].Label {
			n++
		}
		row := []string{rows[i].Label}
		for k := range NaiveShares { // a base alone has no budget
			row = append(row, fixed(2, 100*rows[min(i+k, n-1)].Mean))
		}
		last := rows[n-1]
		cells = append(cells, append(row, pc(last.Within), fixed(0, last.Variants), pc(last.GPU), fixed(1, last.Wall[1])))
		i = n
	}
	return markdown(title, []string{"strategy", "regret 1%", "3%", "6%", "10%", "in 1%", "configs", "GPU %", "wall s"}, cells,
		"regret is the mean over problems and seeds, in %, at budgets of 1 to 10% of the configs; the other columns are of 10%;",
		"in 1% is the share of searches that end within 1% of the best; configs are those compiled per problem;",
		"GPU % is the search's GPU time over the grid's; wall s is per problem: compiling before every round on 16 cores, then the GPU;",
		"the naive base is the variant of median time; auto knows the problems before it, unless it says alone")
}

func freeTable(f *Free, rows []FreeRow, seeds int) string {
	title := fmt.Sprintf("%s on %s, %d configs of %d knobs, %d seeds", f.Kernel, f.Device, len(f.Configs), len(f.Knobs), seeds)
	shares := []int{1, 3, 6, 10}
	random := []string{"random draws, expected", "0.000"}
	for _, share := range shares {
		random = append(random, fixed(2, 100*RandomRegret(f, Draws(f, share))))
	}
	cells := [][]string{append(random, "")}
	for _, r := range rows {
		row := []string{r.Strategy, fixed(3, r.Score)}
		for _, share := range shares {
			row = append(row, fixed(2, 100*r.Mean(share)))
		}
		cells = append(cells, append(row, pc(r.Within(10))))
	}
	return markdown(title, []string{"strategy", "score", "regret at 1 % %", "3 %", "6 %", "10 %", "searches within 1 %"}, cells,
		"without noise, from a random valid config; an invalid config costs as much as any;",
		"score is 0 for what random draws are expected to find and 1 for the optimum at once, the mean over 1 to 10% of the configs;",
		"regret is the mean over seeds of the time found over the best")
}

// The tables hold what the runs came to, and a plot is drawn.
func TestTables(t *testing.T) {
	g := grids(2, 40)
	setups := Quick()
	out, err := Run(t.Context(), g, setups, 2)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for i, s := range setups {
		rows = append(rows, Summarize(g, s, out[i], nil))
	}
	text := strategyTable("title", rows) + passTable(g, setups[0], out[0]) + naiveTable("title", rows)
	for _, want := range []string{"**title**\n", "\n|auto|own|", "\n|random|10%|4|", "\n|grid|all|40|", "|rmsnorm bwd|2|"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	plot := filepath.Join(t.TempDir(), "regret.svg")
	if err := plotRegret(plot, rows); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(plot); err != nil || !strings.Contains(string(data), "<svg") {
		t.Errorf("no plot: %v", err)
	}
}
