package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

// mostEffect bounds --min-effect, because whoever writes 0.99 means 1%, and would have a gate that
// passes everything.
const mostEffect = 0.1

// A liveConfig is what the flags of a live compare ask for, beside those of other commands.
type liveConfig struct {
	names                 []string // of the flags
	on                    bool     // --live
	baseline              string
	gate, changed, strict bool
	rounds, order         string
	samples               int
	minEffect             float64
	out, resume           string
	refs                  []*ref.Ref
	rule                  verdict.Rule
}

func (cfg *liveConfig) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Destination: &cfg.on, Name: "live", Category: catWhat, Usage: "run recorded operands too"},
		baselineFlag(&cfg.baseline),
		&cli.BoolFlag{Destination: &cfg.gate, Name: "gate", Usage: "exit 1 on a regression that a second run in a fresh worker confirms"},
		&cli.BoolFlag{Destination: &cfg.changed, Name: "changed", Usage: "leave out cells of which both operands have the same variant"},
		&cli.BoolFlag{Destination: &cfg.strict, Name: "strict", Usage: "exit 3 if a cell is inconclusive"},
		&cli.StringFlag{Destination: &cfg.rounds, Name: "rounds", Usage: "rounds at which a cell is judged, with commas", Value: "12,24"},
		&cli.IntFlag{Destination: &cfg.samples, Name: "samples", Usage: "launches kept per visit", Value: 20,
			Action: within("samples", 1, 1000, "use 1 to 1000")},
		&cli.StringFlag{Destination: &cfg.order, Name: "order", Usage: "order of the arms in a round: random or abba", Value: ab.OrderRandom},
		&cli.Float64Flag{Destination: &cfg.minEffect, Name: "min-effect", Usage: "smallest relative effect that matters, up to 0.1", Value: verdict.Default().MinEffect},
		&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput, Usage: "`FOLDER` for every sample, in OUT/<device>/compare-<run>.json"},
		&cli.StringFlag{Destination: &cfg.resume, Name: "resume", Category: catOutput, Usage: "continue the `FILE` of a run with --out: its cells stay, and the missing ones are added to it"},
	}
}

// compareLive runs both operands on the device and judges every cell.
func compareLive(e *env, cfg *compareConfig) (err error) {
	live := &cfg.live
	if live.rule, err = live.ruleOf(); err != nil {
		return err
	}
	if live.resume != "" && live.out != "" {
		return hint.Errorf("leave out --out", "--resume keeps the run in its own file")
	}
	if live.refs, err = e.ParseAll(cfg.operands...); err != nil {
		return err
	}
	if e.Baseline != "" && live.refs[0].Peer() != "" {
		return hint.Errorf("name one of our families as BASE",
			"--baseline-kernels runs BASE from another checkout, and %s has no kernels there", live.refs[0].Text)
	}
	cfg.timing.samples = live.samples
	if err := cfg.open(e, false, live.refs...); err != nil {
		return err
	}
	lab.Close(cfg.devices[1:]) // arms of a round share one device
	m := &ab.Compare{Registry: e.Registry, Device: cfg.devices[0], Baseline: e.Baseline != "",
		Options: ab.Options{Order: live.order, Seed: cfg.seed, Protocol: cfg.protocol(cfg.info)}}
	defer func() { m.Device.Close() }()
	m.Options.Protocol.StageSamples = max(m.Options.Protocol.Samples, 10)
	all, err := e.Pairs(live.refs, cfg.problems, cfg.info, live.changed && e.Baseline == "")
	if err != nil {
		return err
	}
	if len(all) == 0 { // with --changed
		_, err := fmt.Fprintf(e.out, "%s and %s have the same variants\n", cfg.operands[0], cfg.operands[1])
		return err
	}
	run, left, err := startLive(e, cfg, m, all)
	if err != nil {
		return err
	}
	file, err := live.file(&run.Run)
	if err != nil {
		return err
	}
	var tasks []sweep.Task
	for _, p := range left {
		tasks = append(tasks, sweep.Task{Problem: p.Problem, Variants: slices.Concat(p.Of[0], p.Of[1])})
	}
	if err := e.Prepare(&cfg.Config, m.Device, tasks); err != nil {
		return err
	}
	runs := run.Runs()
	if err := testTimer(e, m.Device, runs[len(runs)-1]); err != nil {
		return err
	}
	return fight(e, cfg, m, run, file, left, all)
}

