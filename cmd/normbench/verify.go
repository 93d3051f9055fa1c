package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/replay"
	"normbench/sweep/shapes"
	"normbench/sweep/verify"
	"normbench/tune/ref"
)

// A verifyConfig is what the flags of verify ask for.
type verifyConfig struct {
	targetFlags
	repeats                int
	all, hostOnly, hostile bool
	verbose                bool
	batchInvariant         bool
}

// defaultRepeats is how often a variant runs on the first draw of inputs.
const defaultRepeats = 3

func verifyCommand(e *env) *cli.Command {
	cfg := &verifyConfig{}
	cfg.first = func() *report.Table { return report.VerifyTable(0, nil) }
	return e.command(&cli.Command{
		Name:      "verify",
		Usage:     "check variants against the float64 reference and for reproducible bits; no timing",
		ArgsUsage: "[REF...]",
		Description: ref.RunHelp + ".\nWithout a REF, verify checks every family in its base config; with --kernels " +
			"those of the folder. --all-configs takes every config of these families.\n" +
			"The inputs come from a fresh seed, which is printed. On a cpu, verify runs the kernels' " +
			"host stages on the shapes asked for. It runs their CUDA code in an emulator on small shapes, " +
			"in several configs, which takes a C++ compiler (g++ or $CXX).",
		Flags: slices.Concat(cfg.flags(), []cli.Flag{
			&cli.IntFlag{Destination: &cfg.repeats, Name: "repeats",
				Usage: "runs of each variant; their bits are compared", Value: defaultRepeats,
				Action: checkRange("repeats", 1, 1000, "use 1 to 1000")},
			&cli.BoolFlag{Destination: &cfg.all, Name: "all-configs", Category: catWhat,
				Usage: "check every config of each family's space"},
			&cli.BoolFlag{Destination: &cfg.hostOnly, Name: "host-only",
				Usage: "on a cpu, run the kernels' host stages alone, and none of their CUDA code in " +
					"the emulator"},
			&cli.BoolFlag{Destination: &cfg.hostile, Name: "hostile",
				Usage: "add inputs with huge and vanishing numbers, infinities and NaN"},
			&cli.BoolFlag{Destination: &cfg.batchInvariant, Name: "batch-invariant",
				Usage: "also compare the bits of the same rows in problems of 1, 7, 128 and all rows"},
			&cli.BoolFlag{Destination: &cfg.verbose, Name: "verbose", Aliases: []string{"v"},
				Usage: "on a cpu, show all that a compiler says of a kernel that it refuses"},
		}, cfg.peerFlags()),
	}, &cfg.commonFlags, func() error { return runVerify(e, cfg) })
}

