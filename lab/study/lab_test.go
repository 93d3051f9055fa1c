package study

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/picture"
	"normbench/sweep/search"
)

// TestStrategiesAreComparedOnRecordedSpaces prints the tables of lab/notes/search.md, in Markdown,
// and draws its plot. `make lab` runs it. The page and the fields of Row and FreeRow say what the columns are.
//
//	NORMBENCH_LAB="results/nvidia-h200/grids cache.json.gz" go test ./lab/study -run RecordedSpaces -v
//
// A folder has recorded grids, of `sweep --strategy grid`. A file is a kernel_tuner cache of any
// kernel. Paths are relative to the repository. NORMBENCH_LAB_SEEDS is the number of searches of
// each problem by each strategy: 100 of grids and 24 of a cache, unless it says otherwise.
// NORMBENCH_LAB_PLOT=FILE.svg draws regret against GPU time for the grids.
func TestStrategiesAreComparedOnRecordedSpaces(t *testing.T) {
	paths := strings.Fields(os.Getenv("NORMBENCH_LAB"))
	if len(paths) == 0 {
		t.Skip("NORMBENCH_LAB names no records: see `make lab`")
	}
	t.Chdir(filepath.Join("..", ".."))
	seeds, _ := strconv.Atoi(os.Getenv("NORMBENCH_LAB_SEEDS"))
	for _, path := range paths {
		st, err := os.Stat(path)
		assert.NoError(t, err)
		if st.IsDir() {
			labGrids(t, path, cmp.Or(seeds, 100))
		} else {
			labCache(t, path, cmp.Or(seeds, 24))
		}
	}
}

// setups are the strategies of the table, each at several budgets: auto as a sweep runs it, and the
// grid measured once more, which is the most that the noise of the records lets anyone reach. The
// curves over budgets have a fifth of the seeds.
func setups() []Setup {
	list := []Setup{
		{Label: "auto", Strategy: search.Auto, Transfer: true},
		{Label: "auto alone", Strategy: search.Auto},
	}
	for _, share := range []float64{0.05, 0.1, 0.15, 0.3} {
		list = append(list, Setup{Label: "auto", Strategy: search.Auto, Share: share,
			Transfer: true, Every: 5})
	}
	for _, name := range []string{search.Evolve, search.Halving, search.Random} {
		for _, share := range []float64{0.05, 0.1, 0.2, 0.4} {
			list = append(list, Setup{Label: name, Strategy: name, Share: share, Every: 5})
		}
	}
	return append(list, Setup{Label: search.Halving, Strategy: search.Halving, Share: 1, Every: 5},
		Setup{Label: search.Grid, Strategy: search.Grid})
}

// naiveShares are the budgets of naive, as shares of the configs.
var naiveShares = []float64{0.01, 0.03, 0.06, 0.1}

// naive compares searches from the base with searches from the variant of median time. The base is
// often within 1% of the best already, so the second says more of a strategy. A label stands once
// for each of naiveShares; a base alone stands once.
func naive() []Setup {
	list := []Setup{
		{Label: "base alone", Strategy: search.Random, Share: 1e-9},
		{Label: "naive base alone", Strategy: search.Random, Share: 1e-9, Naive: true},
	}
	for _, s := range []Setup{
		{Label: "auto from the base", Strategy: search.Auto, Transfer: true},
		{Label: "auto alone, base", Strategy: search.Auto},
		{Label: "random from the base", Strategy: search.Random},
		{Label: "auto from a naive base", Strategy: search.Auto, Transfer: true, Naive: true},
		{Label: "auto alone, naive base", Strategy: search.Auto, Naive: true},
		{Label: "random from a naive base", Strategy: search.Random, Naive: true},
	} {
		for _, s.Share = range naiveShares {
			list = append(list, s)
		}
	}
	return list
}

// labGrids prints the outcomes of each strategy on recorded grids.
func labGrids(t *testing.T, path string, seeds int) {
	g, err := Load(path)
	assert.NoError(t, err)
	n, all := len(setups()), append(setups(), naive()...)
	out, err := Run(t.Context(), g, all, seeds)
	assert.NoError(t, err)
	var rows []SetupRow
	for i, s := range all {
		rows = append(rows, Summarize(s, out[i]))
	}
	title := fmt.Sprintf("%d problems of %s, %d seeds", len(g.Problems), g.Device.Name, seeds)
	fmt.Print(strategyTable(title, rows[:n]), naiveTable(title, rows[n:]))
	if plot := os.Getenv("NORMBENCH_LAB_PLOT"); plot != "" {
		assert.NoError(t, plotRegret(plot, rows[:n]))
	}
}

// labCache prints the outcomes of each strategy on a space of another tool.
func labCache(t *testing.T, path string, seeds int) {
	f, err := readCache(path)
	assert.NoError(t, err)
	rows, err := RunFree(t.Context(), f, []string{search.Auto, search.Evolve, search.Random}, seeds)
	assert.NoError(t, err)
	fmt.Print(freeTable(f, rows, seeds))
}

