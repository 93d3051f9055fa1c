package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune/ref"
)

// A benchConfig is what the flags of bench ask for.
type benchConfig struct {
	stand
	all bool
	out string
}

func benchCommand(e *env) *cli.Command {
	cfg := &benchConfig{}
	cfg.first = func() *report.Table {
		if cfg.plans() {
			return nil
		}
		return report.BenchTable(nil, &record.Run{})
	}
	return e.command(&cli.Command{
		Name:        "bench",
		Usage:       "measure given variants, with the time of each stage",
		ArgsUsage:   "REF...",
		Description: ref.RunHelp + ".\nKnobs that a label leaves out take the family's base value.",
		Flags: slices.Concat(cfg.flags(), cfg.timing.flags(), cfg.peerFlags(), []cli.Flag{
			&cli.BoolFlag{Destination: &cfg.all, Name: "all-candidates", Category: catWhat,
				Usage: "measure every variant of a REF that times several (an autotuned preset, " +
					"peer:best), not only the fastest"},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "`FOLDER` to record into (default: none)"},
		}),
	}, &cfg.common, func() error { return bench(e, cfg) })
}

func bench(e *env, cfg *benchConfig) error {
	texts := cfg.operands
	if len(texts) == 0 {
		texts = []string{"base"}
	}
	refs, err := e.ParseAll(texts...)
	if err != nil {
		return err
	}
	if err := cfg.open(e, false, refs...); err != nil {
		return err
	}
	defer lab.Close(cfg.devices)
	pr := cfg.protocol(cfg.info)
	if cfg.plans() {
		return benchPlan(e, cfg, refs, pr)
	}
	b, err := e.Bench(&lab.Bench{Config: &cfg.Config, Devices: cfg.devices, Problems: cfg.problems,
		Refs:     refs,
		Protocol: pr, Seed: cfg.seed, All: cfg.all, Out: cfg.out})
	if b == nil {
		return err
	}
	if err := cmp.Or(err, e.Late(report.RenderTable(e.out, b.Table, cfg.format))); err != nil {
		return err
	}
	if b.Failed > 0 {
		return &exitError{exitGate, hint.Errorf("the table's last column has the reason of each; "+
			"`normbench verify` names the outputs that are wrong", "%d of %d variants failed",
			b.Failed, b.Measured)}
	}
	return nil
}

// plans says whether a bench was told nothing, and so only says what it would measure.
func (cfg *benchConfig) plans() bool {
	var s shapes.Selection
	return len(cfg.operands) == 0 &&
		!slices.ContainsFunc(names(append(shapeFlags(&s, ""), optionFlags(&s)...)),
			func(name string) bool { return cfg.given[name] })
}

// benchPlan says what a bench that was told nothing would measure, and how to choose.
func benchPlan(e *env, cfg *benchConfig, refs []*ref.Ref, pr record.Protocol) error {
	info := cfg.info
	tasks, err := e.Tasks(cfg.problems, refs, info, e.Variants, nil)
	if err != nil {
		return err
	}
	t := report.New(fmt.Sprintf("bench base would time the base of %s on %s: group %s, %d %s samples each",
		console.Count(len(tasks), "problem"), info.Name, group(info), pr.Samples, pr.Name),
		"op", "pass", ">problems", ">smallest", ">largest")
	var groups [][]kernels.Problem // of one op and pass
	for _, task := range tasks {
		p, last := task.Problem, len(groups)-1
		if last < 0 || groups[last][0].Op != p.Op || groups[last][0].Pass != p.Pass {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], p)
	}
	bySize := func(p, q kernels.Problem) int { return cmp.Compare(p.M*p.N, q.M*q.N) }
	for _, ps := range groups {
		t.Rows = append(t.Rows, []string{string(ps[0].Op), string(ps[0].Pass), strconv.Itoa(len(ps)),
			report.ShapeOf(slices.MinFunc(ps, bySize)), report.ShapeOf(slices.MaxFunc(ps, bySize))})
	}
	t.Notes = []string{"`normbench bench base` runs it. Choose with REFs and --shapes, --op, --pass " +
		"and --dtype:",
		"  normbench bench base --shapes 4096x8192 --op rmsnorm --pass bwd"}
	return report.RenderTable(e.out, t, cfg.format)
}
