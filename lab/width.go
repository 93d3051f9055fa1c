package lab

import (
	"cmp"
	"slices"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/tune"
)

// widthRivals is how many variants are measured on all problems of a width, at most: the best of each of them.
const widthRivals = 12

// widthOptions makes the options of the second part of a batch-invariant search. Its records are of a protocol of
// their own, so that the same command finds them.
func (s *SweepTask) widthOptions() (o sweep.RunOptions, p *sweep.SearchOptions) {
	o, p = s.Options, new(s.Search.SearchOptions)
	o.Run.ID += "-widths"
	o.Run.Protocol.Phase, p.Budget, p.Known = "", sweep.SearchOptions{}.Budget, nil
	o.SearchBy(p)
	o.Run.Protocol.Search = s.Options.Run.Protocol.Search + ", best of widths"
	p.Final.Protocol.Search = o.Run.Protocol.Search
	return o, p
}

// sweepWidths measures what did best on a problem on all problems of its width, in the rounds of one more finals.
func (l *Lab) sweepWidths(s *SweepTask, w *record.Writer, o sweep.RunOptions) error {
	tasks := l.widthTasks(s, w.Records())
	p := report.NewProgress(l.Console, "problems", len(tasks))
	o.Observe, o.Waiting, o.Finished, o.More, o.Joining, o.Sum = p.Observe, p.Waiting, nil, nil, nil, nil
	l.Notef("batch-invariant: the best of each problem, measured on all problems of its width")
	_, err := sweep.Run(l.Ctx, l.Registry, s.Devices, tasks, w, o)
	p.End()
	return err
}

// widthTasks makes the tasks of sweepWidths from what the searches have found.
func (l *Lab) widthTasks(s *SweepTask, records *record.File) (tasks []sweep.Task) {
	type key struct {
		width  kernels.Problem
		baseOf string
	}
	widths := map[key][]*sweep.Task{}
	var order []key
	for i := range s.Tasks {
		k := key{tune.WidthOf(s.Tasks[i].Problem), s.Tasks[i].BaseOf}
		if widths[k] == nil {
			order = append(order, k)
		}
		widths[k] = append(widths[k], &s.Tasks[i])
	}
	final := s.Search.Final.Protocol
	for _, k := range order {
		var ranked [][]record.Outcome // what is right on each problem, the fastest first
		for es := range records.LatestOutcomes(func(x *record.Outcome) bool {
			return x.Run.Protocol == final && x.BaseOf == k.baseOf && tune.WidthOf(x.Problem) == k.width
		}).ByProblem() {
			es = slices.DeleteFunc(es, func(x record.Outcome) bool {
				return x.Status != kernels.StatusOK || !x.Rivals() || x.Variant.Family == record.Stream
			})
			slices.SortFunc(es, func(a, b record.Outcome) int { return cmp.Compare(a.Median, b.Median) })
			ranked = append(ranked, es)
		}
		for _, t := range widths[k] {
			next := sweep.Task{Problem: t.Problem, Base: t.Base, BaseOf: t.BaseOf, Variants: []kernels.Variant{t.Base}}
			for _, v := range l.widthVariants(ranked, widths[k], s.info()) {
				next.AddKept(v)
			}
			if t.Default.Family != "" {
				next.AddDefault(t.Default)
			}
			tasks = append(tasks, next)
		}
	}
	return tasks
}

// widthVariants chooses the best of each problem in turn, of those that all problems take and that keep
// a row's bits.
func (l *Lab) widthVariants(ranked [][]record.Outcome, tasks []*sweep.Task, info kernels.DeviceInfo) (vs []kernels.Variant) {
	taken := func(v kernels.Variant) bool {
		return !slices.ContainsFunc(tasks, func(t *sweep.Task) bool {
			f, _, _, err := l.Registry.Resolve(t.Problem, v, info)
			return err != nil || !f.KeepsRows(t.Problem, v.Config, info)
		})
	}
	for place, more := 0, true; more; place++ {
		more = false
		for _, es := range ranked {
			if place >= len(es) || len(vs) == widthRivals {
				continue
			}
			more = true
			if v := es[place].Variant; !slices.Contains(vs, v) && taken(v) {
				vs = append(vs, v)
			}
		}
	}
	return vs
}

// keepsRows says whether a variant gives rows of problems the same bits in fewer rows, as verify finds out. It
// is taken at its family's word where nothing runs.
func (l *Lab) keepsRows(s *SweepTask, ps []kernels.Problem, v kernels.Variant) bool {
	byPlace := func(p kernels.Problem) bool {
		f, err := l.Registry.Lookup(v.Family)
		return err == nil && !f.KeepsRows(p, v.Config, s.info())
	}
	if slices.ContainsFunc(ps, byPlace) {
		l.Notef("%s is left out on rows of %d columns: a row's bits depend on its number there", v, ps[0].N)
		return false
	}
	if _, replayed := s.Devices[0].(*replay.Device); replayed {
		return true
	}
	most := slices.MaxFunc(ps, func(a, b kernels.Problem) int { return cmp.Compare(a.M, b.M) })
	c := sweep.RowComparer{Registry: l.Registry, Device: s.Devices[0], Seed: s.Options.Seed}
	found, err := c.Compare(l.Ctx, most, []kernels.Variant{v})
	why := found[0].Wrong
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		l.Notef("%s is left out on %s: %s", v, most, console.OneLine(why))
	}
	return why == ""
}
