package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families/manifest"
	"normbench/sweep"
	"normbench/sweep/shapes"
)

// codes are what a count says of each.
var codes = []struct{ code, words string }{
	{Host, "of host code"}, {CUDA, "of CUDA code"},
	{Emulated, "of GPU code, emulated"}, {Peer, "of peers"},
}

// A Verification is what a verify has found.
type Verification struct {
	Findings []Finding
	Total    int // checks that were laid out
	Draws    int // draws of inputs on which these are done, of AllDraws
	AllDraws int
	done     map[string]int // checks by their code
	Failed   int
	Refused  int             // checks, by peers that do not take the problem
	compiled map[string]bool // families whose kernels NVRTC has compiled
	Unrun    []string        // families, or REFs, whose CUDA code was not run
	Missed   []string        // typed shapes that were not checked, each with the REF
	why      string          // of the first
	help     string          // how to have them run
}

// namesOf returns those of several operands that have a variant, with commas: a row says by which of them it
// is there. They are "" where the only one is the family.
func namesOf(refs []sweep.Operand, d kernels.DeviceInfo) func(kernels.Problem, kernels.Variant) string {
	return func(p kernels.Problem, x kernels.Variant) string {
		var list []string
		for _, r := range refs {
			if vs, _ := r.Variants(p, d); len(refs) > 1 && slices.Contains(vs, x) {
				list = append(list, r.Text)
			}
		}
		if len(list) == 1 && list[0] == x.Family {
			return ""
		}
		return strings.Join(list, ",")
	}
}

// add adds the rows and counts of k.
func (v *Verification) add(k *Verdicts, p kernels.Problem) {
	switch {
	case k.Unrun != "" && k.Code == Peer && !k.Unfit:
		v.Refused++
	case k.Unrun != "":
		k.Unrun = strings.TrimPrefix(strings.TrimPrefix(k.Unrun, manifest.Prefix), nvrtc.Module)
		v.noteUnrun(k.Family.Name, k.Unrun)
		if k.Unrun = "not run: " + k.Unrun; v.compiled[k.Family.Name] {
			k.Unrun = "compiled, " + k.Unrun
		}
	}
	v.Failed += k.Failed
	v.done[k.Code] += k.Configs
	v.Findings = append(v.Findings, findings(k, p)...)
}

// noteUnrun notes a family or REF whose CUDA code was not run.
func (v *Verification) noteUnrun(name, why string) {
	if len(v.Unrun) == 0 {
		v.why = why
		if strings.Contains(why, "no header ") {
			v.help = "in the manifest, `without: [HEADER, ...]` leaves out headers that only host code needs; " + v.help
		}
	}
	if !slices.Contains(v.Unrun, name) {
		v.Unrun = append(v.Unrun, name)
	}
}

// Checks counts those that were done.
func (v *Verification) Checks() (n int) {
	for _, x := range codes {
		n += v.done[x.code]
	}
	return n
}

// Counts returns the checks by what they ran: "8 checks of host code, 6 of GPU code, emulated".
func (v *Verification) Counts() string {
	var parts []string
	for _, x := range codes {
		n := v.done[x.code]
		switch {
		case n == 0:
		case len(parts) == 0:
			parts = append(parts, console.Count(n, "check")+" "+x.words)
		default:
			parts = append(parts, fmt.Sprint(n, " ", x.words))
		}
	}
	return strings.Join(parts, ", ")
}

// NotRun returns an error if CUDA code of families, or typed shapes, were left unrun.
func (v *Verification) NotRun() error {
	if len(v.Unrun) == 0 && len(v.Missed) > 0 {
		return hint.Errorf("name shapes that they take, or use --device cuda for large ones",
			"not checked, though asked for: %s", strings.Join(v.Missed, ", "))
	}
	if len(v.Unrun) == 0 {
		return nil
	}
	return hint.Errorf(v.help, "not verified, as their CUDA code was not run: %s; %s",
		strings.Join(v.Unrun, ", "), v.why)
}

// Failures has a line for each family that failed on a problem.
func (v *Verification) Failures() (lines []string) {
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Failed > 0 && !f.Further {
			_, _, text := f.Word()
			lines = append(lines, fmt.Sprintf("%s of %s: %s", f.Family.Name, f.Problem, text))
		}
	}
	return lines
}

// FirstFailed returns a failed check to repeat, nil if there is none: the first.
func (v *Verification) FirstFailed() *Finding {
	for i := range v.Findings {
		if v.Findings[i].Failed > 0 {
			return &v.Findings[i]
		}
	}
	return nil
}

