package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/replay"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/tune"
)

// A sweepConfig is what the flags of a sweep ask for, and what is laid out for it.
type sweepConfig struct {
	stand
	search     searchPlan
	knobs      cli.StringSlice
	overrides  []kernels.Range
	family     string
	only       []string // families; nil for all
	atOnce     int      // problems; 0 for a default
	retry, dry bool
	out        string
	tasks      []sweep.Task
	variants   int
	layOut     time.Duration
}

func sweepCommand(e *env) *cli.Command {
	cfg := &sweepConfig{}
	cfg.first = func() *report.Table {
		if cfg.format == report.FormatJSON { // it is no table
			return nil
		}
		return report.Compare(report.Side{}, report.Side{}).Table()
	}
	return e.command(&cli.Command{
		Name:  "sweep",
		Usage: "find the fastest configs of the kernel families over shapes; write records and the tuned table",
		Description: "A sweep searches a part of a large space. Then it measures the best variants again, in interleaved rounds with\n" +
			"the base and the entry of the tuned table. Only these last numbers count. --strategy grid measures every config.\n\n" +
			"Each variant becomes a record in OUT/<device>/records.jsonl; a search writes its records when its problem is done.\n" +
			"At the end the sweep writes OUT/<device>/tuned.json and prints the table of base against best. A second sweep\n" +
			"into the same folder measures only the variants that are missing or have changed.",
		Flags: slices.Concat(cfg.flags(), cfg.timing.flags(), cfg.search.flags(), []cli.Flag{
			&cli.StringFlag{Destination: &cfg.family, Name: "family", Category: catWhat, Usage: "families to sweep, with commas (default: all that serve the problem)"},
			&cli.StringSliceFlag{Destination: &cfg.knobs, Name: "knob", Category: catWhat, Usage: "`KEY=V,V` replaces the values of a knob, such as --knob p=66,132; may repeat"},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput, Usage: "`FOLDER` for results", Value: "results"},
			&cli.BoolFlag{Destination: &cfg.retry, Name: "retry-failed", Usage: "measure the variants again that failed before"},
			&cli.IntFlag{Destination: &cfg.atOnce, Name: "at-once", Usage: "problems open at once on a GPU: one is measured while the others compile", DefaultText: "1 to 4, by cores",
				Action: within("at-once", 1, 16, "use 1 to 16")},
			&cli.BoolFlag{Destination: &cfg.dry, Name: "dry-run", Usage: "print how many variants are left to measure, and stop"},
			cfg.htmlFlag(),
		}),
	}, &cfg.common, func() error { return runSweep(e, cfg) })
}

func runSweep(e *env, cfg *sweepConfig) (err error) {
	if cfg.overrides, err = knobOverrides(cfg.knobs.Value()); err != nil {
		return err
	}
	if cfg.family != "" {
		cfg.only = strings.Split(cfg.family, ",")
	}
	if err := cfg.search.check(cfg.given); err != nil {
		return err
	}
	if err := cfg.open(e, true); err != nil {
		return err
	}
	defer lab.Close(cfg.devices)
	if err := layOut(e, cfg); err != nil {
		return err
	}
	if err := lab.CheckRecording(cfg.devices[0], cfg.out); err != nil {
		return err
	}
	dir := filepath.Join(cfg.out, cfg.info.ID)
	old, err := tune.Read(filepath.Join(dir, tune.FileName))
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err // of a folder that is none, the records' writer says more
	}
	o := sweep.Options{Run: newRun(e, cfg.info, cfg.protocol(cfg.info)), Seed: cfg.seed, RetryFailed: cfg.retry}
	if err := searchOptions(e, &cfg.search, cfg.info, cfg.tasks, old, &o); err != nil {
		return err
	}
	if !cfg.dry {
		return measure(e, cfg, o, old)
	}
	f, _ := record.Load(dir) // the first sweep has none
	left, problems, err := sweep.Left(e.Registry, cfg.info, cfg.tasks, o, f)
	switch there := max(cfg.variants-left, 0); {
	case err != nil:
		return err
	case o.Search != nil:
		fmt.Fprintf(e.out, "%s of %s to search, %d in %s already\n", console.Count(problems, "problem"), console.Count(left, "variant"), there, dir)
	default:
		fmt.Fprintf(e.out, "%s to measure, %d in %s already\n", console.Count(left, "variant"), there, dir)
	}
	return nil
}

