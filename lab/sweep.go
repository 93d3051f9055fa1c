package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"normbench/sweep/shard"
	"normbench/tune"
)

// A SweepTask says what a sweep measures, on devices that are open.
type SweepTask struct {
	Config   *OpenOptions
	Devices  []kernels.Device
	Joining  <-chan kernels.Device // those that come later, nil where none will
	Beside   bool                  // other kinds of device are swept at the same time
	Problems []kernels.Problem
	Only     []string // families, each of which is swept against itself; nil for all against the base
	Knobs    []kernels.Range
	Out      string
	Search   SearchPlan
	Options  sweep.RunOptions
	Shard    *record.Shard // what of the problems is measured, nil for all
	// BatchInvariant picks one variant for problems that differ in their rows alone.
	BatchInvariant bool

	// What is laid out.
	Tasks    []sweep.Task
	Variants int
	parts    []*part
	Saved    string // the file of its records, once it is open
}

// A part is what a sweep finds for one tuned table: that of a family, or the device's.
type part struct {
	family   string            // "" for all
	registry *kernels.Registry // for the family against itself
	old      *tune.TunedTable  // of the results folder; nil for none
	fold     *tune.Fold
}

// place returns where the table of the part is.
func (s *SweepTask) place(x *part) durable.Place {
	return tablePlace(s.Out, s.info(), x.family)
}

// tablePlace returns where the tuned table of a device lies in a results folder, or that of one family.
func tablePlace(out string, info kernels.DeviceInfo, family string) durable.Place {
	return durable.Place{Root: out, Name: filepath.Join(info.ID, filepath.FromSlash(family), tune.FileName)}
}

func (s *SweepTask) info() kernels.DeviceInfo { return s.Devices[0].Info() }

// A SearchPlan is what is asked of a search.
type SearchPlan struct {
	sweep.SearchOptions
	Keep []string // REFs
}

// LayOut lays out the tasks of a sweep.
func (l *Lab) LayOut(s *SweepTask) (err error) {
	if err := l.layOutTasks(s); err != nil {
		return err
	}
	if d, ok := s.Devices[0].(*replay.Device); ok && len(s.Knobs) == 0 {
		if gone := sweep.UseRecorded(l.Registry, s.Tasks, d); gone > 0 {
			l.Notef("%s of families that are no more left out", console.Count(gone, "recorded variant"))
		}
	}
	refused := 0
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.BaseOf != "" {
			if err := l.addDefault(s, t); err != nil {
				return err
			}
		}
		s.Variants += len(t.Variants)
		refused += t.Refused
	}
	if err := l.CheckUsed(s.Tasks, s.info()); err != nil {
		return err
	}
	l.Notef("%s: %s, %s; %s refused by the spaces", s.info().Name, console.Count(len(s.Tasks), "problem"),
		console.Count(s.Variants, "variant"), console.Count(refused, "config"))
	for _, x := range s.parts {
		name := s.place(x).String()
		x.old, err = tune.Read(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err // of a folder that is none, the records' writer says more
		}
		if err := x.old.CheckFamily(name, x.family); err != nil {
			return err
		}
	}
	s.Options.Run.Shard = s.Shard
	if err := l.planSearch(s); err != nil {
		return err
	}
	if s.Shard != nil {
		l.keepShard(s)
	}
	return nil
}

