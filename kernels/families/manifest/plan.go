package manifest

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families/common"
)

// A planner answers for a family: which problems and configs it takes, and what is launched.
type planner struct {
	*design
	code
	envs sync.Pool
}

// The code of a family: where its files are, and what runs in their place on the cpu.
type code struct {
	prefix  string   // of its files
	include []string // folders of headers, by absolute paths
	files   []string
	host    *kernels.Family              // whose host stages stand in, or nil
	own     map[string]kernels.HostStage // of the family's own kernels, or nil
}

// errNoHost refuses every config on the cpu.
var errNoHost = hint.Errorf(
	"use --device cuda; on a cpu `normbench verify --kernels` checks what can be checked there",
	"the family has no host stage: it runs on a GPU only")

// errFrozen refuses a frozen weight where a kernel writes its gradient: to a null pointer.
var errFrozen = hint.Errorf(`say what it does without: if: "!no_dw" leaves a launch or reduce out, and an `+
	"expression with no_dw tells a kernel that takes a null pointer",
	"it writes dw, and of a frozen weight there is none")

// newFamily makes the family of a design and its code.
func newFamily(d *design, c code) *kernels.Family {
	p := &planner{design: d, code: c}
	f := &kernels.Family{
		Name: d.Name.Text, Op: d.Op, Pass: d.Pass, Doc: d.Doc, Origin: d.Origin, Plain: d.Plain,
		Knobs: slices.Clone(d.knobs), Files: c.files, Unwritten: d.unsavedStatistics,
		Bits: map[string]kernels.Determinism{"bitwise": kernels.Bitwise,
			"none": kernels.NotBitwise}[d.Bits],
		Host: c.own, Serves: p.serves, Base: p.baseOf, Refuse: p.refuse, Plan: p.plan, ByPlace: p.isByPlace,
	}
	if d.Fragile != nil {
		f.Fragile = p.isFragile
	}
	if d.Unordered != nil {
		f.Unordered = p.isUnordered
	}
	if d.reduce != nil { // k2's knobs, where they are not listed
		for _, s := range common.ReduceBase {
			if !d.ranges(s.Knob) {
				f.Knobs = append(f.Knobs, kernels.Values(s.Knob, s.Value))
			}
		}
	}
	if c.host != nil {
		f.Host = c.host.Host
	}
	return f
}

// serves says why a problem is none of the family's.
func (d *planner) serves(p kernels.Problem) error {
	x := d.env()
	defer d.envs.Put(x)
	x.setProblem(p)
	if err := x.pass(d.Serves); err != nil {
		return err
	}
	if err := x.refuseTensors(d.lacking); err != nil {
		return err
	}
	if p.NoDW && d.gradients && !d.frozen {
		return errFrozen
	}
	return d.refuseInplace(p)
}

// refuse says why a config does not run.
func (d *planner) refuse(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) error {
	if dev.Kind == kernels.KindCPU && d.own == nil {
		return d.refuseOnHost(p, c, dev)
	}
	x := d.envOf(p, c, dev)
	defer d.envs.Put(x)
	if x.lacks {
		if err := d.checkBase(x, c); err != nil {
			return err
		}
	}
	if err := d.refuseEnv(x); err != nil || d.partials(x) == 0 {
		return err
	}
	return x.reduce
}

// plan is the plan of a config that is not refused.
func (d *planner) plan(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) kernels.Plan {
	if dev.Kind == kernels.KindCPU && d.host != nil {
		return d.host.Plan(p, d.host.Base(p, dev), dev)
	}
	x := d.envOf(p, c, dev)
	defer d.envs.Put(x)
	return d.planEnv(x, c)
}

func (d *planner) isFragile(c kernels.Config) bool   { return d.holdsFor(d.Fragile, c) }
func (d *planner) isUnordered(c kernels.Config) bool { return d.holdsFor(d.Unordered, c) }

// isByPlace says whether rows start at different places of their vectors: a launch has common.cuh's RAGGED, or the
// manifest allows vectors that no row is made of.
func (d *planner) isByPlace(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) bool {
	if dev.Kind == kernels.KindCPU { // host stages take one element after the other
		return false
	}
	x := d.envOf(p, c, dev)
	defer d.envs.Put(x)
	if !common.WholeVectors(p, x.vectorBytes()) {
		return true
	}
	plan := d.planEnv(x, c)
	return slices.ContainsFunc(plan.Launches, func(l kernels.Launch) bool {
		return slices.Contains(l.Defines, kernels.Define{Name: "RAGGED", Value: 1})
	})
}

