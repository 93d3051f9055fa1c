package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/learn"
)

// auditFile has the live compare of an audit, beside the map.
const auditFile = "audit.json"

// A LearnTask is what is to be learned, on devices that are open.
type LearnTask struct {
	Coverage *learn.Coverage
	Family   string // the only one, which Coverage is for; "" for all
	Devices  []kernels.Device
	Run      record.Run
	Budget   time.Duration
	Seed     uint64
	Out      string
}

// LearnResult is a map with what it rests on.
type LearnResult struct {
	Map   *launchmap.Map
	Data  *learn.Data
	Spent time.Duration // of the budget, with what earlier runs took
	Lost  error         // what was not written

	loop *learn.Loop
	old  *tune.TunedTable // there before
	out  durable.Place
}

// Learn fills a device's map within a budget, and writes it into the tuned table of the results
// folder. A map that could not be written is there beside the error.
func (l *Lab) Learn(s *LearnTask) (*LearnResult, error) {
	p, info := s.Coverage, s.Devices[0].Info()
	onHost := func(f *kernels.Family) bool { return len(f.Host) > 0 }
	if f, err := l.Registry.Lookup(s.Family); err == nil && info.Kind == kernels.KindCPU && !onHost(f) {
		return nil, hint.Errorf("use --device cuda; on a cpu `normbench verify "+f.Name+"` checks what can be checked there",
			"%s has no host stage: it runs on a GPU only", f.Name)
	}
	if info.Kind == kernels.KindCPU && !slices.ContainsFunc(l.UserFamilies, onHost) {
		why := errors.New("none of its families has a host stage, so none runs on a cpu")
		if err := l.ExplainUnused(why); err != nil {
			return nil, err
		}
	}
	if _, ok := s.Devices[0].(*replay.Device); ok {
		return nil, hint.Errorf("`normbench map fill RECORDS` fills a map from them",
			"learn draws its problems, and recorded times are of others")
	}
	r, err := l.Against(s.Family)
	if err != nil {
		return nil, err
	}
	got := &LearnResult{out: tablePlace(s.Out, info, s.Family)}
	if got.old, err = tune.Read(got.out.String()); err == nil { // the first has none
		if err := got.old.CheckFamily(got.out.String(), s.Family); err != nil {
			return nil, err
		}
	}
	folder := filepath.FromSlash(s.Family)
	w, err := l.OpenWriter(s.Out, info.ID, filepath.Join(folder, tune.FileName), filepath.Join(folder, "learn.svg"))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	data, took, err := p.Resume(w.Records())
	if err != nil {
		return nil, err
	}
	if len(data.Points) > 0 {
		l.Notef("%s of earlier runs, which took %s of the budget", console.Count(len(data.Points), "problem"),
			took.Round(time.Second))
	}
	if err := l.TestTimer(&s.Run, s.Devices...); err != nil {
		return nil, err
	}
	if p.Prior.Map != nil {
		l.Notef("the prior is %s", p.Prior.Rung)
	}
	got.loop = &learn.Loop{Coverage: *p, Registry: r, Devices: s.Devices, Store: w, Run: s.Run,
		Seed: s.Seed, Now: time.Now, Budget: s.Budget, Spent: took, Deadline: true, Records: w.Records(),
		Data: data}
	begun := time.Now()
	if err := l.fillMap(got, w.Path()); got.Lost != nil {
		return got, err
	} else if err != nil {
		return nil, err
	}
	l.Notef("%s in %.0f s; %s", console.Count(len(got.Data.Points), "problem"), time.Since(begun).Seconds(),
		got.loop.Why)
	if err := w.Close(); err != nil {
		return nil, err
	}
	l.keepLearned(got, info)
	got.Spent = (took + time.Since(begun)).Round(time.Second)
	return got, nil
}

// fillMap runs the loop, whose map is written each time that it is filled.
func (l *Lab) fillMap(got *LearnResult, records string) (err error) {
	loop := got.loop
	loop.Checkpoint = func(m *launchmap.Map) error {
		got.Map, got.Data = m, loop.Data
		loop.Describe(m, loop.Data)
		got.Lost = l.WithRecords(loop.Write(got.out, got.old, m))
		return got.Lost
	}
	waiting := l.Wait("compiling and measuring the first problems")
	loop.Progress = func(spent time.Duration, problems int) {
		l.Notef("[%s of %s] %s; %s left", spent.Round(time.Second), loop.Budget,
			console.Count(problems, "problem"), max(loop.Budget-spent, 0).Round(time.Second))
		waiting.Set("measuring")
		waiting.Reach(console.Amount{Done: problems, Unit: "problems", Left: max(loop.Budget-spent, time.Second)})
	}
	m, err := loop.Learn(l.Ctx)
	waiting.End()
	l.Notes(report.RunNotes(loop.Summary, loop.Devices))
	switch {
	case got.Lost != nil:
		return got.Lost
	case errors.Is(err, context.Canceled) && l.Ctx.Err() != nil:
		there := fmt.Sprintf("`normbench map fill %s` fills the map from them", filepath.Dir(records))
		if got.Map != nil {
			there = got.out.String() + " has the last whole map"
		}
		return Interruptedf("%s kept in %s, the same command goes on from there; %s",
			console.Count(loop.Summary.Problems, "problem"), records, there)
	case err != nil:
		return err
	}
	got.Map = m
	return nil
}

