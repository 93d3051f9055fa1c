package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/lab"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
	"normbench/tune"
)

// searchPlan is what the flags of sweep ask of a search.
type searchPlan struct {
	strategy       string
	asked          bool            // for a search, by a flag of one
	keep           cli.StringSlice // REFs
	limit          string
	budget         search.Budget
	finals, rounds int
}

// flags has no strategy's own.
func (p *searchPlan) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Destination: &p.strategy, Name: "strategy", Usage: strings.Join(search.Names(), ", ") + ": how to search. All but grid measure a part of the space, then the best of it again", Value: search.Auto},
		&cli.StringFlag{Destination: &p.limit, Name: "budget", Usage: "limit of a search: wall `TIME` such as 5m, launches such as 2000x, or configs such as 300 or 10%"},
		&cli.IntFlag{Destination: &p.finals, Name: "finals", Usage: "number of variants that a search measures again, 1 to 32", Value: 8,
			Action: within("finals", 1, 32, "use 1 to 32; 8 to 16 are worth their time")},
		&cli.IntFlag{Destination: &p.rounds, Name: "rounds", Usage: "interleaved rounds of the finals, 6 to 100", DefaultText: "24 on a GPU, 12 on a cpu",
			Action: within("rounds", 6, 100, "use 6 to 100; of fewer than 6 there is no interval")},
		&cli.StringSliceFlag{Destination: &p.keep, Name: "keep", Category: catWhat, Usage: "`REF` that a search always measures, such as tuned:FILE; may repeat"},
	}
}

// check reads the budget, and refuses flags of a search beside a grid.
func (p *searchPlan) check(given map[string]bool) (err error) {
	if p.budget, err = search.ParseBudget(p.limit); err != nil {
		return err
	}
	for _, name := range []string{"budget", "finals", "rounds", "keep"} {
		if p.asked = p.asked || given[name]; given[name] && p.strategy == search.Grid {
			return hint.Errorf("leave it out, or choose another strategy", "--%s is for a search, and --strategy grid measures all", name)
		}
	}
	return nil
}

// smallSweep is the most variants of a sweep on a cpu that auto measures all of: it
// takes seconds, and its times are for tests and first looks.
const smallSweep = 500

// searchOptions sets o up for a search, if this is to be one.
func searchOptions(e *env, p *searchPlan, info kernels.DeviceInfo, tasks []sweep.Task, old *tune.Table, o *sweep.Options) error {
	variants := 0
	for _, t := range tasks {
		variants += len(t.Variants)
	}
	if p.strategy == search.Grid || p.strategy == search.Auto && info.Kind == kernels.KindCPU && variants <= smallSweep && !p.asked {
		return nil
	}
	if err := sweep.CheckBudget(p.budget, len(tasks)); err != nil {
		return err
	}
	if err := keepEntries(e, p.keep.Value(), info, tasks, old); err != nil {
		return err
	}
	// Of fewer than 12 none of nine variants can be called faster. They leave intervals in which gains
	// of 1 or 2% are lost; a GPU has the time for more.
	if p.rounds == 0 {
		p.rounds = 12
		if info.Kind == kernels.KindCUDA {
			p.rounds = 24
		}
	}
	final := o.Run
	final.ID += record.FinalsSuffix
	o.Run.Protocol, final.Protocol = sweep.SearchProtocols(o.Run.Protocol, p.strategy, p.budget, p.rounds)
	o.Search = &sweep.Searching{Strategy: p.strategy, Budget: p.budget, Final: final, Finals: p.finals, Rounds: p.rounds}
	return nil
}

