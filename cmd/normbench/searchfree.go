package main

import (
	"fmt"
	"os"

	"normbench/internal/hint"
	"normbench/kernels/replay"
	"normbench/report"
	"normbench/sweep/search"
	"normbench/sweep/study"
)

// freeFile reads path as a cache or T4 results, nil where it is something else.
func freeFile(path string) (*replay.Free, error) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil, nil
	}
	data, err := replay.ReadMaybeGzip(path)
	if err != nil {
		return nil, err
	}
	if !replay.IsFree(data) {
		return nil, nil
	}
	return replay.ParseFree(path, data)
}

// searchFreeTable compares the strategies on a space that another tool recorded.
func (e *env) searchFreeTable(f *replay.Free, strategies []string, seeds int, format string) error {
	e.measuring()
	rows, err := study.RunFree(e.ctx, f, strategies, seeds)
	if err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%s on %s, %s of %s, %s", orUnnamed(f.Kernel), orUnnamed(f.Device), count(len(f.Configs), "config"), count(len(f.Knobs), "knob"), count(seeds, "seed")),
		"strategy", ">score", ">regret at 1 % %", ">3 %", ">6 %", ">10 %", ">searches within 1 %")
	random := []string{"random draws, expected", "0.000"}
	for _, share := range []int{1, 3, 6, 10} {
		random = append(random, fmt.Sprintf("%.2f", 100*study.RandomRegret(f, study.Draws(f, share))))
	}
	t.Rows = append(t.Rows, append(random, ""))
	for _, r := range rows {
		row := []string{r.Strategy, fmt.Sprintf("%.3f", r.Score)}
		for _, share := range []int{1, 3, 6, 10} {
			row = append(row, fmt.Sprintf("%.2f", 100*r.Mean(share)))
		}
		t.Rows = append(t.Rows, append(row, pc(r.Within(10))))
	}
	t.Notes = append(t.Notes,
		"without noise, from a random valid config; an invalid config costs as much as any;",
		"score is 0 for what random draws are expected to find and 1 for the optimum at once, the mean over 1 to 10% of the configs;",
		"regret is the mean over seeds of the time found over the best")
	return report.RenderTable(e.stdout, t, format)
}

func orUnnamed(s string) string {
	if s == "" {
		return "unnamed"
	}
	return s
}

// freeStrategies are those that a table of a free space compares.
func freeStrategies(quick bool) []string {
	if quick {
		return []string{search.Auto, search.Random}
	}
	return []string{search.Auto, search.Evolve, search.Local, search.Random}
}

func errForeignCache(path string, f *replay.Free) error {
	return hint.Errorf("`normbench search-table "+path+"` searches it", "%s holds %s, which is no problem of normbench", path, orUnnamed(f.Kernel))
}