// keepShard leaves the tasks of the sweep's shard. What is wrong with the others was said, as every shard says it.
func (l *Lab) keepShard(s *SweepTask) {
	asked := s.Problems
	if len(s.Only) > 0 { // those that a family serves, on whatever device
		asked = slices.DeleteFunc(slices.Clone(asked), func(p kernels.Problem) bool {
			return !slices.ContainsFunc(s.parts, func(x *part) bool { return len(x.registry.Candidates(p)) > 0 })
		})
	}
	mine := shard.Of(s.Shard, asked)
	all := len(s.Tasks)
	s.Tasks = slices.DeleteFunc(s.Tasks, func(t sweep.Task) bool { return !slices.Contains(mine, t.Problem) })
	s.Variants = 0
	for i := range s.Tasks {
		s.Variants += len(s.Tasks[i].Variants)
	}
	x := s.Shard
	x.Problems, x.Variants, x.All = len(s.Tasks), s.Variants, all
	flags := []string{"sweep", s.Search.Strategy, s.Search.Budget.String(), fmt.Sprint(s.Search.Rounds, s.Search.Finals),
		fmt.Sprintf("%q %q", s.Search.Keep, s.Only)}
	for _, r := range s.Knobs {
		flags = append(flags, fmt.Sprint(r.Knob.Key, r.Values))
	}
	x.Plan = shard.Plan(asked, flags...)
	if n := s.Search.Budget.Configs; n > 0 && all > 0 { // which is of all problems
		s.Search.Budget.Configs = max(n*len(s.Tasks)/all, len(s.Tasks))
	}
	l.Notef("shard %s has %s of %d, %s", x, console.Count(len(s.Tasks), "problem"), all,
		console.Count(s.Variants, "variant"))
}

// layOutTasks lays out all families against the base, or each family that is named against itself.
func (l *Lab) layOutTasks(s *SweepTask) (err error) {
	if len(s.Only) == 0 {
		s.parts = []*part{{registry: l.Registry}}
		s.Tasks, err = sweep.Grid(l.Ctx, l.Registry, s.Problems, s.info(), nil, s.Knobs)
		return err
	}
	for i, family := range s.Only {
		if slices.Contains(s.Only[:i], family) {
			return hint.Errorf("name it once", "--family %s stands twice", family)
		}
		against, err := l.Registry.Against(family)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, &part{family: family, registry: against})
	}
	for _, x := range s.parts {
		tasks, refused, err := sweep.AgainstItself(l.Ctx, l.Registry, s.Problems, s.info(), x.family, s.Knobs)
		if err != nil {
			return err
		}
		if n := len(refused); n > 0 {
			l.Notef("%s left out: %s", console.Count(n, "problem"), console.OneLine(refused[0].Error()))
		}
		s.Tasks = append(s.Tasks, tasks...)
	}
	return nil
}

// addDefault puts normbench's default beside a family that is swept against itself. A replay may not
// have it.
func (l *Lab) addDefault(s *SweepTask, t *sweep.Task) error {
	v, err := l.Registry.Base(t.Problem, s.info())
	if err != nil {
		return err
	}
	if d, ok := s.Devices[0].(*replay.Device); ok {
		if _, timed := d.Variants(t.Problem); !timed[v] {
			return nil
		}
	}
	t.AddDefault(v)
	return nil
}

