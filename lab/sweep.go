package lab

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
	"normbench/tune"
)

// A SweepTask says what a sweep measures, on devices that are open.
type SweepTask struct {
	Config   *OpenOptions
	Devices  []kernels.Device
	Problems []kernels.Problem
	Only     []string // families; nil for all
	Knobs    []kernels.Range
	Out      string
	Search   SearchPlan
	Options  sweep.RunOptions

	// What is laid out.
	Tasks    []sweep.Task
	Variants int
	old      *tune.TunedTable // of the results folder; nil for none
}

// Dir is the results folder of the device.
func (s *SweepTask) Dir() string { return filepath.Join(s.Out, s.info().ID) }

func (s *SweepTask) info() kernels.DeviceInfo { return s.Devices[0].Info() }

// A SearchPlan is what is asked of a search.
type SearchPlan struct {
	sweep.SearchOptions
	Keep []string // REFs
}

// LayOut lays out the tasks of a sweep.
func (l *Lab) LayOut(s *SweepTask) (err error) {
	if s.Tasks, err = sweep.Grid(l.Ctx, l.Registry, s.Problems, s.info(), s.Only, s.Knobs); err != nil {
		return err
	}
	if d, ok := s.Devices[0].(*replay.Device); ok && len(s.Knobs) == 0 {
		if gone := sweep.UseRecorded(l.Registry, s.Tasks, d, s.Only); gone > 0 {
			l.Notef("%s of families that are no more left out", console.Count(gone, "recorded variant"))
		}
	}
	refused := 0
	for _, t := range s.Tasks {
		s.Variants += len(t.Variants)
		refused += t.Refused
	}
	if err := l.CheckUsed(s.Tasks, s.info()); err != nil {
		return err
	}
	l.Notef("%s: %s, %s; %s refused by the spaces", s.info().Name, console.Count(len(s.Tasks), "problem"),
		console.Count(s.Variants, "variant"), console.Count(refused, "config"))
	s.old, err = tune.Read(filepath.Join(s.Dir(), tune.FileName))
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err // of a folder that is none, the records' writer says more
	}
	return l.planSearch(s)
}

// planSearch sets a sweep up for a search, if this is to be one.
func (l *Lab) planSearch(s *SweepTask) error {
	p := &s.Search
	if p.Strategy == search.Grid {
		return nil
	}
	if err := sweep.CheckBudget(p.Budget, len(s.Tasks)); err != nil {
		return err
	}
	if err := l.keepEntries(s); err != nil {
		return err
	}
	// Of fewer than 12 none of nine variants can be called faster. They leave intervals in which
	// gains of 1 or 2% are lost, and one round that another program spoiled leaves no proof.
	finals := 8
	if s.info().Kind == kernels.KindCPU {
		finals, p.Launches = sweep.CPUFinals, sweep.CPULaunches
	}
	p.Rounds, p.Finals = cmp.Or(p.Rounds, sweep.FinalRounds), cmp.Or(p.Finals, finals)
	s.Options.SearchBy(&p.SearchOptions)
	return nil
}

// keepEntries adds the checked-in entries and the variants to keep to the tasks. An entry that this
// normbench or this device cannot run is passed over with a note.
func (l *Lab) keepEntries(s *SweepTask) error {
	refs, err := l.ParseAll(s.Search.Keep...)
	if err != nil {
		return err
	}
	used, info := make([]bool, len(refs)), s.info()
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if s.old != nil && s.old.Device.ID == info.ID {
			if entry, ok := s.old.Lookup(t.Problem); ok {
				if _, v, _, err := l.Registry.Resolve(t.Problem, entry.Variant(), info); err != nil {
					l.Notef("the tuned table's %s is left out: %s", entry.Variant(),
						console.OneLine(err.Error()))
				} else {
					t.Add(v)
					t.Checked = v
				}
			}
		}
		for j, r := range refs {
			vs, err := l.Resolver.Variants(r, t.Problem, info)
			if err != nil {
				l.Notef("--keep %s is left out on %s: %s", r.Text, t.Problem, console.OneLine(err.Error()))
			}
			for _, v := range vs {
				used[j] = true
				t.Add(v)
			}
		}
	}
	for j, r := range refs {
		if !used[j] {
			return NoProblem("--keep " + r.Text)
		}
	}
	return nil
}

// SweepResult is what a sweep found: base against best for its problems.
type SweepResult struct {
	*report.Comparison
	Lost error // the table was not written
}

