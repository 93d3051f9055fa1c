// Package sweep measures variants: it lays out what to measure (Tasks), how a
// time is taken (ColdProtocol), and runs it on devices (Run), one record per
// variant, appended at once.
package sweep

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// A Task is a problem with the variants to measure on it, all with complete configs.
type Task struct {
	Problem kernels.Problem
	Base    kernels.Variant // what runs before any tuning
	// BaseOf is the family that is swept against itself: Base is its own default, and no variant of
	// another family wins. It is "" where Base is normbench's default.
	BaseOf string
	// Default is normbench's default beside such a family, without a family where it is not measured.
	Default  kernels.Variant
	Variants []kernels.Variant
	Refused  int // configs that the spaces gave a reason against
	// Keep are variants that a search always measures and never eliminates,
	// beside the base: the checked-in entry and presets. They are among Variants.
	Keep []kernels.Variant
	// Checked is the checked-in entry of the tuned table, without a family where there is none.
	Checked kernels.Variant
}

// AddKept adds a variant that a search always measures and never eliminates.
func (t *Task) AddKept(v kernels.Variant) {
	if !slices.Contains(t.Variants, v) {
		t.Variants = append(t.Variants, v)
	}
	if v != t.Base && !slices.Contains(t.Keep, v) {
		t.Keep = append(t.Keep, v)
	}
}

// Rivals says whether a variant may win the task: any may, but only the family's own where a family is
// measured against its own default.
func (t *Task) Rivals(v kernels.Variant) bool { return t.BaseOf == "" || v.Family == t.BaseOf }

// AddDefault adds normbench's default to the task of a family that is measured against its own.
func (t *Task) AddDefault(v kernels.Variant) {
	t.Default = v
	t.AddKept(v)
}

// AgainstItself makes the tasks of a family against its own default: for each problem that it serves and
// has a default for, the default as base and each of its configs. refused has the errors of the problems
// without a default. It fails if no problem is left.
func AgainstItself(ctx context.Context, r *kernels.Registry, problems []kernels.Problem,
	d kernels.DeviceInfo, family string, override []kernels.Range) (tasks []Task, refused []error, err error) {
	against, err := r.Against(family)
	if err != nil {
		return nil, nil, err
	}
	var ps, served []kernels.Problem
	for _, p := range problems {
		if len(against.Candidates(p)) == 0 {
			continue
		}
		served = append(served, p)
		if _, err := against.Base(p, d); err != nil {
			refused = append(refused, err)
		} else {
			ps = append(ps, p)
		}
	}
	switch {
	case len(ps) > 0:
		tasks, err = Grid(ctx, against, ps, d, nil, override)
		return tasks, refused, err
	case len(served) == 0:
		return nil, nil, servesNone(family)
	}
	f, err := r.Lookup(family)
	if err == nil {
		err = refusesAll(f, served, d)
	}
	return nil, nil, cmp.Or(err, refused[0])
}

// servesNone makes the error of a named family that serves none of the problems.
func servesNone(family string) error {
	return hint.Errorf("`normbench list families` shows the op and pass of each family",
		"family %s serves none of the problems asked for", family)
}

// Grid lays out an exhaustive sweep: for every problem each config of each
// family that serves it, the base first. Only the families named in only take
// part, or all where it is empty; override replaces the values of knobs. A
// named family that serves none of the problems, or has all its configs refused, is an
// error, as are values of a knob that no config has. It ends early with ctx's error.
//
// Problems are laid out side by side, on all cores.
func Grid(ctx context.Context, r *kernels.Registry, problems []kernels.Problem,
	d kernels.DeviceInfo, only []string, override []kernels.Range) ([]Task, error) {
	for _, name := range only {
		if _, err := r.Lookup(name); err != nil {
			return nil, err
		}
	}
	tasks, errs := make([]Task, len(problems)), make([]error, len(problems))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range problems {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				tasks[i], errs[i] = layOutTask(r, p, d, only, override)
			}
			return nil
		})
	}
	g.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	return tasks, checkGrid(r, tasks, d, only, override)
}

