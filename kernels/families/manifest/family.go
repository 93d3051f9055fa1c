package manifest

import (
	"fmt"
	"math"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families/common"
)

// ---- Buffers --------------------------------------------------------------------

// fullProblem makes the problem of an op and a pass with all options that it takes, so that it has every
// tensor there can be.
func fullProblem(op kernels.Op, pass kernels.Pass) kernels.Problem {
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
		for _, t := range fullProblem(kernels.Op(op.Text), d.Pass).Tensors() {
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

// outputs are the names of those that d's problems may have.
func (d *design) outputs() (names []string) {
	for _, t := range fullProblem(d.Op, d.Pass).Tensors() {
		if t.Role == kernels.Output {
			names = append(names, t.Name)
		}
	}
	return names
}

// passes says whether some launch has the buffer as an argument.
func (d *design) passes(name string) bool {
	is := func(a *argument) bool { return a.kind == kernels.ArgBuffer && a.name == name }
	return slices.ContainsFunc(d.launches, func(l launchSpec) bool { return slices.ContainsFunc(l.Args, is) })
}

// macros are the names of the defines that every launch has.
func (d *design) macros() []string {
	names := []string{kernels.Warps.Macro}
	p := fullProblem(d.Op, d.Pass)
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
// stand in on the cpu, and own are d's own.
func (d *design) family(files []string, host *kernels.Family,
	own map[string]kernels.HostStage) *kernels.Family {
	f := &kernels.Family{
		Name: d.Name.Text, Op: d.Op, Pass: d.Pass, Doc: d.Doc, Origin: d.Origin,
		Knobs: slices.Clone(d.knobs), Files: files, Unwritten: d.unwritten(),
		Bits: map[string]kernels.Determinism{"bitwise": kernels.Bitwise,
			"none": kernels.NotBitwise}[d.Bits],
		Host: own,
		Serves: func(p kernels.Problem) error {
			x := d.env()
			defer d.envs.Put(x)
			x.setProblem(p)
			if err := x.pass(d.Serves); err != nil {
				return err
			}
			return x.refuseTensors(d.lacking)
		},
		Base: d.baseOf,
		Refuse: func(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) error {
			if dev.Kind == kernels.KindCPU && own == nil {
				return d.refuseOnHost(host, p, c, dev)
			}
			x := d.envOf(p, c, dev)
			defer d.envs.Put(x)
			if x.lacks {
				if err := d.checkBase(x, c); err != nil {
					return err
				}
			}
			if err := d.refuse(x); err != nil || d.partials(x) == 0 {
				return err
			}
			return x.reduce
		},
		Plan: func(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) kernels.Plan {
			if dev.Kind == kernels.KindCPU && host != nil {
				return host.Plan(p, host.Base(p, dev), dev)
			}
			x := d.envOf(p, c, dev)
			defer d.envs.Put(x)
			return d.plan(x, c)
		},
	}
	ofKnobs := func(e *expression) func(kernels.Config) bool {
		if e == nil {
			return nil
		}
		return func(c kernels.Config) bool {
			x := d.env()
			defer d.envs.Put(x)
			d.setConfig(x, c)
			return e.holds(x)
		}
	}
	f.Fragile, f.Unordered = ofKnobs(d.Fragile), ofKnobs(d.Unordered)
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
	ofAny := func(e *expression) bool { return e == nil || e.sources&ofDevice == 0 }
	x := d.envOf(p, c, dev)
	defer d.envs.Put(x)
	for _, r := range d.Constraints {
		if d.prefix == "" && ofAny(r.If) && ofAny(r.Require) {
			if err := r.refuse(x); err != nil {
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

// untaken are the tensors of d's problems that no launch takes and that are not left unwritten.
func (d *design) untaken() (names []string) {
	for _, t := range fullProblem(d.Op, d.Pass).Tensors() {
		switch {
		case d.passes(t.Name), slices.Contains(d.unwritten(), t.Name):
		// it reads y instead
		case d.Pass == kernels.Bwd && d.passes("y") && (t.Name == "x" || t.Name == "mean"):
		case d.reduce != nil && slices.Contains([]string{"dw", "db", "dw_in", "db_in"}, t.Name): // k2's
		default:
			names = append(names, t.Name)
		}
	}
	return names
}

// refuseTensors says that the problem has one of those that no launch takes.
func (x *env) refuseTensors(untaken []string) error {
	if len(untaken) == 0 {
		return nil
	}
	var room [12]kernels.Tensor
	for _, t := range x.AppendTensors(room[:0]) {
		if slices.Contains(untaken, t.Name) {
			return hint.Errorf("give it to a launch as an argument, if the kernel uses it",
				"no launch takes %s", t.Name)
		}
	}
	return nil
}

// env is what the expressions of d stood for when they were last asked, without a Fault.
func (d *design) env() *env {
	x, ok := d.envs.Get().(*env)
	if !ok {
		x = &env{tries: true, slots: make([]float64, len(d.knobs)+len(d.uses)), uses: d.uses,
			vector: slotOf(d.knobs, kernels.VectorBytes)}
		for i := range d.uses {
			x.slots[len(d.knobs)+i] = math.NaN()
		}
	}
	x.bad, x.err = "", nil
	return x
}

// envOf is what they stand for.
func (d *design) envOf(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) *env {
	x := d.env()
	x.setProblem(p)
	x.setDevice(dev)
	d.setConfig(x, c)
	return x
}

// setConfig gives the knobs the values of c, 0 where it has none.
func (d *design) setConfig(x *env, c kernels.Config) {
	if !x.tries && c.Is(x.config) {
		return
	}
	x.config, x.tries, x.lacks, x.reduce = c, false, false, common.RefuseReduce(c)
	for i, r := range d.knobs {
		v, ok := c.Lookup(r.Knob)
		x.setKnob(i, v)
		x.lacks = x.lacks || !ok
	}
}

// refuse is the reason if the rule is broken, or a Fault.
func (r *rule) refuse(x *env) error {
	if r.If.holds(x) && (r.Require == nil || !r.Require.holds(x)) && x.err == nil {
		return r
	}
	return x.err
}

// baseOf is the base config: the first that works of those to try, else the last. A knob whose value
// is a Fault is left out.
func (d *design) baseOf(p kernels.Problem, dev kernels.DeviceInfo) kernels.Config {
	count := 1
	for _, b := range d.base {
		count *= len(b.tries)
	}
	x := d.env()
	defer d.envs.Put(x)
	x.setProblem(p)
	x.setDevice(dev)
	x.tries = true
	var settings []kernels.Setting
	for n := 0; ; n++ {
		var whole bool
		settings, whole = d.baseSettings(x, settings[:0], count, n)
		if n == count-1 || whole && d.refuse(x) == nil {
			return kernels.NewConfig(settings...)
		}
		x.bad, x.err = "", nil
	}
}

// checkBase says why c has not all knobs, if the base has a Fault in its place.
func (d *design) checkBase(x *env, c kernels.Config) error {
	for _, b := range d.base {
		if _, ok := c.Lookup(b.knob); !ok {
			b.tries[len(b.tries)-1].int(x)
			return x.err
		}
	}
	return nil
}

// baseSettings appends the n-th of count base configs, which x has then: the last knob's values
// change fastest. It is whole where no value is a Fault.
func (d *design) baseSettings(x *env, settings []kernels.Setting, count, n int) (
	_ []kernels.Setting, whole bool) {
	whole = true
	for _, b := range d.base {
		count /= len(b.tries)
		v := b.tries[n/count%len(b.tries)].int(x)
		if x.err != nil {
			whole, x.bad, x.err = false, "", nil
			x.setKnob(b.slot, 0)
			continue
		}
		x.setKnob(b.slot, v)
		settings = append(settings, kernels.Setting{Knob: b.knob, Value: v})
	}
	if d.reduce != nil {
		for _, s := range common.ReduceBase {
			if !d.ranges(s.Knob) {
				settings = append(settings, s)
			}
		}
	}
	return settings, whole
}

// refuse says why there is no plan of x: a rule, what every kernel needs, or a Fault.
func (d *design) refuse(x *env) error {
	row, v := x.N*x.DType.Size(), x.vectorBytes()
	if !common.WholeVectors(x.Problem, v) && !(d.Ragged && v == 16) {
		return fmt.Errorf("rows of %d bytes are not whole %d-byte vectors", row, v)
	}
	if err := x.pass(d.Constraints); err != nil {
		return err
	}
	for _, b := range d.Scratch {
		b.Elems.int(x)
	}
	for _, b := range d.Rounds {
		b.value.int(x)
	}
	d.partials(x)
	for i := range d.launches {
		if x.err == nil {
			d.launches[i].check(x)
		}
	}
	return x.err
}

// pass is the first rule that is broken, or a Fault.
func (x *env) pass(rules []*rule) error {
	for _, r := range rules {
		if err := r.refuse(x); err != nil {
			return err
		}
	}
	return nil
}

// plan is the plan of c, which is not refused.
func (d *design) plan(x *env, c kernels.Config) kernels.Plan {
	p := x.Problem
	plan := kernels.Plan{}
	var has []string // buffers
	for _, b := range d.Scratch {
		if n := b.Elems.int(x); n > 0 {
			name := b.Name.Text
			plan.Scratch = append(plan.Scratch,
				kernels.Scratch{Name: name, DType: b.dtype(p), Elems: int64(n)})
			has = append(has, name)
		}
	}
	for _, t := range slices.Concat(p.Tensors(), p.SavedTensors()) {
		has = append(has, t.Name)
	}
	partials := d.partials(x)
	if partials > 0 && p.HasWeight() {
		has = append(has, "dw_partial")
	}
	if partials > 0 && p.Bias {
		has = append(has, "db_partial")
	}
	for i := range d.launches {
		if l, ok := d.launchPlan(&d.launches[i], x, c, has, plan.Scratch); ok {
			plan.Launches = append(plan.Launches, l)
		}
	}
	for _, b := range d.Rounds {
		for range b.value.int(x) {
			plan.Rounds = append(plan.Rounds, kernels.Rounding{Output: b.key.Text, DType: p.DType})
		}
	}
	if partials == 0 {
		return plan
	}
	full := common.WithReduce(p, c, partials, plan.Launches...)
	full.Scratch = append(full.Scratch, plan.Scratch...)
	full.Rounds = append(full.Rounds, plan.Rounds...)
	return full
}

// dtype is the type of b's elements for a problem.
func (b *buffer) dtype(p kernels.Problem) kernels.DType {
	switch b.DType {
	case "x":
		return p.DType
	case "w":
		return p.Weight
	}
	dtype, err := kernels.ParseDType(b.DType)
	if err != nil {
		return kernels.I32
	}
	return dtype
}

// partials are the partial rows that a config leaves to k2, 0 where it has none.
func (d *design) partials(x *env) int64 {
	if d.reduce == nil || !d.reduce.If.holds(x) {
		return 0
	}
	return int64(d.reduce.Partials.int(x))
}

// measure gives k its geometry.
func (l *launchSpec) measure(k *kernels.Launch, x *env) {
	k.Grid = [3]int{1, 1, 1}
	k.Resident = l.Resident != nil && l.Resident.holds(x)
	for _, of := range []struct {
		to *int
		e  *expression
	}{{&k.Block, l.Block}, {&k.Shared, l.Shared}, {&k.Cluster, l.Cluster}} {
		if of.e != nil {
			*of.to = of.e.int(x)
		}
	}
	for i, e := range l.Grid {
		k.Grid[i] = e.int(x)
	}
}

// check finds what is wrong with the launch.
func (l *launchSpec) check(x *env) {
	if !l.If.holds(x) || l.zero != "" {
		return
	}
	k := kernels.Launch{Stage: l.Stage}
	if l.measure(&k, x); x.err == nil {
		x.err = l.refuse(&k, x.device)
	}
	for _, e := range l.values {
		e.check(x)
	}
}

// launchPlan is the launch, or none where its condition does not hold or there is
// nothing to clear. has says which buffers there are.
func (d *design) launchPlan(l *launchSpec, x *env, c kernels.Config, has []string,
	scratch []kernels.Scratch) (k kernels.Launch, ok bool) {
	if !l.If.holds(x) {
		return k, false
	}
	if l.zero != "" {
		for _, s := range scratch {
			if s.Name == l.zero {
				return kernels.Zero(l.Stage, l.zero, s.Bytes()), true
			}
		}
		for _, t := range x.Problem.Tensors() {
			if t.Name == l.zero {
				return kernels.Zero(l.Stage, l.zero, t.Bytes()), true
			}
		}
		return k, false
	}
	k = kernels.Launch{Stage: l.Stage, Source: d.prefix + l.file().Text, Entry: l.Entry.Text, Early: l.Early}
	l.measure(&k, x)
	l.arguments(&k, x, has)
	if l.python != nil {
		l.compileWith(&k, x, c, scratch)
		return k, true
	}
	if l.Source.Text == "" {
		return k, true
	}
	k.Mangled, k.Include = d.prefix != "", d.include // ours are extern "C"
	for _, o := range d.Options {
		k.Options = append(k.Options, o.Text)
	}
	if !l.Bare {
		k.Defines = common.Defines(x.Problem, l.knobsOf(x, c))
	}
	if _, ok := c.Lookup(kernels.Warps); !ok && l.common && !l.Bare { // a word that CUB has a use for
		warps := kernels.Define{Name: kernels.Warps.Macro, Value: int64(k.Block+31) / 32}
		k.Defines = append(k.Defines, warps)
	}
	for _, def := range l.Defines {
		k.Defines = append(k.Defines, kernels.Define{Name: def.key.Text, Value: int64(def.value.int(x))})
	}
	return k, true
}

// knobsOf are the knobs that the sources of a launch see.
func (l *launchSpec) knobsOf(x *env, c kernels.Config) kernels.Config {
	if l.Knobs == nil {
		return c
	}
	settings := make([]kernels.Setting, len(l.Knobs))
	for i, b := range l.Knobs {
		settings[i] = kernels.Setting{Knob: l.knobs[i], Value: b.value.int(x)}
	}
	return kernels.Config{}.Unpack().With(settings...)
}

// arguments gives k its arguments.
func (l *launchSpec) arguments(k *kernels.Launch, x *env, has []string) {
	for _, a := range l.Args {
		arg := kernels.Arg{Kind: a.kind, Name: a.name}
		switch {
		case a.kind != kernels.ArgBuffer && a.kind.IsFloat():
			arg.Float = a.value.float(x)
		case a.kind != kernels.ArgBuffer:
			arg.Int = int64(a.value.int(x))
		case !slices.Contains(has, a.name):
			arg.Name = "" // the null pointer
		}
		k.Args = append(k.Args, arg)
	}
}

// refuse holds what the device asks of a launch.
func (l *launchSpec) refuse(k *kernels.Launch, dev kernels.DeviceInfo) error {
	switch {
	case dev.SharedPerBlock > 0 && k.Shared > dev.SharedPerBlock:
		return fmt.Errorf("%s takes %d bytes of shared memory, more than %d",
			k.Stage, k.Shared, dev.SharedPerBlock)
	case k.Cluster > 0 && dev.ArchNumber() < 90 && dev.Kind != kernels.KindCPU:
		return fmt.Errorf("clusters need sm_90 or later")
	case k.Cluster > 0 && k.Grid[0]%k.Cluster != 0:
		return &Fault{l.Grid[0].Position,
			fmt.Sprintf("is %d, no multiple of the cluster of %d", k.Grid[0], k.Cluster)}
	}
	return nil
}