// markdown lays out a table whose first column is text.
func markdown(title string, header []string, rows [][]string) string {
	var b strings.Builder
	b.WriteString("**" + title + "**\n\n")
	rule := append([]string{":--"}, slices.Repeat([]string{"--:"}, len(header)-1)...)
	for _, r := range slices.Concat([][]string{header, rule}, rows) {
		b.WriteString("|" + strings.Join(r, "|") + "|\n")
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

func strategyTable(title string, rows []SetupRow) string {
	var cells [][]string
	for _, r := range rows {
		budget := "own"
		switch {
		case r.Share > 0:
			budget = fixed(0, 100*r.Share) + "%"
		case r.Strategy == search.Grid:
			budget = "all"
		}
		cells = append(cells, []string{r.Label, budget, fixed(0, r.Variants), pc(r.GPU),
			fixed(2, 100*r.Mean), fixed(2, 100*r.P95), pc(r.Saw), pc(r.Within), pc(r.Problems)})
	}
	return markdown(title, []string{"strategy", "budget", "configs", "GPU %", "regret %",
		"p95", "saw 1%", "in 1%", "med 1%"}, cells)
}

func naiveTable(title string, rows []SetupRow) string {
	var cells [][]string
	for n := 0; len(rows) > 0; rows = rows[n:] {
		n = min(len(naiveShares), len(rows))
		if rows[0].Share < naiveShares[0] { // a base alone has no budget
			n = 1
		}
		row, last := []string{rows[0].Label}, rows[n-1]
		for k := range naiveShares {
			row = append(row, fixed(2, 100*rows[min(k, n-1)].Mean))
		}
		cells = append(cells, append(row, pc(last.Within), fixed(0, last.Variants), pc(last.GPU)))
	}
	return markdown(title, []string{"strategy", "regret 1%", "3%", "6%", "10%", "in 1%", "configs",
		"GPU %"}, cells)
}

func freeTable(f *Free, rows []FreeRow, seeds int) string {
	title := fmt.Sprintf("%s on %s, %d configs of %d knobs, %d seeds", f.Kernel, f.Device,
		len(f.Times), len(f.Axes), seeds)
	shares := []int{1, 3, 6, 10}
	random := []string{"random draws, expected", "0.000"}
	for _, share := range shares {
		random = append(random, fixed(2, 100*RandomRegret(f, share)))
	}
	cells := [][]string{append(random, "")}
	for _, r := range rows {
		row := []string{r.Strategy, fixed(3, r.Score)}
		for _, share := range shares {
			row = append(row, fixed(2, 100*r.Mean[share-1]))
		}
		cells = append(cells, append(row, pc(r.Within)))
	}
	return markdown(title, []string{"strategy", "score", "regret at 1 % %", "3 %", "6 %", "10 %",
		"searches within 1 %"}, cells)
}

// plotRegret draws the 95th percentile of regret against GPU time as an SVG file, a line per
// strategy through its budgets.
func plotRegret(name string, rows []SetupRow) error {
	top := 1.0
	var lines []picture.Curve
	var legend []picture.Series
	for _, r := range rows {
		i := slices.IndexFunc(lines, func(l picture.Curve) bool { return l.Name == r.Label })
		if i < 0 {
			i = len(lines)
			s := picture.Series{Name: r.Label, Class: fmt.Sprint("s", i%picture.Slots), Glyph: i,
				Width: 1.6, Radius: 4}
			if r.Label == "auto" {
				s.Width = 3
			}
			legend, lines = append(legend, s), append(lines, picture.Curve{Series: s})
		}
		top = max(top, 100*r.P95)
		lines[i].Points = append(lines[i].Points, picture.PlotPoint{X: 100 * r.GPU, Y: 100 * r.P95})
	}
	for _, l := range lines {
		slices.SortFunc(l.Points, func(a, b picture.PlotPoint) int { return cmp.Compare(a.X, b.X) })
	}
	x := picture.Axis{Label: "GPU time, % of the grid's", Lo: 1, Hi: 110, Log: true}
	for _, v := range []float64{1, 2, 5, 10, 20, 50, 100} {
		x.Ticks = append(x.Ticks, picture.Tick{At: v, Label: fmt.Sprint(v)})
	}
	y := picture.Axis{Label: "95th percentile of regret, %", Hi: 1.05 * top, Ticks: picture.EvenTicks(0,
		1.05*top, 1, 8)}
	plot := picture.Plot{Width: 760, Height: 420, X: x, Y: y, Lines: lines}
	const title = "What a search gives up, by the GPU time it takes"
	return os.WriteFile(name, picture.File(title, legend, [][]*picture.Drawing{{plot.Draw()}}),
		0o644)
}