// layOutTask makes the task of one problem for Grid.
func layOutTask(r *kernels.Registry, p kernels.Problem, d kernels.DeviceInfo, only []string,
	override []kernels.Range) (Task, error) {
	if err := p.CheckFits(d); err != nil {
		return Task{}, err
	}
	base, err := r.Base(p, d)
	if err != nil {
		return Task{}, err
	}
	// The base takes part whatever was asked for: it is what the others are
	// compared with.
	t := Task{Problem: p, Base: base, BaseOf: r.BaseOf, Variants: []kernels.Variant{base}}
	for _, f := range r.Candidates(p, only...) {
		configs, refused := f.Configs(p, d, override...)
		t.Refused += refused
		for _, c := range configs {
			if v := (kernels.Variant{Family: f.Name, Config: c}); v != base {
				t.Variants = append(t.Variants, v)
			}
		}
	}
	return t, nil
}

// checkGrid fails if a named family or a value of a knob is in no task.
func checkGrid(r *kernels.Registry, tasks []Task, d kernels.DeviceInfo, only []string,
	override []kernels.Range) error {
	served := map[string]bool{}
	for _, t := range tasks {
		for _, f := range r.Candidates(t.Problem, only...) {
			served[f.Name] = true
		}
	}
	for _, name := range only {
		if !served[name] {
			return servesNone(name)
		}
	}
	for _, o := range override {
		used := func(v kernels.Variant) bool {
			n, ok := v.Config.Lookup(o.Knob)
			return ok && slices.Contains(o.Values, n)
		}
		if !slices.ContainsFunc(tasks,
			func(t Task) bool { return slices.ContainsFunc(t.Variants, used) }) {
			return hint.Errorf("`normbench list configs` shows why configs are refused",
				"no config of this sweep has the values of --knob %s", o.Knob.Key)
		}
	}
	if len(override) > 0 {
		return nil // the values may be to blame, not the family
	}
	for _, name := range only {
		f, err := r.Lookup(name)
		if err != nil {
			return err
		}
		var ps []kernels.Problem
		for _, t := range tasks {
			if f.CheckServes(t.Problem) == nil {
				ps = append(ps, t.Problem)
			}
		}
		if err := refusesAll(f, ps, d); err != nil {
			return err
		}
	}
	return nil
}

// refusesAll makes an error if a family refuses every config on all problems that it serves, with the
// first reason; else it returns nil.
func refusesAll(f *kernels.Family, served []kernels.Problem, d kernels.DeviceInfo) (why error) {
	for _, p := range served {
		s := f.Space(p, d)
		if len(s.Configs) > 0 {
			return nil
		}
		if why == nil && len(s.Refused) > 0 {
			why = f.Refuse(p, s.Refused[0].Config, d)
		}
	}
	if why == nil {
		return nil
	}
	next := cmp.Or(hint.Of(why), "`normbench list configs` shows why configs are refused")
	return hint.Errorf(next, "every config of family %s is refused, at first as %w", f.Name, why)
}

// ColdProtocol returns the default protocol: before every sample twice the size of the device's
// last-level cache is moved through it, outside the timed interval; the first launch of a visit, which
// reads long after a pause, is dropped; the stages are timed in a pass of their own.
func ColdProtocol(d kernels.DeviceInfo, samples int) record.Protocol {
	return record.Protocol{
		Name:         "cold",
		Samples:      samples,
		Discard:      1,
		StageSamples: max(samples/2, 1),
		Flush:        2 * d.CacheBytes,
		Cold:         true,
		Inputs:       kernels.InputsVersion,
	}
}

// WarmProtocol returns ColdProtocol without the flush: it times what the caches hold, for comparison
// only.
func WarmProtocol(d kernels.DeviceInfo, samples int) record.Protocol {
	p := ColdProtocol(d, samples)
	p.Name, p.Flush, p.Cold = "warm", 0, false
	return p
}