// keepLearned packs the records, says how the map changed, and draws it.
func (l *Lab) keepLearned(got *LearnResult, info kernels.DeviceInfo) {
	got.Lost = l.WithRecords(record.Pack(durable.Place{Root: got.out.Root, Name: filepath.Join(info.ID, record.FileName)}))
	if got.Lost == nil {
		l.Saved += ".gz"
	}
	l.Notef("wrote the map of %s", got.out)
	l.NoteMapChange(got.loop.Filler, got.old, got.Map)
	drawn := learn.Plot(got.Map, got.Data.Points, info)
	got.Lost = cmp.Or(got.Lost, l.WithRecords(l.Write(got.out.Sibling("learn.svg"), drawn)))
}

// Audit searches n fresh problems in full, on the devices that the map was learned on, and writes
// how far behind the map's answers are.
func (l *Lab) Audit(got *LearnResult, n int) (*report.Table, error) {
	waiting := l.Wait("audit: searching")
	m, err := learn.Audit(l.Ctx, got.loop, got.Map, n, func(s string) { waiting.Set("audit: %s", s) })
	waiting.End()
	if err != nil {
		return nil, err
	}
	live := &report.LiveFile{Experiment: *m}
	got.Lost = cmp.Or(got.Lost, l.WithRecords(live.Write(got.out.Sibling(auditFile))))
	t := live.Comparison().Table()
	t.Title = fmt.Sprintf("the map against a full search of %s that it had not seen\n",
		console.Count(len(m.Duels), "problem")) + t.Title
	t.Notes = append(t.Notes, learn.RegretNotes(m)...)
	return t, nil
}

// Prior is the step whose map answers where nothing was measured: that of a file, of the program
// for a device, or none. Of one family the program has none.
func Prior(text, family string, info kernels.DeviceInfo) (launchmap.Rung, error) {
	switch {
	case text == "none", text == "auto" && family != "":
		return launchmap.Rung{}, nil
	case text == "auto":
		return families.Rung(info), nil
	}
	t, err := tune.Read(text)
	if err == nil {
		err = t.CheckFamily("--prior "+text, family)
	}
	switch {
	case err != nil:
		return launchmap.Rung{}, err
	case t.Map == nil:
		return launchmap.Rung{}, hint.Errorf("`normbench map learn` and `normbench map fill` write maps",
			"--prior %s has no map", text)
	case info.ID == "":
		return launchmap.Rung{}, nil
	}
	return launchmap.RungOf("--prior "+text, t.Map, &info)
}

// Coverage makes the coverage of a map to learn, of the program's widths and the given ones; that of a
// family has its op and pass only.
func (l *Lab) Coverage(prior, family string, info kernels.DeviceInfo, domain shapes.Domain,
	classes []kernels.Problem, widths []int64) (*learn.Coverage, error) {
	step, err := Prior(prior, family, info)
	if err != nil {
		return nil, err
	}
	r, err := l.Against(family)
	if err != nil {
		return nil, err
	}
	if family != "" {
		f, err := r.Lookup(family)
		if err != nil {
			return nil, err
		}
		asked := len(classes)
		classes = slices.DeleteFunc(slices.Clone(classes),
			func(p kernels.Problem) bool { return p.Op != f.Op || p.Pass != f.Pass })
		if asked > 0 && len(classes) == 0 {
			return nil, sweep.NewNoProblemError(family)
		}
	}
	return learn.NewCoverage(r, step, info, domain, classes, widths)
}

// Against returns the registry for a family against itself, or with "" for all.
func (l *Lab) Against(family string) (*kernels.Registry, error) {
	if family == "" {
		return l.Registry, nil
	}
	return l.Registry.Against(family)
}

// NoteMapChange says how the map that f filled differs from the one that a table had before.
func (l *Lab) NoteMapChange(f *learn.Filler, old *tune.TunedTable, m *launchmap.Map) {
	if old != nil && old.Map != nil {
		if changed, of, gain := f.CountChanges(old.Map, m); of > 0 {
			l.Notef("changed %d of %d cells, weighted gain %.1f%%", changed, of, gain)
		}
	}
}

// Page is a map as a page: what each cell runs, how far behind it is, and how near a copy's
// speed.
func (x *LearnResult) Page(t *report.Table, more []report.Fact) *report.Page {
	m, d := x.Map, x.Data
	p := &report.Page{Title: "Map of launch answers of " + m.Device.Name, Runs: d.Runs, More: more,
		Tables: []*report.Table{t},
		What: "A square is a cell of columns and rows, and what runs in it. Regret is the time " +
			"of its config over the best known of the cell's problems, in percent."}
	cells, measured, problems := 0, 0, 0
	for i := range m.Rasters {
		r := &m.Rasters[i]
		cells += len(r.Lines)*len(r.Rows) - r.Count(launchmap.Nothing)
		measured, problems = measured+r.Count(launchmap.Measured), problems+r.Problems
	}
	p.Tally = []report.Tally{{N: fmt.Sprint(cells), Word: "cells with an answer"},
		{N: fmt.Sprint(measured), Word: "of them measured"},
		{N: fmt.Sprint(problems), Word: "problems measured"}}
	all := learn.Pictures(m, d.Points, d.Device)
	cellsOf := report.Figures{Title: "Columns by rows", Help: "Each colour is a family, each letter one of its configs. " +
		"Regret is the mean over the problems that were measured in the cell.", Drawings: all.Drawings,
		Series: all.Families, Views: [2]string{"families", "regret"}, Second: all.Regrets}
	p.Figures = []report.Figures{cellsOf}
	return p
}
