package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/common"
)

// ---- Buffers --------------------------------------------------------------------

// everything are the problems that between them have every tensor of an op and
// pass.
func everything(op kernels.Op, pass kernels.Pass) kernels.Problem {
	p := kernels.Problem{Op: op, Pass: pass, M: 1, N: 1}
	for _, o := range kernels.Options() {
		takes := (o.Pass == "" || o.Pass == pass) && slices.Contains(op.Spec().Options, o.Name)
		if takes && o.Name != "noweight" {
			o.Set(&p)
		}
	}
	return p
}

// tensors are the names of all tensors that d's problems may have. A backward may
// read the saved output, y, and then b too.
func (d *design) tensors() []string {
	var names []string
	for _, op := range d.fields.Op {
		for _, t := range everything(kernels.Op(op.Text), d.Pass).Tensors() {
			if !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
	}
	if d.Pass == kernels.Bwd {
		names = append(names, "y")
	}
	if d.Pass == kernels.Bwd && d.passes("y") {
		names = append(names, "b")
	}
	return names
}

// passes says whether some launch has the buffer as an argument.
func (d *design) passes(name string) bool {
	is := func(a *argument) bool { return a.kind == kernels.ArgBuffer && a.name == name }
	return slices.ContainsFunc(d.launches, func(l launch) bool { return slices.ContainsFunc(l.Args, is) })
}

// kernels are the launches that are kernels.
func (d *design) kernels() []launch {
	return slices.DeleteFunc(slices.Clone(d.launches), func(l launch) bool { return l.zero != "" })
}

// macros are the names of the defines that every launch has.
func (d *design) macros() []string {
	names := []string{kernels.Warps.Macro}
	p := everything(d.Op, d.Pass)
	p.DType, p.Weight = kernels.BF16, kernels.BF16
	var c kernels.Config
	for _, r := range d.knobs {
		c = c.With(kernels.Setting{Knob: r.Knob, Value: r.Values[0]})
	}
	for _, x := range common.Defines(p, c) {
		names = append(names, x.Name)
	}
	return names
}

// ---- Family -----------------------------------------------------------------------

// errNoHost refuses every config on the cpu.
var errNoHost = hint.Errorf(
	"use --device cuda; on a cpu `normbench verify --kernels` checks what can be checked there",
	"the family has no host stage: it runs on a GPU only")

// family is d as a kernels.Family. host, if any, is the family whose host stages
// stand in on the cpu.
func (d *design) family(files []string, host *kernels.Family) *kernels.Family {
	f := &kernels.Family{
		Name: d.Name.Text, Op: d.Op, Pass: d.Pass, Doc: d.Doc, Origin: d.Origin,
		Knobs: slices.Clone(d.knobs), Files: files, Unwritten: d.unwritten(),
		Bits:   map[string]kernels.Determinism{"bitwise": kernels.Bitwise, "none": kernels.NotBitwise}[d.Bits],
		Serves: d.refuseProblem,
		Base: func(p kernels.Problem, dev kernels.DeviceInfo) kernels.Config {
			c, _ := d.baseOf(p, dev)
			return c
		},
		Refuse: func(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) error {
			if dev.Kind == kernels.KindCPU {
				return d.refuseOnHost(host, p, c, dev)
			}
			if err := d.checkBase(p, c, dev); err != nil {
				return err
			}
			_, err := d.plan(p, c, dev)
			return err
		},
		Plan: func(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) kernels.Plan {
			if dev.Kind == kernels.KindCPU && host != nil {
				return host.Plan(p, host.Base(p, dev), dev)
			}
			plan, _ := d.plan(p, c, dev)
			return plan
		},
	}
	if d.reduce != nil { // k2's knobs, where they are not listed
		for _, s := range common.ReduceBase {
			if !d.ranges(s.Knob) {
				f.Knobs = append(f.Knobs, kernels.Values(s.Knob, s.Value))
			}
		}
	}
	if host != nil {
		f.Host = host.Host
	}
	return f
}

// refuseOnHost says why c does not run on the cpu: by host, or in a family of ours by a constraint
// that asks nothing of the device.
func (d *design) refuseOnHost(host *kernels.Family, p kernels.Problem, c kernels.Config,
	dev kernels.DeviceInfo) error {
	if host == nil {
		return errNoHost
	}
	ofAny := func(e *expression) bool { return e == nil || e.level < ofDevice }
	for _, r := range d.Constraints {
		if d.prefix == "" && ofAny(r.If) && ofAny(r.Require) {
			x := &env{Problem: p, device: dev, config: c}
			if err := refuse([]*rule{r}, x); err != nil {
				return err
			}
		}
	}
	if err := host.CheckServes(p); err != nil {
		return err
	}
	return host.Refuse(p, host.Base(p, dev), dev)
}

// unwritten are the statistics that a forward saves for a backward, as far as no launch takes them.
func (d *design) unwritten() []string {
	if d.Pass == kernels.Bwd {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.Op.Spec().Saved), d.passes)
}