// Sweep measures, and folds what it finds into the tuned table of the results folder. What it found
// is there beside an error too, if a sweep that ended early found some.
func (l *Lab) Sweep(s *SweepTask) (*SweepResult, error) {
	o, info := &s.Options, s.info()
	pr, unit, total := o.Run.Protocol, "variants", s.Variants
	w, err := l.OpenWriter(s.Out, info.ID, tune.FileName)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if o.Search != nil {
		unit, pr, total = "problems", o.Search.Final.Protocol, len(s.Tasks)
	}
	fold, err := tune.NewFold(l.Registry, w.Records(), s.old,
		&tune.TunedTable{Schema: tune.Schema, Tool: l.Tool, Device: info, Protocol: pr},
		durable.Place{Root: s.Out, Name: filepath.Join(info.ID, tune.FileName)})
	if err != nil {
		return nil, err
	}
	o.Test = func(run *record.Run) error { return l.TestTimer(run, s.Devices...) }
	if p := o.Search; p != nil {
		p.Known = fold.History()
		o.Finished = func(recs []*record.Record) error { return fold.Add(recs, &p.Final) }
		if err := fold.Resume(); err != nil {
			return nil, err
		}
	}
	var more []kernels.Device
	defer func() { Close(more) }()
	o.More = func(problems int) (_ []kernels.Device, err error) {
		more, err = l.companions(s.Config, s.Devices, s.Problems, problems)
		return more, err
	}
	p := report.NewProgress(l.Console, unit, total)
	o.Observe = p.Observe
	sum, err := sweep.Run(l.Ctx, l.Registry, s.Devices, s.Tasks, w, *o)
	p.End()
	cut := err != nil
	if errors.Is(err, context.Canceled) && l.Ctx.Err() != nil {
		err = Interruptedf("%d records are kept in %s, the same command goes on from there", sum.Measured,
			w.Path())
	}
	l.Notes(report.RunNotes(sum, slices.Concat(s.Devices, more)))
	if err := w.CheckUnchanged(); err != nil { // nothing can be concluded from another's file
		return nil, err
	}
	if !cut && sum.Short > 0 {
		if sum.Short == sum.Problems {
			return nil, search.ErrShort(s.Problems[0], sum.Problems, s.Search.Budget.String(), sum.Wall)
		}
		l.Notef("budget %s: on %d of %s no more than the base was measured", s.Search.Budget, sum.Short,
			console.Count(sum.Problems, "problem"))
	}
	// The table has the finished problems and is shown, whatever ended the sweep.
	found, bad := l.conclude(s, fold, cut)
	return found, cmp.Or(bad, err)
}

// conclude writes the tuned table of a results folder's records, and compares base with best on the
// problems at hand. Of a sweep that was cut off there may be nothing at all.
func (l *Lab) conclude(s *SweepTask, fold *tune.Fold, cut bool) (*SweepResult, error) {
	var whole map[kernels.Problem]int // variants
	if cut {
		whole = map[kernels.Problem]int{}
		for _, t := range s.Tasks {
			whole[t.Problem] = len(t.Variants)
		}
	}
	found := &SweepResult{}
	path := filepath.Join(s.Dir(), record.FileName) // both sides are of one recording
	base := report.Side{Label: "base", Records: path, Cells: map[kernels.Problem]report.Measurement{}}
	best := report.Side{Label: "best", Records: path, Cells: map[kernels.Problem]report.Measurement{},
		Ahead: map[kernels.Problem]report.Measurement{}}
	some, right := false, false
	var failed *record.Outcome // the first that is not right
	notes, lost := fold.Conclude(whole, func(p kernels.Problem, variants []*record.Outcome,
		picks []tune.Entry) {
		some, right = true, right || len(picks) > 0
		for _, x := range variants {
			if x.Status != kernels.StatusOK && failed == nil {
				failed = x
			}
		}
		add := func(side report.Side, keep func(*record.Outcome) bool) {
			maps.Copy(side.Cells, report.SideOf("", slices.Values(variants), keep).Cells)
		}
		if slices.Contains(s.Problems, p) {
			add(base, func(x *record.Outcome) bool { return x.Base })
			add(best, func(x *record.Outcome) bool { return len(picks) == 0 || x.Variant == picks[0].Variant() })
			if len(picks) > 0 {
				if x := report.FasterThanBase(variants, picks[0].Variant()); x != nil {
					best.Ahead[p] = report.Measurement{Outcome: *x}
				}
			}
		}
	})
	if cut && !some {
		return nil, nil
	}
	l.NoteOnce(notes...)
	if lost != nil {
		found.Lost = Exit(ExitTrouble, l.WithRecords(lost))
	}
	if some && !right {
		return nil, cmp.Or(found.Lost, noRightVariant(failed))
	}
	found.Comparison = report.Compare(base, best)
	return found, nil
}

// noRightVariant makes the error of a sweep that found no variant of any problem to be right; x is the
// first that failed, nil for none.
func noRightVariant(x *record.Outcome) error {
	if x == nil {
		return hint.Errorf("`--retry-failed` measures again", "no variant of any problem was measured")
	}
	return hint.Errorf("mend what they failed of; with --retry-failed they are measured again",
		"no variant of any problem is right; the first, %s of %s: %s: %s", x.Variant, x.Problem,
		x.Status, x.Reason)
}
