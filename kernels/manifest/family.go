package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
)

// ---- Variables ----------------------------------------------------------------

// some is the problem that stands for any where the names of variables count.
var some = kernels.Problem{M: 1, N: 1}

// problemVars are the variables of what a family serves.
func problemVars(p kernels.Problem) vars {
	widest, _ := families.VectorBytes(p, kernels.Config{})
	v := vars{
		"M": int(p.M), "N": int(p.N),
		"xb": int(p.DType.Size()), "wb": int(p.Weight.Size()), "widest": int(widest),
		"bf16": flag(p.DType == kernels.BF16), "fp16": flag(p.DType == kernels.FP16), "fp32": flag(p.DType == kernels.FP32),
		"weight": flag(p.HasWeight()),
	}
	for _, s := range kernels.Ops() {
		v[string(s.Op)] = flag(p.Op == s.Op)
	}
	for _, o := range kernels.Options() {
		if o.Var != "" {
			v[o.Var] = flag(o.Has(p))
		}
	}
	return v
}

// deviceVars are those of the base rule, to which the knobs above come.
func deviceVars(p kernels.Problem, d kernels.DeviceInfo) vars {
	v := problemVars(p)
	v["sms"], v["arch"], v["shared_max"], v["registers"] = d.SMs, arch(d), d.SharedPerBlock, d.RegsPerSM
	v["units"] = d.SMs // its name before 2026-11-24
	return v
}

// arch is 90 for sm_90, and 0 where there is no such thing.
func arch(d kernels.DeviceInfo) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(d.Arch, "sm_"))
	return n
}

// configVars are those of everything else.
func configVars(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) vars {
	v := deviceVars(p, d)
	bytes, _ := families.VectorBytes(p, c)
	v["vb"], v["vecs"] = int(bytes), int(p.N*p.DType.Size()/bytes)
	for _, s := range c.Settings() {
		v.knob(s.Knob, s.Value)
	}
	return v
}

// knob sets a knob under both of its names.
func (v vars) knob(k *kernels.Knob, n int) { v[k.Key], v[k.Name] = n, n }

// with is v with one more.
func (v vars) with(name string, value any) vars {
	v = maps.Clone(v)
	v[name] = value
	return v
}

// known are the names that expressions of d may use, with values of their types.
func (d *design) known() vars {
	var c kernels.Config
	for _, r := range d.knobs {
		c = c.With(kernels.Setting{Knob: r.Knob})
	}
	return configVars(some, c, kernels.DeviceInfo{})
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

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
	for _, t := range everything(d.op, d.pass).Tensors() {
		names = append(names, t.Name)
	}
	if d.pass == kernels.Bwd {
		names = append(names, "y")
	}
	if d.pass == kernels.Bwd && d.passes("y") {
		names = append(names, "b")
	}
	return names
}

// passes says whether some launch has the buffer as an argument.
func (d *design) passes(name string) bool {
	return slices.ContainsFunc(d.launches, func(l launch) bool {
		return slices.ContainsFunc(l.args, func(a argument) bool { return a.kind == kernels.ArgBuffer && a.name == name })
	})
}

// kernels are the launches that are kernels.
func (d *design) kernels() []launch {
	return slices.DeleteFunc(slices.Clone(d.launches), func(l launch) bool { return l.zero != "" })
}

// macros are the names of the defines that every launch has.
func (d *design) macros() []string {
	names := []string{kernels.Warps.Macro}
	p := everything(d.op, d.pass)
	p.DType, p.Weight = kernels.BF16, kernels.BF16
	for _, x := range families.RowDefines(p, d.smallest()) {
		names = append(names, x.Name)
	}
	return names
}

// smallest is a config with the first value of each knob.
func (d *design) smallest() kernels.Config {
	var c kernels.Config
	for _, r := range d.knobs {
		c = c.With(kernels.Setting{Knob: r.Knob, Value: r.Values[0]})
	}
	return c
}

// ---- Family -----------------------------------------------------------------------

