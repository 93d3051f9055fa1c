package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/shard"
	"normbench/sweep/verdict"
)

// A liveConfig is what the flags of a live compare ask for, beside those of other commands.
type liveConfig struct {
	names                 []string // of the flags
	on                    bool     // --live
	baseline              string
	gate, changed, strict bool
	rounds                string
	samples               int
	out, resume           string
	shard                 string
	part                  *record.Shard // of the cells, nil for all
}

func (cfg *liveConfig) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Destination: &cfg.on, Name: "live", Category: catWhat,
			Usage: "run recorded operands too"},
		baselineFlag(&cfg.baseline),
		&cli.BoolFlag{Destination: &cfg.gate, Name: "gate", Usage: "exit 1 on a regression that a " +
			"second run in a fresh worker confirms"},
		&cli.BoolFlag{Destination: &cfg.changed, Name: "changed",
			Usage: "leave out cells of which both operands have the same variant"},
		&cli.BoolFlag{Destination: &cfg.strict, Name: "strict", Usage: "exit 3 if a cell is inconclusive"},
		&cli.StringFlag{Destination: &cfg.rounds, Name: "rounds",
			Usage: "rounds at which a cell is judged, with commas", Value: "12,24"},
		&cli.IntFlag{Destination: &cfg.samples, Name: "samples", Usage: "launches kept per visit", Value: 20,
			Action: checkRange("samples", 1, 1000, "use 1 to 1000")},
		&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
			Usage: "`FOLDER` for every sample, in OUT/<device>/compare-<run>.json"},
		shardFlag(&cfg.shard),
		&cli.StringFlag{Destination: &cfg.resume, Name: "resume", Category: catOutput,
			Usage: "continue the `FILE` of a run with --out: its cells stay, and the missing ones " +
				"are added to it"},
	}
}

// compareLive runs both operands on the device and judges every cell.
func compareLive(e *env, cfg *compareConfig) error {
	live := &cfg.live
	var err error
	if live.part, err = e.shardOf(live.shard, live.out); err != nil {
		return err
	}
	if live.part != nil && live.out != "" {
		live.out = filepath.Join(live.out, live.part.Folder())
	}
	run, nothing, err := fightLive(e, cfg)
	switch {
	case err == nil && nothing == sameVariants && !cfg.live.gate && !cfg.live.strict:
		_, err := fmt.Fprintf(e.out, "%s and %s have the same variants\n", cfg.operands[0], cfg.operands[1])
		return err
	case err == nil && run == nil:
		return passed(e, &cfg.commonFlags, nothing)
	case run == nil:
		return err
	}
	if err := cmp.Or(err, showCompared(e, &cfg.commonFlags, &cfg.Selection, run.Comparison())); err != nil {
		return err
	}
	return exitOf(run.Outcome())
}

// sameVariants is why a compare with --changed may have nothing to measure.
const sameVariants = "the same variants on both sides, nothing to compare"