// refuseProblem says why d does not serve p: by its own rules, or because a
// tensor of p is given to none of its launches.
func (d *design) refuseProblem(p kernels.Problem) error {
	for _, t := range p.Tensors() {
		switch {
		case d.passes(t.Name), slices.Contains(d.unwritten(), t.Name):
		case p.Pass == kernels.Bwd && d.passes("y") && (t.Name == "x" || t.Name == "mean"): // it reads y instead
		case d.reduce != nil && slices.Contains([]string{"dw", "db", "dw_in", "db_in"}, t.Name): // k2's
		default:
			return hint.Errorf("give it to a launch as an argument, if the kernel uses it",
				"no launch takes %s", t.Name)
		}
	}
	return refuse(d.Serves, &env{Problem: p})
}

// refuse is the reason of the first rule that is broken, or nil. It reads no knob that the rules up
// to there do not read.
func refuse(rules []*rule, x *env) error {
	for _, r := range rules {
		when, err := r.If.holds(x)
		if err != nil {
			return err
		}
		if !when {
			continue
		}
		ok := false
		if r.Require != nil {
			if ok, err = r.Require.holds(x); err != nil {
				return err
			}
		}
		if !ok {
			return errors.New(r.Reason)
		}
	}
	return nil
}

// A found base config is kept for as long as it is asked for the same problem.
type foundBase struct {
	problem kernels.Problem
	device  kernels.DeviceInfo
	config  kernels.Config
	fault   error
}

// baseOf is the base config: the first that works of those to try, else the last. A value that is
// a Fault is left out, and is the error.
func (d *design) baseOf(p kernels.Problem, dev kernels.DeviceInfo) (kernels.Config, error) {
	if b := d.found.Load(); b != nil && b.problem == p && b.device == dev {
		return b.config, b.fault
	}
	b := &foundBase{problem: p, device: dev}
	count, err := 1, error(nil)
	for _, x := range d.base {
		count *= len(x.tries)
	}
	for n := range count {
		if b.config, b.fault = d.baseConfig(p, dev, n); b.fault == nil && n < count-1 {
			_, err = d.plan(p, b.config, dev)
		}
		if cmp.Or(b.fault, err) == nil {
			break
		}
	}
	d.found.Store(b)
	return b.config, b.fault
}

// checkBase says why c has not all knobs, if the base has a Fault in its place.
func (d *design) checkBase(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) error {
	for _, x := range d.base {
		if _, ok := c.Lookup(x.knob); !ok {
			_, err := d.baseOf(p, dev)
			return err
		}
	}
	return nil
}

// baseConfig is the n-th base config to try. The last knob's values change fastest.
func (d *design) baseConfig(p kernels.Problem, dev kernels.DeviceInfo, n int) (c kernels.Config,
	err error) {
	at := make([]int, len(d.base))
	for i := len(d.base) - 1; i >= 0; i-- {
		tries := len(d.base[i].tries)
		at[i], n = n%tries, n/tries
	}
	for i, x := range d.base {
		v, bad := x.tries[at[i]].int(&env{Problem: p, device: dev, config: c})
		if bad != nil && err == nil {
			err = bad
		}
		if bad == nil {
			c = c.With(kernels.Setting{Knob: x.knob, Value: v})
		}
	}
	if d.reduce != nil {
		for _, s := range common.ReduceBase {
			if _, ok := c.Lookup(s.Knob); !ok {
				c = c.With(s)
			}
		}
	}
	return c, err
}

// plan is the plan of c, or why there is none: a rule, what every kernel needs,
// or a Fault.
func (d *design) plan(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) (kernels.Plan, error) {
	var none kernels.Plan
	if !common.WholeVectors(p, c) {
		return none, fmt.Errorf("rows of %d bytes are not whole %d-byte vectors",
			p.N*p.DType.Size(), common.VectorBytes(p, c))
	}
	x := &env{Problem: p, device: dev, config: c}
	if err := refuse(d.Constraints, x); err != nil {
		return none, err
	}
	plan := kernels.Plan{}
	var has []string // buffers
	for _, b := range d.Scratch {
		n, err := b.Elems.int(x)
		if err != nil {
			return none, err
		}
		if n > 0 {
			dtype, err := kernels.ParseDType(b.DType)
			if err != nil {
				dtype = kernels.I32
			}
			name := b.Name.Text
			plan.Scratch = append(plan.Scratch, kernels.Scratch{Name: name, DType: dtype, Elems: int64(n)})
			has = append(has, name)
		}
	}
	for _, t := range slices.Concat(p.Tensors(), p.Saved()) {
		has = append(has, t.Name)
	}
	partials, err := d.partials(x)
	if err != nil {
		return none, err
	}
	if partials > 0 && p.HasWeight() {
		has = append(has, "dw_partial")
	}
	if partials > 0 && p.Bias {
		has = append(has, "db_partial")
	}
	for i := range d.launches {
		l, err := d.launchPlan(&d.launches[i], x, has, plan.Scratch)
		if err != nil {
			return none, err
		}
		plan.Launches = append(plan.Launches, l...)
	}
	if partials == 0 {
		return plan, nil
	}
	if err := common.RefuseReduce(c); err != nil {
		return none, err
	}
	full := common.WithReduce(p, c, partials, plan.Launches...)
	full.Scratch = append(full.Scratch, plan.Scratch...)
	return full, nil
}