// errNoHost refuses every config on the cpu.
var errNoHost = hint.Errorf("use --device cuda; on a cpu `normbench verify --kernels` checks what can be checked there", "the family has no host stage: it runs on a GPU only")

// family is d as a kernels.Family. host, if any, is the family whose host stages
// stand in on the cpu.
func (d *design) family(files []string, host *kernels.Family) *kernels.Family {
	f := &kernels.Family{
		Name: d.name, Op: d.op, Pass: d.pass, Doc: d.doc, Origin: d.origin,
		Knobs: slices.Clone(d.knobs), Files: files, Bits: d.bits,
		Serves: d.refuseProblem,
		Base:   d.baseOf,
		Refuse: func(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo) error {
			if dev.Kind == kernels.KindCPU {
				return refuseHost(host, p, dev)
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
		for _, s := range families.ReduceBase() {
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

func refuseHost(host *kernels.Family, p kernels.Problem, dev kernels.DeviceInfo) error {
	if host == nil {
		return errNoHost
	}
	if err := host.CheckServes(p); err != nil {
		return err
	}
	return host.Refuse(p, host.Base(p, dev), dev)
}

// refuseProblem says why d does not serve p: by its own rules, or because a
// tensor of p is given to none of its launches.
func (d *design) refuseProblem(p kernels.Problem) error {
	for _, t := range p.Tensors() {
		switch {
		case d.passes(t.Name):
		case p.Pass == kernels.Bwd && d.passes("y") && (t.Name == "x" || t.Name == "mean"): // it reads y instead
		case d.reduce != nil && slices.Contains([]string{"dw", "db", "dw_in", "db_in"}, t.Name): // k2's
		default:
			return hint.Errorf("give it to a launch as an argument, if the kernel uses it", "no launch takes %s", t.Name)
		}
	}
	return refuse(d.serves, problemVars(p))
}

// refuse is the reason of the first rule that is broken, or nil.
func refuse(rules []rule, v vars) error {
	for _, r := range rules {
		when, err := r.when.holds(v)
		if err != nil {
			return err
		}
		if !when {
			continue
		}
		ok := false
		if r.require != nil {
			if ok, err = r.require.holds(v); err != nil {
				return err
			}
		}
		if !ok {
			return errors.New(r.reason)
		}
	}
	return nil
}

// baseOf is the base config. A value that is a Fault is left out: plan finds it
// again.
func (d *design) baseOf(p kernels.Problem, dev kernels.DeviceInfo) kernels.Config {
	c, _ := d.baseConfig(p, dev)
	return c
}

func (d *design) baseConfig(p kernels.Problem, dev kernels.DeviceInfo) (c kernels.Config, err error) {
	v := deviceVars(p, dev)
	for _, x := range d.base {
		n, bad := x.int(v)
		if bad != nil && err == nil {
			err = bad
		}
		v.knob(x.knob, n)
		c = c.With(kernels.Setting{Knob: x.knob, Value: n})
	}
	if d.reduce != nil {
		for _, s := range families.ReduceBase() {
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
	if _, err := d.baseConfig(p, dev); err != nil {
		return none, err
	}
	bytes, fits := families.VectorBytes(p, c)
	if !fits {
		return none, fmt.Errorf("rows of %d bytes are not whole %d-byte vectors", p.N*p.DType.Size(), bytes)
	}
	v := configVars(p, c, dev)
	if err := refuse(d.constraints, v); err != nil {
		return none, err
	}
	plan := kernels.Plan{}
	has := map[string]bool{}
	for _, b := range d.scratch {
		n, err := b.elems.int(v)
		if err != nil {
			return none, err
		}
		if n > 0 {
			plan.Scratch = append(plan.Scratch, kernels.Scratch{Name: b.name, DType: b.dtype, Elems: int64(n)})
			has[b.name] = true
		}
	}
	for _, t := range p.Tensors() {
		has[t.Name] = true
	}
	if d.pass == kernels.Bwd {
		has["y"], has["b"] = true, p.Bias
	}
	if d.reduce != nil {
		has["dw_partial"], has["db_partial"] = p.HasWeight(), p.Bias
	}
	for i := range d.launches {
		l, err := d.launches[i].plan(p, c, dev, v, has, plan.Scratch)
		if err != nil {
			return none, err
		}
		plan.Launches = append(plan.Launches, l...)
	}
	if d.reduce == nil {
		return plan, nil
	}
	if err := families.RefuseReduce(c); err != nil {
		return none, err
	}
	partials, err := d.reduce.int(v)
	if err != nil {
		return none, err
	}
	return families.WithReduce(p, c, int64(partials), plan), nil
}

// plan is the launch, or none where its condition does not hold or there is
// nothing to clear. has says which buffers there are.
func (l *launch) plan(p kernels.Problem, c kernels.Config, dev kernels.DeviceInfo, v vars, has map[string]bool, scratch []kernels.Scratch) ([]kernels.Launch, error) {
	if when, err := l.when.holds(v); err != nil || !when {
		return nil, err
	}
	if l.zero != "" {
		i := slices.IndexFunc(scratch, func(s kernels.Scratch) bool { return s.Name == l.zero })
		if i < 0 {
			return nil, nil
		}
		return []kernels.Launch{kernels.Zero(l.stage, l.zero, scratch[i].Bytes())}, nil
	}
	k := kernels.Launch{Stage: l.stage, Source: Prefix + l.source, Entry: l.entry, Grid: [3]int{1, 1, 1}, Resident: l.resident, Early: l.early}
	numbers := []struct {
		to *int
		of *expression
	}{{&k.Grid[0], l.grid[0]}, {&k.Grid[1], l.grid[1]}, {&k.Grid[2], l.grid[2]}, {&k.Block, l.block}, {&k.Shared, l.shared}, {&k.Cluster, l.cluster}}
	for _, x := range numbers {
		if x.of != nil {
			n, err := x.of.int(v)
			if err != nil {
				return nil, err
			}
			*x.to = n
		}
	}
	if err := l.refuse(&k, dev); err != nil {
		return nil, err
	}
	k.Defines = families.RowDefines(p, c)
	if _, ok := c.Lookup(kernels.Warps); !ok { // common.cuh asks for it
		k.Defines = append(k.Defines, kernels.Define{Name: kernels.Warps.Macro, Value: int64(k.Block+31) / 32})
	}
	for _, x := range l.defines {
		n, err := x.value.int(v)
		if err != nil {
			return nil, err
		}
		k.Defines = append(k.Defines, kernels.Define{Name: x.name, Value: int64(n)})
	}
	for _, a := range l.args {
		x := kernels.Arg{Kind: a.kind, Name: a.name}
		var err error
		switch a.kind {
		case kernels.ArgBuffer:
			if !has[a.name] {
				x.Name = "" // the null pointer
			}
		case kernels.ArgInt64:
			var n int
			n, err = a.value.int(v)
			x.Int = int64(n)
		case kernels.ArgFloat32:
			x.Float, err = a.value.float(v.with("eps", p.Op.Spec().Eps))
		}
		if err != nil {
			return nil, err
		}
		k.Args = append(k.Args, x)
	}
	return []kernels.Launch{k}, nil
}

// refuse holds what the device asks of a launch.
func (l *launch) refuse(k *kernels.Launch, dev kernels.DeviceInfo) error {
	switch {
	case dev.SharedPerBlock > 0 && k.Shared > dev.SharedPerBlock:
		return fmt.Errorf("%s takes %d bytes of shared memory, more than %d", k.Stage, k.Shared, dev.SharedPerBlock)
	case k.Cluster > 0 && arch(dev) < 90:
		return fmt.Errorf("clusters need sm_90 or later")
	case k.Cluster > 0 && k.Grid[0]%k.Cluster != 0:
		return &Fault{l.grid[0].place, fmt.Sprintf("is %d, no multiple of the cluster of %d", k.Grid[0], k.Cluster)}
	}
	return nil
}