// layOut lays out the tasks of a sweep.
func layOut(e *env, cfg *sweepConfig) (err error) {
	start := time.Now()
	if cfg.tasks, err = sweep.Grid(e.Ctx, e.Registry, cfg.problems, cfg.info, cfg.only, cfg.overrides); err != nil {
		return err
	}
	if d, ok := cfg.devices[0].(*replay.Device); ok && len(cfg.overrides) == 0 {
		if gone := sweep.Recorded(e.Registry, cfg.tasks, d, cfg.only); gone > 0 {
			e.Notef("%s of families that are no more left out", console.Count(gone, "recorded variant"))
		}
	}
	cfg.layOut = time.Since(start)
	refused := 0
	for _, t := range cfg.tasks {
		cfg.variants += len(t.Variants)
		refused += t.Refused
	}
	if err := cmp.Or(checkOverrides(cfg.tasks, cfg.overrides), e.CheckUsed(cfg.tasks, cfg.info)); err != nil {
		return err
	}
	e.Notef("%s: %s, %s; %s refused by the spaces", cfg.info.Name, console.Count(len(cfg.tasks), "problem"), console.Count(cfg.variants, "variant"), console.Count(refused, "config"))
	return nil
}

// measure measures, and folds what it finds into the table old of the results folder.
func measure(e *env, cfg *sweepConfig, o sweep.Options, old *tune.Table) error {
	info, pr, unit := cfg.info, o.Run.Protocol, "variants"
	if err := checkResults(cfg.out, info.ID, tune.FileName); err != nil {
		return err
	}
	w, err := e.openWriter(cfg.out, info.ID)
	if err != nil {
		return err
	}
	defer w.Close()
	if old != nil { // if the end cannot merge with this table, say so before hours of measuring
		if _, _, err := tune.Merge(old, &tune.Table{Device: info}, nil); err != nil {
			return err
		}
	}
	if err := testTimer(e, cfg.devices[0], &o.Run); err != nil {
		return err
	}
	if o.Search != nil {
		unit, pr = "problems", o.Search.Final.Protocol
		o.Search.Final.SelfTest, o.Search.Final.FloorUS = o.Run.SelfTest, o.Run.FloorUS
	}
	var more []kernels.Device
	defer func() { lab.Close(more) }()
	o.More = func(problems int) (_ []kernels.Device, err error) {
		more, err = e.Companions(cfg.atOnce, &cfg.Config, cfg.devices, cfg.problems, problems)
		return more, err
	}
	fold := &tune.Fold{Old: old, At: durable.Place{Root: cfg.out, Name: filepath.Join(info.ID, tune.FileName)}, Source: families.NewIdentity(e.Registry, info.Kind).SourceOf,
		Table: &tune.Table{Schema: tune.Schema, Tool: version(), Device: info, Protocol: pr}}
	if o.Search != nil {
		o.Search.Known = tune.History(w.Records(), info, e.Registry)
		// A killed sweep may have left out its last finished problem.
		for es := range tune.Current(w.Records(), e.Registry, info, pr) {
			fold.Table.Entries = append(fold.Table.Entries, tune.Pick(es)...)
		}
		if len(fold.Table.Entries) > 0 {
			if _, err := fold.Write(); err != nil {
				return err
			}
		}
		o.Finished = func(recs []*record.Record) error { return fold.Add(recs, &o.Search.Final) }
	}
	p := report.NewProgress(e.Err, unit)
	o.Observe = p.Observe
	sum, err := sweep.Run(e.Ctx, e.Registry, cfg.devices, cfg.tasks, w, o)
	p.Clear()
	e.Notes(report.RunNotes(sum, cfg.layOut, slices.Concat(cfg.devices, more)))
	if e := w.Unchanged(); e != nil { // nothing can be concluded from another's file
		return e
	}
	if err != nil {
		// The table has the finished problems and is shown, whatever ended the sweep.
		if err := conclude(e, w.Records(), cfg, fold, true); err != nil {
			return err
		}
		if errors.Is(err, context.Canceled) && e.Ctx.Err() != nil {
			return interrupted("%d records are kept in %s, the same command goes on from there", sum.Measured, w.Path())
		}
		return err
	}
	budget := cfg.search.budget
	if sum.Short > 0 && sum.Short == sum.Problems {
		return search.ErrShort(cfg.problems[0], sum.Problems, budget.String(), sum.Wall)
	} else if sum.Short > 0 {
		e.Notef("budget %s: on %d of %s no more than the base was measured", budget, sum.Short, console.Count(sum.Problems, "problem"))
	}
	if sum.Starved > 0 {
		e.Notef("budget %s: on %d of %s it left the finals fewer variants or rounds; the base stays where they do not decide", budget, sum.Starved, console.Count(sum.Problems, "problem"))
	}
	return conclude(e, w.Records(), cfg, fold, false)
}