// A CheckRequest says what to verify, on a device that is open.
type CheckRequest struct {
	Registry *kernels.Registry
	Users    []*kernels.Family // of the user's folder
	Folder   string            // itself
	Device   kernels.Device
	Problems []kernels.Problem
	Operands []sweep.Operand // none stands for each of Users in its base config, without Users for every family
	All      bool            // every config of these families
	HostOnly bool            // on a cpu: no CUDA code in the emulator
	Seed     uint64
	Hostile  bool // add draws of extreme and of non-finite rows
	Vary     bool // nobody asked for types or options: in the emulator families are checked in several
	Repeats  int
	// BatchInvariant also compares the bits of the same rows in problems of fewer rows.
	BatchInvariant bool
	Typed          []shapes.Shape // those of Problems that were asked for one by one
	Limit          time.Duration  // of a launch in the emulator; 0 for its own
	Helper         []string       // the command of a compile helper
	Python         string         // that has Triton, as triton.Python reads it
	// Prepare has peers compile before they are checked.
	Prepare func() error
}

// A run is a CheckRequest in the making.
type run struct {
	*CheckRequest
	*console.Console
	ctx      context.Context
	operands []sweep.Operand
	found    *Verification
	seen     *coverage
}

// Run runs the checks, and tells the console how far they are. What was found before an error stands
// beside it.
func Run(ctx context.Context, out *console.Console, t *CheckRequest) (*Verification, error) {
	v := &Verification{done: map[string]int{}, compiled: map[string]bool{},
		help: "verify them on a GPU: --device cuda"}
	c := &run{CheckRequest: t, Console: out, ctx: ctx, found: v}
	operands, err := t.namedOperands()
	if err != nil {
		return v, err
	}
	for _, o := range operands {
		c.operands = append(c.operands, c.withFallback(o))
	}
	info := c.Device.Info()
	onHost := info.Kind == kernels.KindCPU
	if c.HostOnly && !onHost {
		return v, hint.Errorf("leave it out", "--host-only has no effect on %s, which runs CUDA code",
			info.Name)
	}
	step := c.Wait("laying out and compiling")
	defer step.End()
	if c.Vary {
		c.addServed()
	}
	operands, guests, err := c.hostCheck()
	if err != nil {
		return v, err
	}
	c.seen = c.newCoverage()
	tasks, err := c.layOut(operands)
	if err != nil {
		return v, err
	}
	c.Notef("%s, inputs from --seed %d", info.Name, c.Seed)
	code := CUDA
	if onHost {
		code = Host
	}
	c.noteRan(operands, info)
	if err = c.check(c.Device, code, operands, tasks, c.Repeats); err != nil {
		return v, err
	}
	switch {
	case onHost && !c.HostOnly:
		if cuda := c.emulatedOperands(tasks); len(cuda) > 0 {
			err = c.emulate(cuda)
		}
	case onHost && v.Checks() == 0 && len(guests) > 0:
		v.noteUnrun(guests[0].Name, "it has no host stage, and --host-only runs no CUDA code")
	}
	if err == nil {
		c.noteUncovered()
	}
	return v, err
}

// namedOperands returns the operands, and without any those of the user's families for the problems.
func (t *CheckRequest) namedOperands() (list []sweep.Operand, err error) {
	if len(t.Operands) > 0 {
		return t.Operands, nil
	}
	for _, f := range t.Users {
		if slices.ContainsFunc(t.Problems, func(p kernels.Problem) bool { return f.Op == p.Op && f.Pass == p.Pass }) {
			list = append(list, sweep.FamilyOperand(t.Registry, f.Name))
		}
	}
	if len(t.Users) > 0 && len(list) == 0 {
		return nil, sweep.NewNoProblemError("--kernels " + t.Folder)
	}
	return list, nil
}

// layOut lays out what runs on the device: those of the operands that it can run.
func (c *run) layOut(operands []sweep.Operand) ([]sweep.Task, error) {
	info := c.Device.Info()
	switch {
	case c.All && (len(c.operands) == 0 || len(operands) > 0):
		var only []string
		for _, r := range operands {
			only = append(only, r.Text)
		}
		tasks, err := sweep.Grid(c.ctx, c.Registry, c.Problems, info, only, nil)
		for i := range tasks {
			t := &tasks[i] // whose base is there whatever was asked for
			t.Variants = slices.DeleteFunc(t.Variants, func(v kernels.Variant) bool {
				return len(only) > 0 && !slices.Contains(only, v.Family)
			})
		}
		return slices.DeleteFunc(tasks, func(t sweep.Task) bool { return len(t.Variants) == 0 }), err
	case len(c.operands) == 0:
		return c.baseTasks(c.Problems, info)
	}
	if err := c.Prepare(); err != nil || len(operands) == 0 {
		return nil, err
	}
	return sweep.LayOut(c.Registry, c.Problems, operands, info, nil)
}