// partials are the partial rows that a config leaves to k2, 0 where it has none.
func (d *design) partials(x *env) (int64, error) {
	if d.reduce == nil {
		return 0, nil
	}
	if when, err := d.reduce.If.holds(x); err != nil || !when {
		return 0, err
	}
	n, err := d.reduce.Partials.int(x)
	return int64(n), err
}

// launchPlan is the launch, or none where its condition does not hold or there is
// nothing to clear. has says which buffers there are.
func (d *design) launchPlan(l *launch, x *env, has []string,
	scratch []kernels.Scratch) ([]kernels.Launch, error) {
	if when, err := l.If.holds(x); err != nil || !when {
		return nil, err
	}
	if l.zero != "" {
		i := slices.IndexFunc(scratch, func(s kernels.Scratch) bool { return s.Name == l.zero })
		if i < 0 {
			return nil, nil
		}
		return []kernels.Launch{kernels.Zero(l.Stage, l.zero, scratch[i].Bytes())}, nil
	}
	k := kernels.Launch{Stage: l.Stage, Source: d.prefix + l.file().Text, Entry: l.Entry.Text,
		Grid: [3]int{1, 1, 1}, Early: l.Early}
	if l.Resident != nil {
		when, err := l.Resident.holds(x)
		if err != nil {
			return nil, err
		}
		k.Resident = when
	}
	to := []*int{&k.Block, &k.Shared, &k.Cluster, &k.Grid[0], &k.Grid[1], &k.Grid[2]}
	for i, e := range append([]*expression{l.Block, l.Shared, l.Cluster}, l.Grid...) {
		if e != nil {
			n, err := e.int(x)
			if err != nil {
				return nil, err
			}
			*to[i] = n
		}
	}
	if err := l.refuse(&k, x.device); err != nil {
		return nil, err
	}
	if err := l.arguments(&k, x, has); err != nil {
		return nil, err
	}
	if l.python != nil {
		err := l.compileWith(&k, x, scratch)
		return []kernels.Launch{k}, err
	}
	if l.Source.Text == "" {
		return []kernels.Launch{k}, nil
	}
	k.Mangled, k.Include = d.prefix != "", d.include // ours are extern "C"
	for _, o := range d.Options {
		k.Options = append(k.Options, o.Text)
	}
	seen, err := l.knobsOf(x)
	if err != nil {
		return nil, err
	}
	k.Defines = common.Defines(x.Problem, seen)
	if _, ok := x.config.Lookup(kernels.Warps); !ok && l.common { // a word that CUB has a use for
		warps := kernels.Define{Name: kernels.Warps.Macro, Value: int64(k.Block+31) / 32}
		k.Defines = append(k.Defines, warps)
	}
	for _, def := range l.Defines {
		n, err := def.value.int(x)
		if err != nil {
			return nil, err
		}
		k.Defines = append(k.Defines, kernels.Define{Name: def.name.Text, Value: int64(n)})
	}
	return []kernels.Launch{k}, nil
}

// knobsOf are the knobs that the sources of a launch see.
func (l *launch) knobsOf(x *env) (c kernels.Config, err error) {
	if l.Knobs == nil {
		return x.config, nil
	}
	settings := make([]kernels.Setting, len(l.Knobs))
	for i, s := range l.Knobs {
		settings[i].Knob = s.knob
		if settings[i].Value, err = s.tries[0].int(x); err != nil {
			return c, err
		}
	}
	return c.Unpacked().With(settings...), nil
}

// arguments gives k its arguments.
func (l *launch) arguments(k *kernels.Launch, x *env, has []string) error {
	for _, a := range l.Args {
		arg := kernels.Arg{Kind: a.kind, Name: a.name}
		var err error
		switch {
		case a.kind != kernels.ArgBuffer && a.kind.IsFloat():
			arg.Float, err = a.value.float(x)
		case a.kind != kernels.ArgBuffer:
			var n int
			n, err = a.value.int(x)
			arg.Int = int64(n)
		case !slices.Contains(has, a.name):
			arg.Name = "" // the null pointer
		}
		if err != nil {
			return err
		}
		k.Args = append(k.Args, arg)
	}
	return nil
}

// refuse holds what the device asks of a launch.
func (l *launch) refuse(k *kernels.Launch, dev kernels.DeviceInfo) error {
	switch {
	case dev.SharedPerBlock > 0 && k.Shared > dev.SharedPerBlock:
		return fmt.Errorf("%s takes %d bytes of shared memory, more than %d",
			k.Stage, k.Shared, dev.SharedPerBlock)
	case k.Cluster > 0 && arch(dev) < 90:
		return fmt.Errorf("clusters need sm_90 or later")
	case k.Cluster > 0 && k.Grid[0]%k.Cluster != 0:
		return &Fault{l.Grid[0].Place,
			fmt.Sprintf("is %d, no multiple of the cluster of %d", k.Grid[0], k.Cluster)}
	}
	return nil
}