// holdsFor evaluates a condition over the knobs alone.
func (d *planner) holdsFor(e *expression, c kernels.Config) bool {
	x := d.env()
	defer d.envs.Put(x)
	d.setConfig(x, c)
	return e.holds(x)
}

// refuseOnHost says why c does not run on the cpu: by its host, or in a family of ours by a constraint
// that asks nothing of the device.
func (d *planner) refuseOnHost(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) error {
	if d.host == nil {
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
	if err := d.host.CheckServes(p); err != nil {
		return err
	}
	return d.host.Refuse(p, d.host.Base(p, dev), dev)
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
func (d *planner) env() *env {
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
func (d *planner) envOf(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) *env {
	x := d.env()
	x.setProblem(p)
	x.setDevice(dev)
	d.setConfig(x, c)
	return x
}

// setConfig gives the knobs the values of c, 0 where it has none.
func (d *planner) setConfig(x *env, c kernels.Config) {
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
func (d *planner) baseOf(p kernels.Problem, dev kernels.DeviceInfo) kernels.Config {
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
		if n == count-1 || whole && d.refuseEnv(x) == nil {
			return kernels.NewConfig(settings...)
		}
		x.bad, x.err = "", nil
	}
}

// checkBase says why c has not all knobs, if the base has a Fault in its place.
func (d *planner) checkBase(x *env, c kernels.Config) error {
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
func (d *planner) baseSettings(x *env, settings []kernels.Setting, count, n int) (
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

// refuseEnv says why there is no plan of x: a rule, what every kernel needs, or a Fault.
func (d *planner) refuseEnv(x *env) error {
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
	for _, b := range d.Rounds.Entries {
		b.Value.int(x)
	}
	d.partials(x)
	for _, l := range d.launches {
		if x.err == nil {
			l.check(x)
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

// planEnv is the plan of c, which is not refused, where x holds.
func (d *planner) planEnv(x *env, c kernels.Config) kernels.Plan {
	p := x.Problem
	plan := kernels.Plan{Inplace: d.overwrites(p)}
	buffers := slices.Concat(p.Tensors(), p.SavedTensors())
	for _, b := range d.Scratch {
		if n := int64(b.Elems.int(x)); n > 0 {
			s := kernels.Scratch{Name: b.Name.Text, DType: b.dtype(p), Elems: n}
			plan.Scratch = append(plan.Scratch, s)
			buffers = append(buffers, kernels.Tensor{Name: s.Name, DType: s.DType, Rows: 1, Cols: n})
		}
	}
	partials := d.partials(x)
	for i, has := range []bool{p.HasWeight(), p.Bias} {
		if partials > 0 && has {
			buffers = append(buffers, kernels.Tensor{Name: reduceBuffers[i]})
		}
	}
	for _, l := range d.launches {
		if k, ok := d.launchPlan(l, x, c, buffers); ok {
			plan.Launches = append(plan.Launches, k)
		}
	}
	for _, b := range d.Rounds.Entries {
		for range b.Value.int(x) {
			plan.Rounds = append(plan.Rounds, kernels.Rounding{Output: b.Key.Text, DType: p.DType})
		}
	}
	if partials == 0 {
		return plan
	}
	full := common.WithReduce(p, c, partials, plan.Launches...)
	full.Scratch, full.Inplace = append(full.Scratch, plan.Scratch...), plan.Inplace
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
func (d *planner) partials(x *env) int64 {
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
	}{{&k.Shared, l.Shared}, {&k.Cluster, l.Cluster}} {
		if of.e != nil {
			*of.to = of.e.int(x)
		}
	}
	for i, e := range l.Grid {
		k.Grid[i] = e.int(x)
	}
	dim := [3]int{1, 1, 1}
	for i, e := range l.Block {
		dim[i] = e.int(x)
	}
	if k.Block = dim[0] * dim[1] * dim[2]; len(l.Block) > 1 {
		k.BlockDim = dim
	}
}

// check finds what is wrong with the launch.
func (l *launchSpec) check(x *env) {
	if !l.If.holds(x) || l.zero.Text != "" {
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
// nothing to clear. buffers are all that there are.
func (d *planner) launchPlan(l *launchSpec, x *env, c kernels.Config, buffers []kernels.Tensor) (
	k kernels.Launch, ok bool) {
	if !l.If.holds(x) {
		return k, false
	}
	if l.zero.Text != "" {
		i := indexOf(buffers, l.zero.Text)
		if i < 0 {
			return k, false
		}
		return kernels.Zero(l.Stage, l.zero.Text, buffers[i].Bytes()), true
	}
	k = kernels.Launch{Stage: l.Stage, Source: d.prefix + l.file().Text, Entry: l.Entry.Text, Early: l.Early}
	l.measure(&k, x)
	l.arguments(&k, x, buffers)
	if l.python != nil {
		l.compileWith(&k, x, c, buffers)
		return k, true
	}
	if l.Source.Text == "" {
		k.Entry = l.symbol
		return k, true
	}
	k.Mangled, k.Include, k.NVCC = d.prefix != "", d.include, l.NVCC // ours are extern "C"
	for _, w := range d.Without {
		k.Without = append(k.Without, w.Text)
	}
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
	for _, def := range l.Defines.Entries {
		k.Defines = append(k.Defines, kernels.Define{Name: def.Key.Text, Value: int64(def.Value.int(x))})
	}
	return k, true
}

// indexOf is the place of the buffer of a name, or -1.
func indexOf(buffers []kernels.Tensor, name string) int {
	return slices.IndexFunc(buffers, func(t kernels.Tensor) bool { return t.Name == name })
}

// knobsOf are the knobs that the sources of a launch see.
func (l *launchSpec) knobsOf(x *env, c kernels.Config) kernels.Config {
	if len(l.Knobs.Entries) == 0 {
		return c
	}
	settings := make([]kernels.Setting, len(l.Knobs.Entries))
	for i, b := range l.Knobs.Entries {
		settings[i] = kernels.Setting{Knob: l.knobs[i], Value: b.Value.int(x)}
	}
	return kernels.Config{}.Unpack().With(settings...)
}

// arguments gives k its arguments.
func (l *launchSpec) arguments(k *kernels.Launch, x *env, buffers []kernels.Tensor) {
	for _, a := range l.Args {
		k.Args = append(k.Args, a.plan(x, buffers))
	}
}

// plan is the argument of x.
func (a *argument) plan(x *env, buffers []kernels.Tensor) kernels.Arg {
	arg := kernels.Arg{Kind: a.kind, Name: a.name}
	switch {
	case a.kind == kernels.ArgStruct:
		for _, f := range a.fields {
			arg.Fields = append(arg.Fields, f.plan(x, buffers))
		}
	case a.kind != kernels.ArgBuffer && a.kind.IsFloat():
		arg.Float = a.value.float(x)
	case a.kind != kernels.ArgBuffer:
		arg.Int = int64(a.value.int(x))
	case indexOf(buffers, a.name) < 0:
		arg.Name = "" // the null pointer
	}
	return arg
}

// refuse holds what the device asks of a launch.
func (l *launchSpec) refuse(k *kernels.Launch, dev kernels.DeviceInfo) error {
	switch {
	case dev.SharedPerBlock > 0 && k.Shared > dev.SharedPerBlock:
		return fmt.Errorf("%s takes %d bytes of shared memory, more than %d",
			k.Stage, k.Shared, dev.SharedPerBlock)
	case k.Block > 1024:
		return &Fault{l.Block[0].Position, fmt.Sprintf("is one of %d, %d and %d: %d threads, more than 1024",
			k.BlockDim[0], k.BlockDim[1], k.BlockDim[2], k.Block)}
	case k.Cluster > 0 && dev.ArchNumber() < 90 && dev.Kind != kernels.KindCPU:
		return fmt.Errorf("clusters need sm_90 or later")
	case k.Cluster > 0 && k.Grid[0]%k.Cluster != 0:
		return &Fault{l.Grid[0].Position,
			fmt.Sprintf("is %d, no multiple of the cluster of %d", k.Grid[0], k.Cluster)}
	}
	return nil
}