// startLive starts a match, or goes on with the one of --resume, and says which pairs are left.
func startLive(e *env, cfg *compareConfig, m *ab.Compare, all []ab.Pair) (
	run *report.Live, left []ab.Pair, err error) {
	hash, err := families.Hash(e.Registry)
	if err != nil {
		return nil, nil, err
	}
	fresh := &report.Live{Match: ab.Match{Schema: ab.Schema, Run: newRun(e, m.Device.Info(), m.Options.Protocol),
		A: cfg.operands[0], B: cfg.operands[1], Rule: cfg.live.rule, Kernels: hash, Among: e.Among}}
	path := cfg.live.resume
	if path == "" {
		return fresh, all, nil
	}
	if run, err = report.ReadLive(path); err != nil {
		return nil, nil, err
	}
	if left, err = run.Resume(&fresh.Match, all); err != nil {
		return nil, nil, hint.Errorf(hint.Of(err), "%s is of %w", path, err)
	}
	if run.Run.Device.UUID != fresh.Run.Device.UUID {
		e.Notef("%s is of another card of this model", path)
	}
	e.Notef("%d of %s are there already", len(all)-len(left), console.Count(len(all), "cell"))
	return run, left, nil
}

// fight fights what is left of a match, keeps it in its file and shows it.
func fight(e *env, cfg *compareConfig, m *ab.Compare, run *report.Live,
	file durable.Place, left, all []ab.Pair) error {
	done, start := 0, time.Now()
	m.Choose = e.Chooser(m.Device, m.Options.Protocol)
	m.Options.EmptyUS = run.Run.EmptyUS()
	m.Fought = func(r *ab.Result) error {
		done++
		e.Notef("[%d/%d] %s: %s", done, len(left), r.Problem, duelLine(r, run.Rule))
		run.Peers = e.TableNotes(cfg.live.refs, run.Run.Device, run.Families())
		if file.Name == "" {
			return nil
		}
		e.saved = file.String()
		return run.Write(file) // nothing that is measured is lost
	}
	broken := m.Fight(e.Ctx, &run.Match, left, all) // what ended the run early
	if broken != nil && len(run.Duels) == 0 {
		return broken
	}
	again := ""
	if cfg.live.gate && broken == nil {
		if broken = confirm(e, cfg, m, run); broken != nil {
			again = ", but not all of the slower ones again"
		}
	}
	there := fmt.Sprintf("%d of %s measured%s", len(run.Duels), console.Count(len(all), "cell"), again)
	switch {
	case broken != nil && e.Ctx.Err() != nil:
		broken = interrupted("%s", there)
	case broken != nil:
		e.Notef("ended early: %s in %.1f s", there, time.Since(start).Seconds())
	default:
		e.Notef("%s in %.1f s", console.Count(len(left), "cell"), time.Since(start).Seconds())
	}
	run.Score()
	var lost error
	if file.Name != "" {
		if lost = run.Write(file); lost != nil { // worse than to be interrupted, which it may be too
			lost = &coded{exitTrouble, e.late(lost)}
		} else {
			e.Notef("wrote %s", file)
		}
	}
	if err := cmp.Or(lost, broken, showLive(e, cfg, run)); err != nil {
		return err
	}
	side := run.Sides()[1]
	side.Label = cfg.operands[1]
	return exitOf(run, cfg.live.gate, cfg.reaches(e, side), cfg.live.strict)
}

// ruleOf is the default rule with what the flags change.
func (cfg *liveConfig) ruleOf() (verdict.Rule, error) {
	rule := verdict.Default()
	if rule.MinEffect = cfg.minEffect; rule.MinEffect > mostEffect {
		return rule, hint.Errorf("0.01 is 1%, the default",
			"--min-effect %g is above %g: what is so much slower is not the same", rule.MinEffect, mostEffect)
	}
	rule.Unpaired = max(rule.Unpaired, rule.MinEffect)
	var looks []int
	for _, text := range strings.Split(cfg.rounds, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10_000 {
			return rule, hint.Errorf("write --rounds 12,24", "malformed --rounds %q", cfg.rounds)
		}
		looks = append(looks, n)
	}
	rule.Plan = verdict.Pocock(rule.Alpha, looks...)
	return rule, hint.With(rule.CheckValid(), "the defaults are --rounds 12,24 --min-effect 0.01")
}