// planSearch sets a sweep up for a search, if this is to be one.
func (l *Lab) planSearch(s *SweepTask) error {
	p := &s.Search
	if p.IsGrid() {
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

// part returns that of a family.
func (s *SweepTask) part(family string) *part {
	return s.parts[slices.IndexFunc(s.parts, func(x *part) bool { return x.family == family })]
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
		if old := s.part(t.BaseOf).old; old != nil && old.Device.ID == info.ID {
			if entry, ok := old.Lookup(t.Problem); ok {
				if _, v, _, err := l.Registry.Resolve(t.Problem, entry.Variant(), info); err != nil {
					l.Notef("the tuned table's %s is left out: %s", entry.Variant(),
						console.OneLine(err.Error()))
				} else {
					t.AddKept(v)
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
				t.AddKept(v)
			}
		}
	}
	for j, r := range refs {
		if !used[j] {
			return sweep.NewNoProblemError("--keep " + r.Text)
		}
	}
	return nil
}

// SweepResult is what a sweep found: base against best for its problems, of each family that was
// swept against itself by itself.
type SweepResult struct {
	Found []*report.Comparison
	Lost  error // a table was not written
}

// Sweep measures, and folds what it finds into the tuned tables of the results folder. What it found
// is there beside an error too, if a sweep that ended early found some.
func (l *Lab) Sweep(s *SweepTask) (*SweepResult, error) {
	o, info := &s.Options, s.info()
	pr, unit, total := o.Run.Protocol, "variants", s.Variants
	var tables []string
	for _, x := range s.parts {
		tables = append(tables, filepath.Join(filepath.FromSlash(x.family), tune.FileName))
	}
	open := record.OpenWriter
	if s.Shard != nil {
		open = record.OpenUnsharedWriter
	}
	w, err := l.openWriter(open, s.Out, info.ID, tables)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	s.Saved = w.Path()
	if o.Search != nil {
		unit, pr, total = "problems", o.Search.Final.Protocol, len(s.Tasks)
	}
	var widths *sweep.RunOptions // of the second part of a batch-invariant search
	if s.BatchInvariant && o.Search != nil {
		next, plan := s.widthOptions()
		widths, pr = &next, plan.Final.Protocol
	}
	for _, x := range s.parts {
		x.fold, err = tune.NewFold(x.registry, w.Records(), x.old,
			&tune.TunedTable{Schema: tune.Schema, Tool: l.Tool, Device: info, BaseOf: x.family, Protocol: pr}, s.place(x))
		if err != nil {
			return nil, err
		}
	}
	o.Test = func(run *record.Run) error { return l.TestTimer(run, s.Devices...) }
	if p := o.Search; p != nil {
		for _, x := range s.parts {
			x.fold.AddHistory(p.Known)
			if widths != nil {
				continue // what is best of a problem alone has no place in the table
			}
			if err := x.fold.Resume(); err != nil {
				return nil, err
			}
		}
		if widths == nil {
			o.Finished = func(recs []*record.Record) error {
				return s.part(recs[0].BaseOf).fold.Add(recs, &p.Final)
			}
		}
	}
	var more []kernels.Device
	defer func() { Close(more) }()
	o.More = func(problems int) (_ []kernels.Device, err error) {
		more, err = l.companions(s.Config, s.Devices, s.Problems, problems)
		return more, err
	}
	p := report.NewProgress(l.Console, unit, total)
	if s.Beside {
		p.Device = info.Name
	}
	o.Observe, o.Waiting = p.Observe, p.Waiting
	if s.Joining != nil {
		ctx, stop := context.WithCancel(l.Ctx)
		defer stop()
		o.Joining = l.testedDevices(ctx, s.Joining)
	}
	sum, err := sweep.Run(l.Ctx, l.Registry, s.Devices, s.Tasks, w, *o)
	p.End()
	if err == nil && widths != nil {
		widths.Run.SelfTest, widths.Run.FloorUS = o.Run.SelfTest, o.Run.FloorUS
		err = l.sweepWidths(s, w, *widths)
	}
	cut := err != nil
	if errors.Is(err, context.Canceled) && l.Ctx.Err() != nil {
		err = Interruptedf("%d records are kept in %s, the same command goes on from there", sum.Measured,
			w.Path())
	}
	for _, note := range report.RunNotes(sum, slices.Concat(s.Devices, more)) {
		if s.Beside {
			note = info.Name + ": " + note
		}
		l.Notef("%s", note)
	}
	if err := w.CheckUnchanged(); err != nil { // nothing can be concluded from another's file
		return nil, err
	}
	if !cut && sum.Short > 0 {
		if sum.Short == sum.Problems {
			return nil, sweep.NewShortBudgetError(s.Tasks[0].Problem, sum.Problems, s.Search.Budget.String(), sum.Wall)
		}
		l.Notef("budget %s: on %d of %s no more than the base was measured", s.Search.Budget, sum.Short,
			console.Count(sum.Problems, "problem"))
	}
	if cut && s.BatchInvariant { // the missing problems may change what is best of a width
		return nil, err
	}
	// The tables have the finished problems and are shown, whatever ended the sweep.
	found, bad := l.conclude(s, cut)
	return found, cmp.Or(bad, err)
}

// testedDevices tests the timer of each GPU that joins a sweep, before it does. On a CPU what measures beside it
// would spoil the test.
func (l *Lab) testedDevices(ctx context.Context, joining <-chan kernels.Device) <-chan kernels.Device {
	tested := make(chan kernels.Device)
	go func() {
		defer close(tested)
		for d := range joining {
			if d.Info().Kind == kernels.KindCUDA {
				if err := l.TestTimer(&record.Run{}, d); err != nil {
					l.Notef("left out: %s", console.OneLine(err.Error()))
					continue
				}
			}
			select {
			case tested <- d:
			case <-ctx.Done():
				return
			}
		}
	}()
	return tested
}

// conclude writes the tuned tables of a results folder's records, and compares base with best on the
// problems at hand. Of a sweep that was cut off there may be nothing at all.
func (l *Lab) conclude(s *SweepTask, cut bool) (*SweepResult, error) {
	found := &SweepResult{}
	some, right := false, false
	var failed *record.Outcome // the first that is not right
	for _, x := range s.parts {
		c, lost := l.concludePart(s, x, cut, func(variants []*record.Outcome, picks []tune.Entry) {
			some, right = true, right || len(picks) > 0
			for _, v := range variants {
				if v.Status != kernels.StatusOK && failed == nil {
					failed = v
				}
			}
		})
		if lost != nil {
			found.Lost = cmp.Or(found.Lost, Exit(ExitTrouble, withRecords(lost, s.Saved)))
		}
		if c != nil {
			found.Found = append(found.Found, c)
		}
	}
	switch {
	case cut && !some:
		return nil, nil
	case some && !right:
		return nil, cmp.Or(found.Lost, noRightVariant(failed))
	}
	return found, nil
}

// concludePart writes one tuned table, and compares base with best on its problems: nil where a sweep
// that was cut off has none. tell is told of the variants of each problem, with its pick.
func (l *Lab) concludePart(s *SweepTask, x *part, cut bool, tell func([]*record.Outcome, []tune.Entry)) (
	*report.Comparison, error) {
	var whole map[kernels.Problem]int // variants
	if cut {
		whole = map[kernels.Problem]int{}
	}
	asked := map[kernels.Problem]bool{}
	for _, t := range s.Tasks {
		if t.BaseOf == x.family {
			if asked[t.Problem] = true; cut {
				whole[t.Problem] = len(t.Variants)
			}
		}
	}
	path := filepath.Join(s.Out, s.info().ID, record.FileName) // all sides are of one recording
	side := func(label string) report.Side {
		return report.Side{Label: label, Records: path, Cells: map[kernels.Problem]report.Measurement{}}
	}
	base, best, beside := side("base"), side("best"), side("normbench's default")
	if x.family != "" {
		base.Label, best.Label = x.family+report.OwnDefault, x.family+" at its best"
	}
	if s.BatchInvariant {
		best.Label = "best of its width"
	}
	best.Ahead = map[kernels.Problem]report.Measurement{}
	some := false
	each := func(p kernels.Problem, variants []*record.Outcome, picks []tune.Entry) {
		some = true
		tell(variants, picks)
		add := func(side report.Side, keep func(*record.Outcome) bool) {
			maps.Copy(side.Cells, report.SideOf("", slices.Values(variants), keep).Cells)
		}
		if !asked[p] {
			return
		}
		add(base, func(x *record.Outcome) bool { return x.Base })
		add(best, func(x *record.Outcome) bool {
			return x.Rivals() && (len(picks) == 0 || x.Variant == picks[0].Variant())
		})
		add(beside, func(x *record.Outcome) bool { return x.Default })
		if len(picks) > 0 {
			if x := report.FasterThanBase(variants, picks[0].Variant()); x != nil {
				best.Ahead[p] = report.Measurement{Outcome: *x}
			}
		}
	}
	var notes []string
	var lost error
	if s.BatchInvariant {
		notes, lost = x.fold.ConcludeWidths(asked, func(ps []kernels.Problem, v kernels.Variant) bool {
			return l.keepsRows(s, ps, v)
		}, each)
	} else {
		notes, lost = x.fold.Conclude(whole, each)
	}
	if cut && !some {
		return nil, lost
	}
	l.NoteOnce(notes...)
	c := report.Compare(base, best)
	if x.family != "" {
		c.PutBeside(beside, best)
	}
	return c, lost
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