// baseTasks is every serving family in its base config, where it has a valid
// one.
func (c *run) baseTasks(ps []kernels.Problem, info kernels.DeviceInfo) ([]sweep.Task, error) {
	var tasks []sweep.Task
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		t := sweep.Task{Problem: p}
		for _, f := range c.Registry.FamiliesFor(p) {
			if base := f.Base(p, info); f.Refuse(p, base, info) == nil {
				t.Variants = append(t.Variants, kernels.Variant{Family: f.Name, Config: base})
			}
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// check runs the checks of all tasks of operands on dev, which runs code, and adds their rows: one per
// output of a variant. Beside an error stands what was found before.
func (c *run) check(dev kernels.Device, code string, operands []sweep.Operand, tasks []sweep.Task,
	repeats int) error {
	step := c.Wait("checking")
	defer step.End()
	where := ""
	for _, task := range tasks {
		c.found.Total += len(task.Variants)
		c.found.AllDraws += len(task.Variants) * len(kernels.CheckDraws(task.Problem, c.Hostile))
	}
	if code == Emulated {
		where = " in the emulator"
	}
	checker := Checker{Registry: c.Registry, Device: dev, Code: code, Seed: c.Seed, Hostile: c.Hostile,
		Repeats: repeats, Refs: namesOf(operands, dev.Info()), BatchInvariant: c.BatchInvariant,
		Picking: slices.DeleteFunc(slices.Clone(operands), func(o sweep.Operand) bool { return !c.isPicking(o) })}
	checker.Now = func(p kernels.Problem, family string) {
		step.Set("checking %s on %s%s", family, p, where)
		step.Reach(console.Amount{Done: c.found.Draws, Total: c.found.AllDraws, Unit: "draws of inputs"})
	}
	checker.Done = func(draws int) { c.found.Draws += draws }
	for _, task := range tasks {
		step.Set("opening %s%s", task.Problem, where)
		found, err := checker.Check(c.ctx, task)
		for _, k := range found {
			c.found.add(k, task.Problem)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isPicking says whether an operand stands for what somebody runs: it was named, or is a user's family. A family of
// ours that nobody named is checked for itself, as its base config for fewer rows is not what runs there.
func (c *run) isPicking(o sweep.Operand) bool {
	if slices.ContainsFunc(c.operands, func(named sweep.Operand) bool { return named.Text == o.Text }) {
		return true
	}
	return slices.ContainsFunc(c.Users, func(f *kernels.Family) bool { return f.Name == o.Text })
}

// A Finding is one output of verdicts, or none where nothing was computed.
type Finding struct {
	*Verdicts
	Problem kernels.Problem
	Output  kernels.OutputCheck
	Further bool // another output stands above it
}

// findings has one for each output.
func findings(k *Verdicts, p kernels.Problem) (list []Finding) {
	for i, name := range k.Order {
		list = append(list, Finding{k, p, k.Outputs[name], i > 0})
	}
	if len(list) == 0 {
		list = []Finding{{Verdicts: k, Problem: p}}
	}
	return list
}

// fewRoundings is how many times the tolerance an answer may be off that was rounded some times on its way.
const fewRoundings = 4

// IsNearlyRight says whether all that is wrong may be roundings on the way to an output of two bytes.
func (k *Finding) IsNearlyRight() bool {
	for _, o := range k.Outputs {
		if o.MaxErr > fewRoundings {
			return false
		}
	}
	return len(k.Outputs) > 0 && k.Problem.DType.Size() == 2
}

// Word returns a word, and what is wrong with the first of the configs: apart, and for people.
func (k *Finding) Word() (word, reason, text string) {
	switch {
	case k.Failed > 0:
		return "FAILED", k.Reasons[0], fmt.Sprintf("%d FAILED, first %s", k.Failed, k.Reasons[0])
	case k.Unrun != "" && k.Code == Peer:
		return "refused", k.Unrun, k.Unrun
	case k.Unrun != "":
		return "not run", k.Unrun, k.Unrun
	case k.Partly != "":
		return "stopped", k.Partly, "stopped: " + k.Partly
	}
	return "ok", "", "ok"
}