func duelLine(r *ab.Result, rule verdict.Rule) string {
	if r.Status != kernels.StatusOK {
		return fmt.Sprintf("%s, %s", r.Status, r.Reason)
	}
	j := verdict.Judge([]verdict.Cell{r.Cell()}, rule)[0]
	return fmt.Sprintf("%s, %s in %d rounds", j.Verdict, j.Speedup(), j.Rounds)
}

// confirm compares the cells again that the gate would fail, on a device opened anew.
func confirm(e *env, cfg *compareConfig, m *ab.Compare, run *report.Live) error {
	slower := run.Slower()
	if len(slower) == 0 {
		return nil
	}
	e.Notef("%s slower, measuring again in a fresh worker", console.Count(len(slower), "cell"))
	m.Device.Close()
	devices, err := e.Open(&cfg.Config, cfg.live.refs...)
	if err != nil {
		return err
	}
	lab.Close(devices[1:])
	m.Device, m.Registry = devices[0], e.Registry
	var tasks []sweep.Task
	for _, d := range slower {
		tasks = append(tasks, sweep.Task{Problem: d.Problem, Variants: []kernels.Variant{d.A, d.B}})
	}
	if err := e.Prepare(&cfg.Config, m.Device, tasks); err != nil {
		return err
	}
	return m.Confirm(e.Ctx, &run.Match, slower, func(s *ab.Second) { e.Notef("%s: %s", s.Problem, s) })
}

// exitOf is the exit code: wrong answers first, then an unfit machine, then
// what the gate, --at-least (low) and --strict ask for.
func exitOf(r *report.Live, gate bool, low error, strict bool) error {
	tally := map[kernels.Status]int{}
	for _, d := range r.Duels {
		tally[d.Status]++
	}
	confirmed, unclear := 0, r.Summary.Inconclusive
	for _, g := range r.Gate {
		tally[cmp.Or(g.Status, kernels.StatusOK)]++ // of other inputs, on which a kernel may be wrong that was right before
		switch {
		case g.Confirmed:
			confirmed++
		case g.Again.Verdict == verdict.Inconclusive:
			unclear++
		}
	}
	failed := len(r.Duels) + len(r.Gate) - tally[kernels.StatusOK] - tally[kernels.StatusWrong] - tally[kernels.StatusUnfit]
	switch {
	case tally[kernels.StatusWrong] > 0:
		return &coded{exitWrong, hint.Errorf("`normbench verify` names the outputs that are wrong, and by how much", "a wrong answer in %s", console.Count(tally[kernels.StatusWrong], "cell"))}
	case tally[kernels.StatusUnfit] > 0:
		return &coded{exitUnfit, hint.Errorf("`nvidia-smi` shows clocks, throttling and other processes", "the machine was unfit in %s", console.Count(tally[kernels.StatusUnfit], "cell"))}
	case failed > 0:
		return &coded{exitTrouble, hint.Errorf("`normbench bench` shows the reason in full", "%s could not be measured", console.Count(failed, "cell"))}
	case gate && confirmed > 0:
		return &coded{exitGate, hint.Errorf("the table's last lines have the second run of each; \"what moved\" names the stage, and `normbench bench` times them all", "%s slower, confirmed", console.Count(confirmed, "cell"))}
	case low != nil:
		return low
	case strict && unclear > 0:
		return &coded{exitUnclear, hint.Errorf("more rounds may tell: --rounds 24,48", "%s inconclusive", console.Count(unclear, "cell"))}
	}
	return nil
}

// file is where a run is kept, "" for nowhere: a place that can be written.
func (cfg *liveConfig) file(run *record.Run) (durable.Place, error) {
	path, out := cfg.resume, cfg.out
	switch {
	case path == "" && out == "":
		return durable.Place{}, nil
	case path == "":
		id := run.Device.ID
		return durable.Place{Root: out, Name: filepath.Join(id, "compare-"+run.ID+".json")}, record.CheckFolder(out, id)
	}
	return durable.Place{Name: path}, record.CheckFolder(filepath.Dir(path), ".")
}

// showLive prints the run, and adds it to the summary page of a GitHub job.
func showLive(e *env, cfg *compareConfig, run *report.Live) error {
	if err := run.Render(e.out, cfg.format); err != nil {
		return err
	}
	if err := e.writePage(cfg.html, run.Page); err != nil {
		return err
	}
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return hint.Errorf("unset GITHUB_STEP_SUMMARY where there is none", "job summary: %w", err)
	}
	defer f.Close()
	return hint.With(run.Render(f, report.FormatMarkdown), "unset GITHUB_STEP_SUMMARY to do without the job's summary")
}
