package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/replay"
	"normbench/report"
	"normbench/sweep/search"
	"normbench/sweep/study"
)

// freeFile reads path as a cache or T4 results, nil where it is something else, or our own
// export while foreign is set.
func freeFile(path string, foreign bool) (*replay.Free, error) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil, nil
	}
	data, err := replay.ReadMaybeGzip(path)
	if err != nil {
		return nil, err
	}
	if !replay.IsFree(data) || foreign && replay.IsOurs(data) {
		return nil, nil
	}
	return replay.ParseFree(path, data)
}

// sweepFree searches the space of a --device replay:FILE that another tool recorded, and
// says whether it is one.
func (e *env) sweepFree(c *cli.Context) (bool, error) {
	path, ok := strings.CutPrefix(c.String("device"), "replay:")
	if !ok || len(c.StringSlice("worker")) > 0 {
		return false, nil
	}
	f, err := freeFile(path, true)
	if err != nil || f == nil {
		return err != nil, err
	}
	for _, name := range c.LocalFlagNames() {
		if !slices.Contains([]string{"device", "strategy", "budget", "seed", "format"}, name) {
			return true, hint.Errorf("leave it out; --strategy, --budget, --seed and --format have one", "--%s has no effect on a space of another tool", name)
		}
	}
	plan, err := parseSearch(c)
	if err != nil {
		return true, err
	}
	budget := plan.budget
	switch {
	case budget.Time > 0:
		return true, hint.Errorf("write configs such as 300 or 10%", "--budget %s is a time, and a replay takes none", budget)
	case plan.strategy == search.Model:
		return true, hint.Errorf("use "+search.Auto+" or "+search.Evolve, "--strategy %s knows the knobs of normbench's families only", search.Model)
	case budget.IsZero() && plan.strategy != search.Grid:
		budget.Share = study.FreeBudgets / 100.0
	}
	s := seed(c)
	e.measuring()
	found, err := study.SearchFree(e.ctx, f, plan.strategy, budget, s)
	if err != nil {
		return true, err
	}
	t := newTable(fmt.Sprintf("%s, seed %d", freeTitle(f), s),
		"strategy", ">budget", ">configs tried", ">invalid", ">found", ">after", ">known best", ">regret %", "config")
	bound := budget.String()
	if bound == "" {
		bound = "all"
	}
	t.Rows = [][]string{{plan.strategy, bound, fmt.Sprint(found.Tried), fmt.Sprint(found.Invalid), report.Number(f.Configs[found.Best].Time), fmt.Sprint(found.After),
		report.Number(found.Known), fmt.Sprintf("%.2f", 100*(f.Configs[found.Best].Time/found.Known-1)), f.Setting(found.Best)}}
	t.Notes = []string{
		"without noise, from a random valid config; an invalid config costs as much as any;",
		"times are in the file's unit, milliseconds in a cache of kernel_tuner; after is the number of configs tried until then"}
	return true, report.RenderTable(e.stdout, t, c.String("format"))
}

func freeTitle(f *replay.Free) string {
	return fmt.Sprintf("%s on %s, %s of %s", orUnnamed(f.Kernel), orUnnamed(f.Device), count(len(f.Configs), "config"), count(len(f.Knobs), "knob"))
}

// searchFreeTable compares the strategies on a space that another tool recorded.
func (e *env) searchFreeTable(f *replay.Free, strategies []string, seeds int, format string) error {
	e.measuring()
	rows, err := study.RunFree(e.ctx, f, strategies, seeds)
	if err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%s, %s", freeTitle(f), count(seeds, "seed")),
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
	return hint.Errorf("`normbench sweep --device replay:"+path+"` searches it", "%s holds %s, which is no problem of normbench", path, orUnnamed(f.Kernel))
}