// fightLive runs both operands on the device. Without a run and an error, nothing says why there is
// nothing to measure. A run stands beside an error that ended it early.
func fightLive(e *env, cfg *compareConfig) (run *report.LiveFile, nothing string, err error) {
	flags := &cfg.live
	if flags.resume != "" && flags.out != "" {
		return nil, "", hint.Errorf("leave out --out", "--resume keeps the run in its own file")
	}
	rule, err := flags.ruleOf()
	if err != nil {
		return nil, "", err
	}
	refs, err := e.ParseAll(cfg.operands...)
	if err != nil {
		return nil, "", err
	}
	if e.Baseline != "" && refs[0].Peer() != "" {
		return nil, "", hint.Errorf("name one of our families as A",
			"--baseline-kernels runs A from another checkout, and %s has no kernels there", refs[0].Text)
	}
	if e.Baseline != "" && !e.AnyBaseline() {
		return nil, ab.NewFamily, nil
	}
	cfg.timingFlags.samples = flags.samples
	if err := cfg.open(e, false, refs...); err != nil {
		return nil, "", err
	}
	lab.Close(cfg.devices[1:]) // arms of a round share one device
	m := &ab.Runner{Registry: e.Registry, Device: cfg.devices[0], Baseline: e.Baseline != "",
		Seed: cfg.seed, Protocol: cfg.protocol(cfg.info)}
	defer func() { m.Device.Close() }()
	m.Protocol.StageSamples = max(m.Protocol.Samples, 10)
	pairs, err := e.Pairs(refs, cfg.problems, cfg.info, flags.changed && e.Baseline == "")
	if err != nil {
		return nil, "", err
	}
	if len(pairs) == 0 {
		return nil, sameVariants, nil
	}
	if e.Baseline != "" {
		if pairs = ab.WithBaseline(e.Console, e.Registry, e.Baseline, pairs); len(pairs) == 0 {
			return nil, ab.NewFamily, nil
		}
	}
	if part := flags.part; part != nil {
		mine, all := shard.Of(part, cfg.problems), len(pairs)
		pairs = slices.DeleteFunc(pairs, func(p ab.Pair) bool { return !slices.Contains(mine, p.Problem) })
		part.Problems, part.All = len(pairs), all
		part.Plan = shard.Plan(cfg.problems, "compare", refs[0].Text, refs[1].Text, flags.rounds)
		e.Notef("shard %s has %s of %d", part, console.Count(len(pairs), "cell"), all)
		if len(pairs) == 0 {
			return nil, "no cell in this shard", nil
		}
	}
	run, err = e.RunLive(&cfg.OpenOptions, refs, &ab.LiveCompare{Runner: m, Pairs: pairs, Out: flags.out, Resume: flags.resume,
		Experiment: &ab.Experiment{Run: record.Run{Shard: flags.part}, Rule: rule, Policy: ab.GatePolicy{Gate: flags.gate, Strict: flags.strict}}})
	return run, "", err
}

// passed says why a compare has nothing to measure.
func passed(e *env, x *commonFlags, reason string) error {
	o := &report.GateOutcome{Kind: report.Passed, Reason: reason}
	if err := report.RenderOutcome(e.out, o, x.format); err != nil {
		return err
	}
	return e.writePage(x.html, func() *report.Page {
		return &report.Page{Title: cmp.Or(x.title, "normbench compare"), Outcome: o}
	})
}

// ruleOf is the default rule with what the flags change.
func (cfg *liveConfig) ruleOf() (verdict.Rule, error) {
	rule := verdict.Default()
	var looks []int
	for _, text := range strings.Split(cfg.rounds, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10_000 {
			return rule, hint.Errorf("write --rounds 12,24", "malformed --rounds %q", cfg.rounds)
		}
		looks = append(looks, n)
	}
	rule.Plan = verdict.Pocock(rule.Alpha, looks...)
	return rule, hint.With(rule.CheckValid(), "the default is --rounds 12,24")
}

// exitOf returns the exit code of an outcome.
func exitOf(o *report.GateOutcome) error {
	if o.Kind == report.Passed {
		return nil
	}
	x := map[report.OutcomeKind]struct {
		code int
		help string
	}{
		report.Wrong:     {exitWrong, "`normbench verify` names the outputs that are wrong, and by how much"},
		report.Slower:    {exitGate, "\"what moved\" names the stage, and `normbench bench` times them all"},
		report.Broken:    {exitTrouble, "the table has the reason of each cell"},
		report.Unfit:     {exitUnfit, "`nvidia-smi` shows clocks, throttling and other processes"},
		report.Undecided: {exitUnclear, "more rounds may tell: --rounds 24,48"},
	}[o.Kind]
	if o.Kind == report.Undecided && strings.HasPrefix(o.Reason, "not verified") {
		x.help = "`normbench verify` says what was not run; --device cuda runs it on a GPU"
	}
	return lab.Exit(x.code, hint.Errorf(cmp.Or(o.Next, x.help), "%s", o.Reason))
}