// keepEntries adds the checked-in entries and the variants of --keep to the tasks. An
// entry that this normbench or this device cannot run is passed over with a note.
func keepEntries(e *env, texts []string, info kernels.DeviceInfo, tasks []sweep.Task, old *tune.Table) error {
	refs, err := e.ParseAll(texts...)
	if err != nil {
		return err
	}
	used := make([]bool, len(refs))
	for i := range tasks {
		t := &tasks[i]
		if old != nil && old.Device.ID == info.ID {
			if entry, match := old.Lookup(t.Problem); match == tune.MatchExact {
				if _, v, _, err := e.Registry.Resolve(t.Problem, entry.Variant(), info); err != nil {
					e.Notef("the tuned table's %s is left out: %s", entry.Variant(), console.OneLine(err.Error()))
				} else {
					t.Add(v)
					t.Checked, t.Entry = v, true
				}
			}
		}
		for j, r := range refs {
			vs, err := e.Variants(r, t.Problem, info)
			if err != nil {
				e.Notef("--keep %s is left out on %s: %s", r.Text, t.Problem, console.OneLine(err.Error()))
			}
			for _, v := range vs {
				used[j] = true
				t.Add(v)
			}
		}
	}
	for j, r := range refs {
		if !used[j] {
			return lab.NoProblem("--keep " + r.Text)
		}
	}
	return nil
}

// history is what the records of a results folder know of the same kernels on the
// same kind of device, for searches to start from.
func history(f *record.File, info kernels.DeviceInfo, r *kernels.Registry) *search.History {
	h := &search.History{}
	source := families.NewIdentity(r, info.Kind).SourceOf
	found := map[kernels.Problem][]search.Found{}
	seen := map[kernels.Problem]map[kernels.Variant]bool{}
	var order []kernels.Problem
	cold := func(x *record.Entry) bool { return x.Run.Protocol.Cold }
	for _, es := range []record.Entries{f.Latest(cold), f.Searched(cold)} {
		for _, x := range es {
			switch {
			case x.Status != kernels.StatusOK, x.StreamUS <= 0, x.Run.Device.ID != info.ID,
				x.Variant.Family == record.Stream, source(x.Variant.Family) != x.Source, seen[x.Problem][x.Variant]:
				continue
			}
			if found[x.Problem] == nil {
				order = append(order, x.Problem)
				seen[x.Problem] = map[kernels.Variant]bool{}
			}
			seen[x.Problem][x.Variant] = true
			found[x.Problem] = append(found[x.Problem], search.Found{Variant: x.Variant, Log: math.Log(x.Median / x.StreamUS), Launches: x.N})
			if x.Finals().Chosen != "" {
				h.Won(x.Problem, x.Variant)
			}
		}
	}
	for _, p := range order {
		h.AddFound(p, found[p])
	}
	return h
}

// describe completes a table with what only the registry knows, and says what a
// person should know of it.
func describe(e *env, t *tune.Table) {
	knobs := map[string]int{}
	var noise, optimism []float64
	edges, unstable := 0, 0
	for i := range t.Entries {
		x := &t.Entries[i]
		if f, err := e.Registry.Lookup(x.Family); err == nil {
			x.Edges = search.Edges(f.Knobs, x.Config)
		}
		if len(x.Edges) > 0 {
			edges++
		}
		for _, k := range x.Edges {
			knobs[k]++
		}
		if x.Unstable {
			unstable++
		}
		if x.Noise > 0 {
			noise = append(noise, x.Noise)
		}
		if x.SearchUS > 0 {
			optimism = append(optimism, x.MedianUS/x.SearchUS-1)
		}
	}
	if len(noise) > 0 {
		t.Noise = math.Round(stats.Median(noise)*1e4) / 1e4
	}
	if len(optimism) > 0 {
		e.Notef("the winners' fresh times are %+.1f%% of what the search saw, in the middle; two copies of the base differ by %.1f%%",
			100*stats.Median(optimism), 100*t.Noise)
	}
	if edges > 0 {
		var list []string
		for k := range knobs {
			list = append(list, k)
		}
		slices.SortFunc(list, func(a, b string) int {
			if d := knobs[b] - knobs[a]; d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
		text := make([]string, 0, 4)
		for _, k := range list[:min(len(list), 4)] {
			text = append(text, fmt.Sprintf("%s (%d)", k, knobs[k]))
		}
		verb := "sit"
		if edges == 1 {
			verb = "sits"
		}
		e.Notef("%s %s on the edge of a knob's range: %s; --knob widens it", console.Count(edges, "winner"), verb, strings.Join(text, ", "))
	}
	if unstable > 0 {
		e.Notef("%s give other bits from run to run; see \"unstable\" in %s", console.Count(unstable, "winner"), filepath.Base(tune.FileName))
	}
}
