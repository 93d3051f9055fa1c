package main

import (
	"cmp"
	"fmt"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/reference"
	"normbench/kernels/replay"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/verify"
	"normbench/tune/ref"
)

// A verifyConfig is what the flags of verify ask for.
type verifyConfig struct {
	stand
	repeats                int
	all, hostOnly, hostile bool
}

func verifyCommand() *command {
	cfg := &verifyConfig{repeats: 3}
	cfg.first = func(*env) *report.Table { return lab.VerifyTable(0, nil) }
	c := &command{
		common: &cfg.common,
		path:   "verify",
		usage: "check variants against the float64 reference and for reproducible bits; " +
			"no timing",
		args: "[REF...]",
		about: ref.RunHelp + `. Without a REF, verify checks every family in its base config.
--all-configs takes every config, of the families named or of all. The inputs come from a fresh
seed, which is printed. On a cpu, verify runs the kernels' host stages on the shapes asked for, and
their CUDA code in an emulator on three small shapes each, which takes a C++ compiler (g++ or
$CXX).`,
		examples: `verify --shapes odd --op layernorm --pass fwd
verify preset:quack-101 --shapes 64x1024 --op rmsnorm
verify peer:best --device cuda --shapes fast-llm`,
		exits:  []int{exitGate, exitUnclear, exitSignal},
		offers: refNames,
		run:    func(e *env) error { return runVerify(e, cfg) },
	}
	c.addStand(&cfg.stand)
	c.add(catHow, "repeats", &cfg.repeats, "runs of each variant; their bits are compared").
		within(1, 1000, "use 1 to 1000")
	c.add(catWhat, "all-configs", &cfg.all, "check every config of each family's space")
	c.add(catHow, "host-only", &cfg.hostOnly, "on a cpu, run the kernels' host stages alone, and "+
		"none of their CUDA code in the emulator")
	c.add(catHow, "hostile", &cfg.hostile,
		"use inputs with zeros, huge and tiny numbers, infinities and NaN")
	c.addPeers(&cfg.Config)
	return c
}

func runVerify(e *env, cfg *verifyConfig) error {
	for _, text := range cfg.operands {
		if _, err := e.Registry.Lookup(text); err != nil && cfg.all {
			return hint.Errorf("name families, or leave it out",
				"--all-configs takes families, and %q is none", text)
		}
	}
	refs, err := e.ParseAll(cfg.operands...)
	if err != nil {
		return err
	}
	step := e.Wait("starting the device")
	defer step.End()
	if err := cfg.open(e, false, refs...); err != nil {
		return err
	}
	defer lab.Close(cfg.devices)
	step.Set("laying out and compiling")
	dev, info := cfg.devices[0], cfg.info
	if _, replayed := dev.(*replay.Device); replayed {
		return hint.Errorf("use --device cpu or --device cuda",
			"verify runs kernels, and %s has recorded times only", cmp.Or(cfg.Device, "auto"))
	}
	code := verify.CUDA
	if info.Kind == kernels.KindCPU {
		code = verify.Host
	} else if cfg.hostOnly {
		return hint.Errorf("leave it out",
			"--host-only has no effect on %s, which runs CUDA code", info.Name)
	}
	v := lab.NewVerification()
	run, guests, err := e.HostCheck(cfg.problems, cfg.all, info, slices.Clone(refs), v)
	if err != nil {
		return err
	}
	tasks, err := checkedTasks(e, cfg, run, guests)
	if err != nil {
		return err
	}
	if cfg.hostile {
		cfg.seed |= reference.Hostile
	}
	e.Notef("%s, inputs from --seed %d", info.Name, cfg.seed)
	err = e.Check(v, dev, code, run, tasks, cfg.seed, cfg.repeats)
	if err == nil && code == verify.Host && !cfg.hostOnly {
		if refs, err = e.EmulatedRefs(refs, guests, tasks); err == nil {
			err = e.Emulate(v, refs, cfg.problems, cfg.seed)
		}
	}
	stopped := err != nil && e.Ctx.Err() != nil
	if len(v.Findings) > 0 { // a run that ended early still has its rows
		table := lab.VerifyTable(cfg.repeats, v.Findings)
		err = cmp.Or(err, report.RenderTable(e.out, table, cfg.format))
	}
	if stopped {
		return errInterrupted("%d of %d checks done, %d of them failed", v.Checks(), v.Total, v.Failed)
	} else if err != nil {
		return err
	}
	return concludeChecks(e, cfg, v, guests)
}

// checkedTasks are the variants to check on the device: of the REFs that run there, else of every
// family.
func checkedTasks(e *env, cfg *verifyConfig, refs []*ref.Ref, guests []*kernels.Family) (
	tasks []sweep.Task, err error) {
	named := len(cfg.operands) > 0
	switch {
	case cfg.all && (!named || len(refs) > 0):
		var only []string
		for _, r := range refs {
			only = append(only, r.Text)
		}
		tasks, err = sweep.Grid(e.Ctx, e.Registry, cfg.problems, cfg.info, only, nil)
	case named:
		err = e.PreparePeers(&cfg.Config, cfg.devices[0], refs, cfg.problems)
		if err == nil && len(refs) > 0 {
			tasks, err = e.Tasks(cfg.problems, refs, cfg.info, nil)
		}
	default:
		tasks, err = e.BaseTasks(cfg.problems, cfg.info)
	}
	if err == nil && !named {
		err = e.CheckLaidOut(tasks, guests, cfg.info)
	}
	return tasks, err
}

// concludeChecks says how many checks passed, or what a verify found to be wrong or left out.
func concludeChecks(e *env, cfg *verifyConfig, v *lab.Verification, guests []*kernels.Family) error {
	done := v.Checks()
	switch {
	case v.Failed > 0:
		help := fmt.Sprintf("`normbench verify FAMILY@LABEL --seed %d`, with the same problem, "+
			"repeats one of them", cfg.seed)
		return &exitError{exitGate, hint.Errorf(help, "%d of %d checks failed", v.Failed, done)}
	case cfg.hostOnly && done == 0 && len(guests) > 0:
		v.Leave(guests[0].Name, "it has no host stage, and --host-only runs no CUDA code")
	case done == 0 && len(v.Unrun) == 0:
		return hint.Errorf("name a REF to see why its config is refused",
			"nothing was checked: no family has a valid base config for these problems")
	}
	if done > 0 {
		e.Notef("%s passed", v.Counts())
	}
	if cfg.hostOnly && done > 0 {
		e.Notef("no CUDA code was run, as --host-only asks")
	}
	if err := v.NotRun(); err != nil {
		return &exitError{exitUnclear, err}
	}
	return nil
}
