package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families/manifest"
	"normbench/sweep"
	"normbench/sweep/replay"
	"normbench/sweep/shapes"
	"normbench/sweep/verify"
	"normbench/tune/ref"
)

// codes are what a count says of each.
var codes = []struct{ code, words string }{
	{verify.Host, "of host code"}, {verify.CUDA, "of CUDA code"},
	{verify.Emulated, "of GPU code, emulated"}, {verify.Peer, "of peers"},
}

// A Verification is what a verify has found.
type Verification struct {
	Findings []Finding
	Total    int            // checks that were laid out
	done     map[string]int // checks by their code
	Failed   int
	Refused  int             // checks, by peers that do not take the problem
	compiled map[string]bool // families whose kernels NVRTC has compiled
	Unrun    []string        // families, or REFs, whose CUDA code was not run
	Missed   []string        // typed shapes that were not checked, each with the REF
	why      string          // of the first
	seen     *coverage
	help     string // how to have them run
}

// namesOf are those of several REFs that have a variant, with commas: a row says by which of them it
// is there. They are "" where the only one is the family.
func (l *Lab) namesOf(refs []*ref.Ref, d kernels.DeviceInfo, variants variantsFunc) func(
	kernels.Problem, kernels.Variant) string {
	return func(p kernels.Problem, x kernels.Variant) string {
		var list []string
		for _, r := range refs {
			if vs, _ := variants(r, p, d); len(refs) > 1 && slices.Contains(vs, x) {
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
func (v *Verification) add(k *verify.Verdicts, p kernels.Problem) {
	switch {
	case k.Unrun != "" && k.Code == verify.Peer && !k.Unfit:
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

// Counts are the checks by what they ran: "8 checks of host code, 6 of GPU code, emulated".
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
			_, _, text := wordOf(f)
			lines = append(lines, fmt.Sprintf("%s of %s: %s", f.Family.Name, f.Problem, text))
		}
	}
	return lines
}

// A VerifyTask says what to verify, on a device that is open.
type VerifyTask struct {
	Config   *OpenOptions
	Device   kernels.Device
	Problems []kernels.Problem
	Refs     []*ref.Ref // none stands for every family in its base config
	All      bool       // every config of the families that Refs are, or of all
	HostOnly bool       // on a cpu: no CUDA code in the emulator
	Seed     uint64
	Hostile  bool // add draws of extreme and of non-finite rows
	Repeats  int
	Typed    []shapes.Shape // those of Problems that were asked for one by one
}

// Verify runs the checks. What was found before an error stands beside it.
func (l *Lab) Verify(c *VerifyTask) (*Verification, error) {
	v := &Verification{done: map[string]int{}, compiled: map[string]bool{},
		help: "verify them on a GPU: --device cuda"}
	info := c.Device.Info()
	onHost := info.Kind == kernels.KindCPU
	if _, replayed := c.Device.(*replay.Device); replayed {
		return v, hint.Errorf("use --device cpu or --device cuda",
			"verify runs kernels, and %s has recorded times only", cmp.Or(c.Config.Device, "auto"))
	}
	if c.HostOnly && !onHost {
		return v, hint.Errorf("leave it out", "--host-only has no effect on %s, which runs CUDA code",
			info.Name)
	}
	step := l.Wait("laying out and compiling")
	defer step.End()
	refs, guests, err := l.hostCheck(c.Problems, c.All, c.Config.Timeout, info, slices.Clone(c.Refs), v)
	if err != nil {
		return v, err
	}
	seen := l.newCoverage(c, guests)
	v.seen = seen
	tasks, err := l.layOutChecks(c, refs, seen)
	if err == nil && len(c.Refs) == 0 {
		err = l.checkLaidOut(tasks, guests, info)
	}
	if err != nil {
		return v, err
	}
	l.Notef("%s, inputs from --seed %d", info.Name, c.Seed)
	code := verify.CUDA
	if onHost {
		code = verify.Host
	}
	seen.ran(l, refs, info)
	if err = l.check(v, c.Device, code, refs, tasks, c, c.Repeats); err != nil {
		return v, err
	}
	if !onHost {
		seen.noteUncovered(l, v)
		return v, err
	}
	if c.HostOnly {
		if v.Checks() == 0 && len(guests) > 0 {
			v.noteUnrun(guests[0].Name, "it has no host stage, and --host-only runs no CUDA code")
		}
		seen.noteUncovered(l, v)
		return v, nil
	}
	cuda, err := l.emulatedRefs(c.Refs, guests, tasks)
	if err == nil && len(cuda) > 0 {
		err = l.emulate(v, cuda, c)
	}
	if err == nil {
		seen.noteUncovered(l, v)
	}
	return v, err
}

// layOutChecks lays out what runs on the device: of refs those that it can run.
func (l *Lab) layOutChecks(c *VerifyTask, refs []*ref.Ref, seen *coverage) ([]sweep.Task, error) {
	info := c.Device.Info()
	switch {
	case c.All && (len(c.Refs) == 0 || len(refs) > 0):
		var only []string
		for _, r := range refs {
			only = append(only, r.Text)
		}
		return sweep.Grid(l.Ctx, l.Registry, c.Problems, info, only, nil)
	case len(c.Refs) == 0:
		return l.baseTasks(c.Problems, info)
	}
	if err := l.PreparePeers(c.Config, c.Device, refs, c.Problems); err != nil || len(refs) == 0 {
		return nil, err
	}
	return l.tasksOf(c.Problems, refs, info, nil, seen.checkedVariants(l))
}

// baseTasks is every serving family in its base config, where it has a valid
// one.
func (l *Lab) baseTasks(ps []kernels.Problem, info kernels.DeviceInfo) ([]sweep.Task, error) {
	var tasks []sweep.Task
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		t := sweep.Task{Problem: p}
		for _, f := range l.Registry.FamiliesFor(p) {
			if base := f.Base(p, info); f.Refuse(p, base, info) == nil {
				t.Variants = append(t.Variants, kernels.Variant{Family: f.Name, Config: base})
			}
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// check runs the checks of all tasks of refs on dev, which runs code, and adds their rows: one per
// output of a variant. Beside an error stands what was found before.
func (l *Lab) check(v *Verification, dev kernels.Device, code string, refs []*ref.Ref,
	tasks []sweep.Task, asked *VerifyTask, repeats int) error {
	step := l.Wait("checking")
	defer step.End()
	done, total, where := 0, 0, ""
	for _, task := range tasks {
		total += len(task.Variants)
	}
	v.Total += total
	if code == verify.Emulated {
		where = " in the emulator"
	}
	c := verify.Checker{Registry: l.Registry, Device: dev, Code: code, Seed: asked.Seed,
		Hostile: asked.Hostile, Repeats: repeats,
		Refs: l.namesOf(refs, dev.Info(), v.seen.checkedVariants(l))}
	c.Now = func(p kernels.Problem, family string) {
		step.Set("checking %s on %s%s", family, p, where)
		step.Reach(console.Amount{Done: done, Total: total, Unit: "checks"})
		done++
	}
	for _, task := range tasks {
		step.Set("opening %s%s", task.Problem, where)
		found, err := c.Check(l.Ctx, task)
		for _, k := range found {
			v.add(k, task.Problem)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A Finding is one output of verdicts, or none where nothing was computed.
type Finding struct {
	*verify.Verdicts
	Problem kernels.Problem
	Output  kernels.OutputCheck
	Further bool // another output stands above it
}

// findings has one for each output.
func findings(k *verify.Verdicts, p kernels.Problem) (list []Finding) {
	for i, name := range k.Order {
		list = append(list, Finding{k, p, k.Outputs[name], i > 0})
	}
	if len(list) == 0 {
		list = []Finding{{Verdicts: k, Problem: p}}
	}
	return list
}
