package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/lab"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/search"
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
	// Of fewer than 12 none of nine variants can be called faster. They leave intervals in which
	// gains of 1 or 2% are lost; a GPU has the time for more.
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
			if entry, ok := old.Lookup(t.Problem); ok {
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
