package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/reference"
	"normbench/kernels/replay"
	"normbench/report"
	"normbench/sweep"
	"normbench/tune/ref"
)

func (e *env) verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check variants against the float64 reference and for reproducible bits; no timing",
		ArgsUsage: "[REF...]",
		Description: ref.RunHelp + ".\nWithout a REF, verify checks every family in its base config. --all-configs takes every config, of the families named or of all.\n" +
			"The inputs come from a fresh seed, which is printed. On a cpu, verify runs the kernels' host stages on the shapes\n" +
			"asked for, and their CUDA code in an emulator on three small shapes each, which takes a C++ compiler (g++ or $CXX).",
		Flags: join(problemFlags, deviceFlags, []cli.Flag{
			seedFlag, formatFlag, kernelsFlag, includeFlag,
			&cli.IntFlag{Name: "repeats", Usage: "runs of each variant; their bits are compared", Value: 3},
			&cli.BoolFlag{Name: "all-configs", Category: catWhat, Usage: "check every config of each family's space"},
			&cli.BoolFlag{Name: "host-only", Usage: "on a cpu, run the kernels' host stages alone, and none of their CUDA code in the emulator"},
			&cli.BoolFlag{Name: "hostile", Usage: "use inputs with zeros, huge and tiny numbers, infinities and NaN"},
		}, peerFlags),
		Action: e.verify,
	}
}

func (e *env) verify(c *cli.Context) error {
	if n := c.Int("repeats"); n < 1 || n > 1000 {
		return hint.Errorf("use 1 to 1000", "--repeats %d is out of range", n)
	}
	all, named := c.Bool("all-configs"), len(operands(c)) > 0
	for _, text := range operands(c) {
		if _, err := e.registry.Lookup(text); err != nil && all {
			return hint.Errorf("name families, or leave it out", "--all-configs takes families, and %q is none", text)
		}
	}
	refs, err := e.parseRefs(operands(c)...)
	if err != nil {
		return err
	}
	step := e.waitFor("starting the device")
	defer step.end()
	s, err := e.open(c, refs...)
	if err != nil {
		return err
	}
	defer closeAll(s.devices)
	step.set("laying out and compiling")
	dev, info, ps := s.devices[0], s.info, s.problems
	if _, replayed := dev.(*replay.Device); replayed {
		return hint.Errorf("use --device cpu or --device cuda", "verify runs kernels, and %s has recorded times only", s.device)
	}
	onHost, hostOnly := info.Kind == kernels.KindCPU, c.Bool("host-only")
	if hostOnly && !onHost {
		return hint.Errorf("leave it out", "--host-only has no effect on %s, which runs CUDA code", info.Name)
	}
	v := newVerification()
	asked := slices.Clone(refs)
	refs, guests, err := e.hostCheck(ps, all, info, refs, v)
	if err != nil {
		return err
	}
	var tasks []sweep.Task
	switch {
	case all && (!named || len(refs) > 0):
		var only []string
		for _, r := range refs {
			only = append(only, r.Text)
		}
		if tasks, err = sweep.Grid(e.ctx, e.registry, ps, info, only, nil); err != nil {
			return err
		}
	case named:
		if err := e.preparePeers(s.machine, dev, refs, ps); err != nil {
			return err
		}
		if len(refs) > 0 {
			if tasks, err = e.tasks(ps, refs, info, v.naming(e.variants, refs), nil); err != nil {
				return err
			}
		}
	default:
		if tasks, err = e.baseTasks(ps, info); err != nil {
			return err
		}
	}
	if !named {
		if err := e.checkLaidOut(tasks, guests, info); err != nil {
			return err
		}
	}
	seed := seed(c)
	if c.Bool("hostile") {
		seed |= reference.Hostile
	}
	e.notef("%s, inputs from --seed %d", info.Name, seed)
	code := cudaCode
	if onHost {
		code = hostCode
	}
	if err = e.check(v, dev, code, tasks, seed, c.Int("repeats")); err == nil && onHost && !hostOnly {
		var cuda []*ref.Ref
		if cuda, err = e.emulatedRefs(asked, guests, tasks); err == nil {
			err = e.emulate(v, cuda, ps, seed)
		}
	}
	stopped := err != nil && e.ctx.Err() != nil
	if len(v.findings) > 0 { // a run that ended early still has its rows
		err = cmp.Or(err, report.RenderTable(e.stdout, verifyTable(c.Int("repeats"), v.findings), c.String("format")))
	}
	done := v.checks()
	switch {
	case stopped:
		return interrupted("%d of %d checks done, %d of them failed", done, v.total, v.failed)
	case err != nil:
		return err
	case v.failed > 0:
		return &coded{exitGate, hint.Errorf(fmt.Sprintf("`normbench verify FAMILY@LABEL --seed %d`, with the same problem, repeats one of them", seed), "%d of %d checks failed", v.failed, done)}
	case hostOnly && done == 0 && len(guests) > 0:
		v.leave(guests[0].Name, "it has no host stage, and --host-only runs no CUDA code")
	case done == 0 && len(v.unrun) == 0:
		return hint.Errorf("name a REF to see why its config is refused", "nothing was checked: no family has a valid base config for these problems")
	}
	if done > 0 {
		e.notef("%s passed", v.counts())
	}
	if hostOnly && done > 0 {
		e.notef("no CUDA code was run, as --host-only asks")
	}
	return v.notRun()
}

