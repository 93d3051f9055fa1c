package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/reference"
	"normbench/kernels/replay"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/verify"
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
	step := e.Wait("starting the device")
	defer step.End()
	s, err := e.open(c, refs...)
	if err != nil {
		return err
	}
	defer closeAll(s.devices)
	step.Set("laying out and compiling")
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
	e.Notef("%s, inputs from --seed %d", info.Name, seed)
	code := verify.CUDA
	if onHost {
		code = verify.Host
	}
	if err = e.check(v, dev, code, tasks, seed, c.Int("repeats")); err == nil && onHost && !hostOnly {
		var cuda []*ref.Ref
		if cuda, err = e.emulatedRefs(asked, guests, tasks); err == nil {
			err = e.emulate(v, cuda, ps, seed)
		}
	}
	stopped := err != nil && e.ctx.Err() != nil
	if len(v.findings) > 0 { // a run that ended early still has its rows
		err = cmp.Or(err, report.RenderTable(e.out, verifyTable(c.Int("repeats"), v.findings), c.String("format")))
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
		e.Notef("%s passed", v.counts())
	}
	if hostOnly && done > 0 {
		e.Notef("no CUDA code was run, as --host-only asks")
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
	step := e.Wait("checking")
	defer step.End()
	done, total, where := 0, 0, ""
	for _, task := range tasks {
		total += len(task.Variants)
	}
	v.total += total
	if code == verify.Emulated {
		where = " in the emulator"
	}
	c := verify.Checker{Registry: e.registry, Device: dev, Code: code, Seed: seed, Repeats: repeats, Refs: v.refs}
	c.Now = func(p kernels.Problem, family string) {
		step.Set("checking %s on %s%s (%d of %d done)", family, p, where, done, total)
		done++
	}
	for _, task := range tasks {
		step.Set("opening %s%s (%d of %d done)", task.Problem, where, done, total)
		found, err := c.Check(e.ctx, task)
		for _, k := range found {
			v.add(k, task.Problem)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A finding is one output of verdicts, or none where nothing was computed.
type finding struct {
	*verify.Verdicts
	problem kernels.Problem
	output  kernels.OutputCheck
	further bool // another output stands above it
}

// findings has one for each output.
func findings(k *verify.Verdicts, p kernels.Problem) (list []finding) {
	for i, name := range k.Order {
		list = append(list, finding{k, p, k.Outputs[name], i > 0})
	}
	if len(list) == 0 {
		list = []finding{{Verdicts: k, problem: p}}
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
		once("REF", "ref", func(f finding) any { return f.Refs }),
		once("family", "family", func(f finding) any { return f.Family.Name }),
		once("code", "code", func(f finding) any { return f.Code }),
		once("configs", "configs", func(f finding) any { return f.Configs }),
		column{Name: "failed", Value: func(f finding) any { return f.Failed }},
		column{Head: "output", Name: "output", Value: func(f finding) any { return f.output.Name }},
		number("error/tol", "error_over_tol", "%.2f", func(o kernels.OutputCheck) float64 { return o.MaxErr }),
		number("rel L2", "rel_l2", "%.1e", func(o kernels.OutputCheck) float64 { return o.RelL2 }),
		once("differing", "differing", func(f finding) any { return f.Differing }),
		once("stated", "stated", func(f finding) any { return f.Stated() }),
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
func (k *finding) verdict() (word, reason, text string) {
	switch {
	case k.Failed > 0:
		return "FAILED", k.Reasons[0], fmt.Sprintf("%d FAILED, first %s", k.Failed, k.Reasons[0])
	case k.Unrun != "":
		return "not run", k.Unrun, k.Unrun
	}
	return "ok", "", "ok"
}