// checkOverrides refuses --knob if no space has a config with its values: the
// sweep would measure the base alone.
func checkOverrides(tasks []sweep.Task, overrides []kernels.Range) error {
	for _, o := range overrides {
		used := false
		for _, t := range tasks {
			for _, v := range t.Variants {
				if n, ok := v.Config.Lookup(o.Knob); ok && slices.Contains(o.Values, n) {
					used = true
				}
			}
		}
		if !used {
			return hint.Errorf("`normbench list configs` shows why configs are refused", "every config with the values of --knob %s is refused", o.Knob.Key)
		}
	}
	return nil
}

// conclude folds the records of a results folder into its tuned table and prints base against best
// for the problems at hand. cut says that the sweep was cut off: a grid has no pick for a problem
// that it did not finish.
func conclude(e *env, f *record.File, cfg *sweepConfig, fold *tune.Fold, cut bool) error {
	info, pr, table := fold.Table.Device, fold.Table.Protocol, fold.Table
	whole := map[kernels.Problem]int{} // variants
	for _, t := range cfg.tasks {
		if cut {
			whole[t.Problem] = len(t.Variants)
		}
	}
	asked := map[kernels.Problem]bool{}
	for _, p := range cfg.problems {
		asked[p] = true
	}
	base := report.Side{Label: "base", Cells: map[kernels.Problem]report.Cell{}}
	best := report.Side{Label: "best", Cells: map[kernels.Problem]report.Cell{}}
	some := false
	var failed *record.Entry // the first that is not right
	table.Entries = nil
	for es := range tune.Current(f, e.Registry, info, pr) {
		p, n := es[0].Problem, 0
		each := func(yield func(*record.Entry) bool) {
			for i := range es {
				if !yield(&es[i]) {
					return
				}
			}
		}
		for x := range each {
			if x.Variant.Family != record.Stream {
				n++
			}
		}
		if pr.Phase != record.PhaseFinal && n < whole[p] {
			continue
		}
		for x := range each {
			if some = true; x.Status != kernels.StatusOK && failed == nil {
				failed = new(*x)
			}
		}
		picks := tune.Pick(es)
		table.Entries = append(table.Entries, picks...)
		if !asked[p] {
			continue
		}
		add := func(s *report.Side, keep func(*record.Entry) bool) {
			maps.Copy(s.Cells, report.SideOf("", each, keep).Cells)
		}
		add(&base, func(x *record.Entry) bool { return x.Base })
		add(&best, func(x *record.Entry) bool { return len(picks) == 0 || x.Variant == picks[0].Variant() })
	}
	if cut && !some {
		return nil
	}
	table.AddRuns(f.Runs)
	if pr.Phase == record.PhaseFinal {
		id := families.NewIdentity(e.Registry, info.Kind)
		searching := pr
		searching.Phase = record.PhaseSearch
		table.AddSearched(slices.Values(f.Searched(func(x *record.Entry) bool {
			p := x.Run.Protocol
			p.Samples = searching.Samples // a search has its own
			return p == searching && tune.IsCurrent(e.Registry, id, x)
		})))
		e.Once(table.Describe(e.Registry)...)
	}
	notes, lost := fold.Write()
	if lost == nil {
		e.Once(notes...)
	}
	if some && len(table.Entries) == 0 {
		return cmp.Or(e.late(lost), nothingRight(failed))
	}
	found := report.Compare(base, best)
	if err := report.Render(e.out, found, cfg.format); err != nil {
		return err
	}
	if lost != nil { // the table is printed all the same
		return e.late(lost)
	}
	return e.writePage(cfg.html, func() *report.Page {
		e.Scope.Keep(f.Path, f)
		return found.Page("Sweep of "+console.Count(len(found.Rows), "problem")+" on "+info.Name, e.Scope.RunsOf(base, best))
	})
}

// nothingRight is the trouble of a sweep that found no variant of any problem to be right; x is the
// first that failed, nil for none.
func nothingRight(x *record.Entry) error {
	if x == nil {
		return hint.Errorf("`--retry-failed` measures again", "no variant of any problem was measured")
	}
	return hint.Errorf("mend what they failed of; with --retry-failed they are measured again",
		"no variant of any problem is right; the first, %s of %s: %s: %s", x.Variant, x.Problem, x.Status, x.Reason)
}

// newRun describes this invocation for the records.
func newRun(e *env, info kernels.DeviceInfo, pr record.Protocol) record.Run {
	env := environment()
	e.AddVersions(env)
	return record.Run{
		ID:       uuid.NewString()[:13],
		Time:     time.Now().UTC().Truncate(time.Millisecond),
		Tool:     version(),
		Command:  append([]string{"normbench"}, e.args[1:]...),
		Device:   info,
		Env:      env,
		Protocol: pr,
	}
}