// baseTasks is every serving family in its base config, where it has a valid
// one.
func (e *env) baseTasks(ps []kernels.Problem, info kernels.DeviceInfo) ([]sweep.Task, error) {
	var tasks []sweep.Task
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		t := sweep.Task{Problem: p}
		for _, f := range e.registry.Serving(p) {
			if base := f.Base(p, info); f.Refuse(p, base, info) == nil {
				t.Variants = append(t.Variants, kernels.Variant{Family: f.Name, Config: base})
			}
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// check runs the checks of all tasks on dev, which runs code, and adds their rows: one per
// output of a variant. Beside an error stands what was found before.
func (e *env) check(v *verification, dev kernels.Device, code string, tasks []sweep.Task,
	seed uint64, repeats int) error {
	step := e.waitFor("checking")
	defer step.end()
	done, total, where := 0, 0, ""
	for _, task := range tasks {
		total += len(task.Variants)
	}
	v.total += total
	if code == emulatedCode {
		where = " in the emulator"
	}
	tell := func(p kernels.Problem, family string) {
		step.set("checking %s on %s%s (%d of %d done)", family, p, where, done, total)
		done++
	}
	for _, task := range tasks {
		step.set("opening %s%s (%d of %d done)", task.Problem, where, done, total)
		found, err := e.checkTask(v, dev, code, task, seed, repeats, tell)
		for _, k := range found {
			v.add(k, task.Problem)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTask is check for one task: the verdicts of each family and REF.
func (e *env) checkTask(ver *verification, dev kernels.Device, code string, task sweep.Task,
	seed uint64, repeats int, tell func(p kernels.Problem, family string)) (found []*verdicts, err error) {
	// A device that goes down while it opens a problem gets one more try.
	open := func() (bench kernels.Bench, err error) {
		for range 2 {
			var f *kernels.Failure
			if bench, err = dev.Open(e.ctx, task.Problem, seed); err == nil || !errors.As(err, &f) || !f.Broken {
				break
			}
		}
		return bench, err
	}
	bench, err := open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if bench != nil {
			bench.Close()
		}
	}()
	if code != emulatedCode { // all of its tasks are ahead already
		dev.Prefetch(task.Problem, task.Variants)
	}
	digests := map[string]map[uint64]bool{}
	of := map[[2]string]*verdicts{}
	for _, v := range task.Variants {
		tell(task.Problem, v.Family)
		got, err := bench.Check(e.ctx, v, repeats)
		var f *kernels.Failure
		if err != nil && (e.ctx.Err() != nil || !errors.As(err, &f)) {
			return found, err // the stop may have caused the failure
		}
		if f != nil && f.Broken { // a device that does not come back says nothing about the kernel
			bench.Close()
			if bench, err = open(); err != nil {
				bench = nil
				return found, err
			}
		}
		refs := ver.refs(task.Problem, v)
		k := of[[2]string{v.Family, refs}]
		if k == nil {
			family, err := e.registry.Lookup(v.Family)
			if err != nil {
				return found, err
			}
			if digests[v.Family] == nil {
				digests[v.Family] = map[uint64]bool{}
			}
			k = &verdicts{family: family, refs: refs, code: code,
				outputs: map[string]kernels.OutputCheck{}, digests: digests[v.Family]}
			if _, ok := kernels.PeerName(v.Family); ok {
				k.code = peerCode
			}
			of[[2]string{v.Family, refs}] = k
			found = append(found, k)
		}
		switch {
		case f == nil:
			k.add(v, &got)
		case code == emulatedCode && f.Status == kernels.StatusCompile:
			if k.unrun = "not run: " + f.Reason; ver.compiled[v.Family] {
				k.unrun = "compiled, " + k.unrun
			}
			ver.leave(v.Family, f.Reason)
		default:
			k.fail(v, f.Error())
		}
	}
	return found, nil
}

// verdicts collects what was found of one family on one problem, for the REFs that name it.
type verdicts struct {
	family          *kernels.Family
	refs, code      string
	unrun           string // "not run: " and what the emulator lacks
	configs, failed int
	order           []string
	outputs         map[string]kernels.OutputCheck // the worst of each
	differing       int64
	digests         map[uint64]bool // the results of the family's configs
	reasons         []string
}

func (k *verdicts) fail(v kernels.Variant, reason string) {
	k.configs++
	k.failed++
	k.reasons = append(k.reasons, v.Config.String()+": "+reason)
}

func (k *verdicts) add(v kernels.Variant, c *kernels.Check) {
	for _, o := range c.Outputs {
		w, ok := k.outputs[o.Name]
		if !ok {
			k.order = append(k.order, o.Name)
		}
		w.Name, w.MaxErr, w.RelL2 = o.Name, max(w.MaxErr, o.MaxErr), max(w.RelL2, o.RelL2)
		k.outputs[o.Name] = w
	}
	k.differing += c.Differing
	switch {
	case !c.OK():
		k.fail(v, c.Reason())
	case c.Breaks():
		k.fail(v, fmt.Sprintf("%d elements change from run to run, but the family is %s", c.Differing, k.family.Bits))
	case k.breaksBitwise(c.Digest):
		k.fail(v, "the bits are not those of another config, but the family is bitwise")
	default:
		k.configs++
	}
}

// breaksBitwise says whether a family that is bitwise has come to two results.
func (k *verdicts) breaksBitwise(digest uint64) bool {
	k.digests[digest] = true
	return k.family.Bits == kernels.Bitwise && len(k.digests) > 1
}

// stated is the family's determinism.
func (k *verdicts) stated() string {
	if k.family.Unordered != nil {
		return k.family.Bits.String() + ", some configs not"
	}
	return k.family.Bits.String()
}

// A finding is one output of verdicts, or none where nothing was computed.
type finding struct {
	*verdicts
	problem kernels.Problem
	output  kernels.OutputCheck
	further bool // another output stands above it
}

// findings has one for each output.
func (k *verdicts) findings(p kernels.Problem) (list []finding) {
	for i, name := range k.order {
		list = append(list, finding{k, p, k.outputs[name], i > 0})
	}
	if len(list) == 0 {
		list = []finding{{verdicts: k, problem: p}}
	}
	return list
}

// verifyTable has a row for each finding; for people a family's further outputs have nothing else.
func verifyTable(repeats int, findings []finding) *report.Table {
	type column = report.Column[finding]
	once := func(head, name string, value func(finding) any) column {
		c := column{Head: head, Name: name, Value: value}
		c.Text = func(f finding) string {
			if f.further {
				return ""
			}
			return fmt.Sprint(value(f))
		}
		return c
	}
	number := func(head, name, format string, value func(kernels.OutputCheck) float64) column {
		return column{Head: head, Name: name, Format: format, Value: func(f finding) any {
			if f.output.Name == "" {
				return nil
			}
			return value(f.output)
		}}
	}
	columns := report.ProblemColumns(func(f finding) (kernels.Problem, int64) { return f.problem, f.problem.Bytes() })
	columns[0] = once("problem", "problem", func(f finding) any { return f.problem.String() })
	t := report.NewTable(fmt.Sprintf("worst error over tolerance (at most 1 passes), bits compared over %d runs", repeats), findings, append(columns,
		once("REF", "ref", func(f finding) any { return f.refs }),
		once("family", "family", func(f finding) any { return f.family.Name }),
		once("code", "code", func(f finding) any { return f.code }),
		once("configs", "configs", func(f finding) any { return f.configs }),
		column{Name: "failed", Value: func(f finding) any { return f.failed }},
		column{Head: "output", Name: "output", Value: func(f finding) any { return f.output.Name }},
		number("error/tol", "error_over_tol", "%.2f", func(o kernels.OutputCheck) float64 { return o.MaxErr }),
		number("rel L2", "rel_l2", "%.1e", func(o kernels.OutputCheck) float64 { return o.RelL2 }),
		once("differing", "differing", func(f finding) any { return f.differing }),
		once("stated", "stated", func(f finding) any { return f.stated() }),
		column{Head: "verdict", Name: "verdict", Value: func(f finding) any { v, _, _ := f.verdict(); return v }, Text: func(f finding) string {
			if f.further {
				return ""
			}
			_, _, text := f.verdict()
			return text
		}},
		column{Name: "reason", Value: func(f finding) any { _, reason, _ := f.verdict(); return reason }}))
	t.Group, t.Drop = report.ByProblem, []string{"stated", "rel L2", "configs"}
	return t
}

// verdict is a word, and what is wrong with the first of the configs: apart, and for people.
func (k *verdicts) verdict() (word, reason, text string) {
	switch {
	case k.failed > 0:
		return "FAILED", k.reasons[0], fmt.Sprintf("%d FAILED, first %s", k.failed, k.reasons[0])
	case k.unrun != "":
		return "not run", k.unrun, k.unrun
	}
	return "ok", "", "ok"
}