// verify checks REFs, or without one every family, on the open device of t. What was found before an error stands
// beside it.
func (e *env) verify(t *targetFlags, refs []*ref.Ref, c *verify.CheckRequest) (*verify.Verification, error) {
	if _, replayed := t.devices[0].(*replay.Device); replayed {
		return &verify.Verification{}, hint.Errorf("use --device cpu or --device cuda",
			"verify runs kernels, and %s has recorded times only", cmp.Or(t.Device, "auto"))
	}
	c.Registry, c.Users, c.Folder, c.Operands = e.Registry, e.UserFamilies, e.Kernels, e.Operands(refs)
	c.Device, c.Problems, c.Limit = t.devices[0], t.problems, t.Timeout
	c.Helper, c.Python = lab.Helper(), e.Loader.Python
	c.Prepare = func() error { return e.PreparePeers(&t.OpenOptions, c.Device, refs, c.Problems) }
	return verify.Run(e.Ctx, e.Console, c)
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
	if len(refs) == 0 {
		cfg.takeOpsOf(e.UserFamilies)
	}
	cfg.Untimed = true
	if err := cfg.open(e, false, refs...); err != nil {
		return err
	}
	defer lab.Close(cfg.devices)
	c := &verify.CheckRequest{All: cfg.all, HostOnly: cfg.hostOnly, Seed: cfg.seed, Hostile: cfg.hostile,
		Vary:    !cfg.AsksForTypes(),
		Repeats: cfg.repeats, BatchInvariant: cfg.batchInvariant, Typed: cfg.TypedShapes()}
	v, err := e.verify(&cfg.targetFlags, refs, c)
	if failed := new(nvrtc.CompileError); cfg.verbose && errors.As(err, &failed) {
		fmt.Fprintln(e.Err, strings.TrimSpace(failed.Log))
	}
	stopped := err != nil && e.Ctx.Err() != nil
	if len(v.Findings) > 0 { // a run that ended early still has its rows
		table := report.VerifyTable(cfg.repeats, v.Findings)
		table.Device = cfg.info.ID
		err = cmp.Or(err, report.RenderTable(e.out, table, cfg.format))
	}
	done := v.Checks()
	switch {
	case stopped:
		return lab.Interruptedf("%d of %d checks done, %d of them failed; %d of %d draws of inputs", done, v.Total,
			v.Failed, v.Draws, v.AllDraws)
	case err != nil:
		return err
	case v.Failed > 0:
		first := v.FirstFailed()
		help := "repeat the first: " + cfg.repeatCommand(first.FirstFailed, first.Problem, c)
		switch {
		case strings.HasPrefix(first.FirstFailed.Family, kernels.Callable):
			help += "; a function that rounds on the way, as transformers' norms do, says so by `rounds`: docs/python.md"
		case e.IsUsers(first.FirstFailed) && first.IsNearlyRight():
			help += "; if the kernel rounds to x's type on the way, its manifest says so by `rounds: {y: 1}`: docs/manifest.md"
		}
		if c.BatchInvariant {
			help += "; `normbench map fill --batch-invariant` and sweep pick one config for all rows"
		}
		return lab.Exit(exitGate, hint.Errorf(help, "%d of %d checks failed", v.Failed, done))
	case done == 0 && v.Refused > 0:
		return hint.Errorf("each row has the reason; --bias, --zero-centered and others give a problem its options",
			"nothing was checked: the peers take none of these problems")
	case done == 0 && len(v.Unrun) == 0 && len(v.Missed) == 0:
		return hint.Errorf("name a REF to see why its config is refused",
			"nothing was checked: no family has a valid base config for these problems")
	}
	if done > 0 {
		e.Notef("%s passed", v.Counts())
	}
	if v.Refused > 0 {
		e.Notef("%s refused by peers that do not take the problem", console.Count(v.Refused, "check"))
	}
	if cfg.hostOnly && done > 0 {
		e.Notef("no CUDA code was run, as --host-only asks")
	}
	if err := v.NotRun(); err != nil {
		return lab.Exit(exitUnclear, err)
	}
	if cfg.batchInvariant && !slices.ContainsFunc(v.Findings, func(f verify.Finding) bool { return len(f.SameRows()) > 1 }) {
		return lab.Exit(exitUnclear, hint.Errorf("name shapes of more rows that one config takes, such as --shapes 300x512",
			"no rows were compared: no problem of fewer rows was run beside one that passed"))
	}
	return nil
}

// repeatCommand returns the command that repeats the check of one variant on one problem, with the same inputs.
func (t *targetFlags) repeatCommand(v kernels.Variant, p kernels.Problem, c *verify.CheckRequest) string {
	words := []string{"normbench", "verify", strings.TrimSuffix(v.String(), "@")}
	flag := func(name, value string) {
		if value != "" {
			words = append(words, "--"+name, value)
		}
	}
	flag("kernels", t.kernels)
	for _, folder := range t.include.Value() {
		flag("include", folder)
	}
	flag("python", t.python)
	flag("device", t.Device)
	for _, w := range t.workers.Value() {
		flag("worker", w)
	}
	words = append(words, shapes.FlagsOf(p)...)
	if c.Repeats != defaultRepeats {
		flag("repeats", strconv.Itoa(c.Repeats))
	}
	if c.Hostile {
		words = append(words, "--hostile")
	}
	if c.HostOnly {
		words = append(words, "--host-only")
	}
	if c.BatchInvariant {
		words = append(words, "--batch-invariant")
	}
	flag("seed", strconv.FormatUint(c.Seed, 10))
	return quoteWords(words)
}

// takeOpsOf has the flags stand for the ops and passes of some families, unless they name some.
func (t *targetFlags) takeOpsOf(families []*kernels.Family) {
	var ops, passes []string
	for _, f := range families {
		if !slices.Contains(ops, string(f.Op)) {
			ops = append(ops, string(f.Op))
		}
		if !slices.Contains(passes, string(f.Pass)) {
			passes = append(passes, string(f.Pass))
		}
	}
	t.Op, t.Pass = cmp.Or(t.Op, strings.Join(ops, ",")), cmp.Or(t.Pass, strings.Join(passes, ","))
}
