package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/peers"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

var liveFlags = join([]cli.Flag{
	&cli.BoolFlag{Name: "live", Usage: "run recorded operands too"},
	&cli.StringFlag{Name: "baseline-kernels", Usage: "`FOLDER` kernels/families of another checkout; BASE runs the CUDA sources there"},
	&cli.BoolFlag{Name: "gate", Usage: "exit 1 on a regression that a second run in a fresh worker confirms"},
	&cli.BoolFlag{Name: "changed", Usage: "leave out cells of which both operands have the same variant"},
	&cli.BoolFlag{Name: "strict", Usage: "exit 3 if a cell is inconclusive"},
	&cli.StringFlag{Name: "rounds", Usage: "rounds at which a cell is judged, with commas", Value: "12,24"},
	&cli.IntFlag{Name: "samples", Usage: "launches kept per visit", Value: 20},
	warmFlag, rotateFlag,
	&cli.StringFlag{Name: "order", Usage: "order of the arms in a round: random or abba", Value: ab.OrderRandom},
	&cli.Float64Flag{Name: "min-effect", Usage: "smallest relative effect that matters, up to 0.1", Value: verdict.Default().MinEffect},
	seedFlag,
	&cli.StringFlag{Name: "out", Usage: "`FOLDER` for every sample, in OUT/<device>/compare-<run>.json"},
	&cli.StringFlag{Name: "resume", Usage: "continue the `FILE` of a run with --out: its cells stay, and the missing ones are added to it"},
}, peerFlags, optionFlags)

// mostEffect bounds --min-effect, because whoever writes 0.99 means 1%, and would have a gate that
// passes everything.
const mostEffect = 0.1

// maxReject is how many rounds a cell may lose to an unfit device.
const maxReject = 8

// live runs both operands on the device and judges every cell.
func (e *env) live(c *cli.Context, ops []string) error {
	rule, err := ruleOf(c)
	if err != nil {
		return err
	}
	if c.String("resume") != "" && c.String("out") != "" {
		return hint.Errorf("leave out --out", "--resume keeps the run in its own file")
	}
	if o := c.String("order"); o != ab.OrderRandom && o != ab.OrderABBA {
		return hint.Errorf("use random or abba", "unknown --order %q", o)
	}
	if err := checkProblems(c); err != nil {
		return err
	}
	refs, err := e.parseRefs(ops...)
	if err != nil {
		return err
	}
	if e.baseline != "" && refs[0].Peer() != "" {
		return hint.Errorf("name one of our families as BASE", "--baseline-kernels runs BASE from another checkout, and %s has no kernels there", refs[0].Text)
	}
	devices, err := e.devicesFor(c, refs...)
	if err != nil {
		return err
	}
	dev := devices[0]
	defer func() { dev.Close() }()
	closeAll(devices[1:]) // arms of a round share one device
	info := dev.Info()
	pr, err := liveProtocol(c, info)
	if err != nil {
		return err
	}
	pairings, err := e.pairings(c, refs, info)
	if err != nil {
		return err
	}
	if len(pairings) == 0 { // with --changed
		_, err := fmt.Fprintf(e.stdout, "%s and %s have the same variants\n", ops[0], ops[1])
		return err
	}
	hash, err := families.Hash(e.registry)
	if err != nil {
		return err
	}
	run := &liveRun{Schema: liveSchema, Run: e.newRun(info, pr), A: ops[0], B: ops[1], Rule: rule, Kernels: hash, Among: e.only}
	all := pairings
	if file := c.String("resume"); file != "" {
		if run, pairings, err = e.resume(file, run, all); err != nil {
			return err
		}
		e.notef("%d of %s are there already", len(all)-len(pairings), count(len(all), "cell"))
	}
	file, err := liveFile(c, run)
	if err != nil {
		return err
	}
	var cells []peers.Cell
	for _, b := range pairings {
		for _, v := range slices.Concat(b.of[0], b.of[1]) {
			cells = append(cells, peers.Cell{Problem: b.problem, Variant: v})
		}
	}
	if err := e.prepare(c, dev, cells); err != nil {
		return err
	}
	now := &run.Run
	if n := len(run.Resumed); n > 0 {
		now = &run.Resumed[n-1]
	}
	if err := e.testTimer(dev, now); err != nil {
		return err
	}
	o := ab.Options{Protocol: pr, Order: c.String("order"), Seed: seed(c), Repeats: 2, Rejects: maxReject,
		More: func(cell verdict.Cell) bool { return rule.More(cell, len(all)) }}
	start := time.Now()
	var broken error // what ended the run early
	for i, b := range pairings {
		if i+1 < len(pairings) {
			next := pairings[i+1]
			dev.Prefetch(next.problem, append(e.candidates(next), kernels.Variant{Family: e.registry.StreamOf(next.problem)}))
		}
		var d ab.Duel
		var res *ab.Result
		if d, broken = e.settle(b, e.chooser(dev, pr)); broken == nil {
			res, broken = ab.Fight(e.ctx, e.registry, dev, d, o)
		}
		if broken != nil {
			break
		}
		run.Duels = append(run.Duels, res)
		e.notef("[%d/%d] %s: %s", i+1, len(pairings), d.Problem, duelLine(res, rule))
		run.judge()
		run.Peers = e.tableNotes(refs, info, run.families())
		if broken = run.write(file); broken != nil { // nothing that is measured is lost
			break
		}
		e.saved = file.String()
	}
	if broken != nil && len(run.Duels) == 0 {
		return broken
	}
	run.order(all)
	run.judge()
	sides := run.sides()
	run.Stream = report.StreamScores(sides[0], sides[1])
	again := ""
	if c.Bool("gate") && broken == nil {
		if dev, broken = e.confirm(c, dev, refs, run, o); broken != nil {
			again = ", but not all of the slower ones again"
		}
	}
	there := fmt.Sprintf("%d of %s measured%s", len(run.Duels), count(len(all), "cell"), again)
	switch {
	case broken != nil && e.ctx.Err() != nil:
		broken = interrupted("%s", there)
	case broken != nil:
		e.notef("ended early: %s in %.1f s", there, time.Since(start).Seconds())
	default:
		e.notef("%s in %.1f s", count(len(pairings), "cell"), time.Since(start).Seconds())
	}
	lost := run.write(file)
	if lost != nil { // worse than to be interrupted, which it may be too
		lost = &coded{exitTrouble, e.late(lost)}
	} else if file.Name != "" {
		e.notef("wrote %s", file)
	}
	if err := cmp.Or(lost, broken, e.showLive(c, run)); err != nil {
		return err
	}
	sides[1].Label = ops[1]
	return run.outcome(c.Bool("gate"), e.atLeast(c, sides[1]), c.Bool("strict"))
}

// families are those of both arms, some more than once.
func (r *liveRun) families() (names []string) {
	for _, d := range r.Duels {
		names = append(names, d.A.Family, d.B.Family)
	}
	return names
}

// sides are the arms as operands, each round's median a sample.
func (r *liveRun) sides() [2]report.Side {
	s := [2]report.Side{{Label: "A", Name: ref.NameOf(r.A), Cells: map[kernels.Problem]report.Cell{}}, {Label: "B", Name: ref.NameOf(r.B), Cells: map[kernels.Problem]report.Cell{}}}
	run := r.Run
	for _, x := range r.Resumed {
		if math.Abs(x.FloorUS-run.FloorUS) > 0.2 { // which cell has which is not kept
			run.FloorUS = 0
		}
	}
	for _, d := range r.Duels {
		for i, v := range []kernels.Variant{d.A, d.B} {
			c := report.Cell{Variant: v, Status: d.Status, Reason: d.Reason, Bytes: d.Problem.Bytes(), StreamUS: d.StreamUS,
				Protocol: r.Run.Protocol.Name, Base: []string{r.A, r.B}[i] == "base"}
			c.SetRun(&run)
			for _, x := range [][]record.Stage{d.StagesA, d.StagesB}[i] {
				c.Stages = append(c.Stages, record.StageUS{Stage: x.Stage, MedianUS: stats.Median(x.SamplesUS)})
			}
			var us []float64
			for _, round := range d.Rounds {
				us = append(us, []float64{round.A, round.B}[i])
			}
			if len(us) > 0 && d.Status == kernels.StatusOK {
				sum := stats.Summarize(us)
				c.MedianUS, c.Lo, c.Hi = sum.Median, sum.Lo, sum.Hi
				for _, u := range us {
					c.Samples = append(c.Samples, float32(u))
				}
			}
			s[i].Cells[d.Problem] = c
		}
	}
	return s
}

// ruleOf is the default rule with what the flags change.
func ruleOf(c *cli.Context) (verdict.Rule, error) {
	rule := verdict.Default()
	if rule.MinEffect = c.Float64("min-effect"); rule.MinEffect > mostEffect {
		return rule, hint.Errorf("0.01 is 1%, the default",
			"--min-effect %g is above %g: what is so much slower is not the same", rule.MinEffect, mostEffect)
	}
	rule.Unpaired = max(rule.Unpaired, rule.MinEffect)
	var looks []int
	for _, text := range strings.Split(c.String("rounds"), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10_000 {
			return rule, hint.Errorf("write --rounds 12,24", "malformed --rounds %q", c.String("rounds"))
		}
		looks = append(looks, n)
	}
	rule.Plan = verdict.Pocock(rule.Alpha, looks...)
	return rule, hint.With(rule.CheckValid(), "the defaults are --rounds 12,24 --min-effect 0.01")
}

func liveProtocol(c *cli.Context, info kernels.DeviceInfo) (record.Protocol, error) {
	n := c.Int("samples")
	if n < 1 || n > 1000 {
		return record.Protocol{}, hint.Errorf("use 1 to 1000", "--samples %d is out of range", n)
	}
	pr, err := cacheProtocol(c, info, n)
	pr.StageSamples = max(n, 10)
	return pr, err
}

// A chooser settles on one of the variants that an operand has for a problem.
type chooser func(p kernels.Problem, vs []kernels.Variant) (kernels.Variant, error)

// A pairing is a problem with what either operand has for it. Which of several
// variants it is, is settled when its turn comes.
type pairing struct {
	problem kernels.Problem
	of      [2][]kernels.Variant
}

// settle makes a duel of a pairing.
func (e *env) settle(b pairing, choose chooser) (ab.Duel, error) {
	d := ab.Duel{Problem: b.problem}
	for i, v := range []*kernels.Variant{&d.A, &d.B} {
		var err error
		if *v, err = choose(b.problem, b.of[i]); err != nil {
			return d, err
		}
	}
	if e.baseline != "" {
		d.A.Family = families.Baseline + d.A.Family
	}
	return d, nil
}

// candidates are the variants that a pairing will ask for.
func (e *env) candidates(b pairing) []kernels.Variant {
	vs := slices.Concat(b.of[0], b.of[1])
	if e.baseline != "" && len(b.of[0]) == 1 {
		vs[0].Family = families.Baseline + vs[0].Family
	}
	return vs
}

// pairings are the problems that both operands have a variant for.
func (e *env) pairings(c *cli.Context, refs []*ref.Ref, info kernels.DeviceInfo) ([]pairing, error) {
	ps, err := problems(c, info)
	if err != nil {
		return nil, err
	}
	var pairings []pairing
	var missing []error
	same := 0
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		b := pairing{problem: p}
		have := true
		for i := range b.of {
			vs, err := e.variants(refs[i], p, info)
			if len(vs) == 0 {
				have = false
				if err == nil {
					err = fmt.Errorf("%s has no variant", refs[i].Text)
				} else if family, _, _ := strings.Cut(refs[i].Text, "@"); !strings.HasPrefix(err.Error(), family) {
					err = fmt.Errorf("%s: %w", refs[i].Text, err)
				}
				missing = append(missing, fmt.Errorf("%s: %w", p, err))
			}
			b.of[i] = vs
		}
		switch {
		case have && c.Bool("changed") && e.baseline == "" && slices.Equal(b.of[0], b.of[1]):
			same++
		case have:
			pairings = append(pairings, b)
		}
	}
	if same > 0 {
		e.notef("left out %s: the same variant on both sides", count(same, "cell"))
	}
	if len(pairings)+same == 0 {
		return nil, noneInCommon("%w", missing[0])
	}
	for _, m := range missing {
		e.notef("left out %s", m)
	}
	return pairings, nil
}

func duelLine(r *ab.Result, rule verdict.Rule) string {
	if r.Status != kernels.StatusOK {
		return fmt.Sprintf("%s, %s", r.Status, r.Reason)
	}
	j := verdict.Judge([]verdict.Cell{r.Cell()}, rule)[0]
	return fmt.Sprintf("%s, %s in %d rounds", j.Verdict, effect(&j), j.Rounds)
}

// effect is B's speedup over A with its interval: "1.21x (1.20-1.22)".
func effect(j *verdict.Judged) string {
	if j.Effect == 0 {
		return ""
	}
	s := fmt.Sprintf("%.3fx", 1/j.Effect)
	if j.Lo > 0 {
		s += fmt.Sprintf(" (%.3f-%.3f)", 1/j.Hi, 1/j.Lo)
	}
	return s
}

func (r *liveRun) judge() {
	var cells []verdict.Cell
	for _, d := range r.Duels {
		if d.Status == kernels.StatusOK {
			cells = append(cells, d.Cell())
		}
	}
	r.Judged = verdict.Judge(cells, r.Rule)
	r.Summary = verdict.Summarize(r.Judged)
}

// confirm compares the cells again that the gate would fail, on a device opened
// anew: a regression counts only where both runs agree.
func (e *env) confirm(c *cli.Context, dev kernels.Device, refs []*ref.Ref, run *liveRun, o ab.Options) (kernels.Device, error) {
	var slower []kernels.Problem
	for _, j := range run.Judged {
		if j.Gate == verdict.Slower {
			slower = append(slower, j.Problem)
		}
	}
	if len(slower) == 0 {
		return dev, nil
	}
	e.notef("%s slower, measuring again in a fresh worker", count(len(slower), "cell"))
	dev.Close()
	devices, err := e.devicesFor(c, refs...)
	if err != nil {
		return dev, err
	}
	closeAll(devices[1:])
	dev = devices[0]
	var cells []peers.Cell
	for _, d := range run.Duels {
		if slices.Contains(slower, d.Problem) {
			cells = append(cells, peers.Cell{Problem: d.Problem, Variant: d.A}, peers.Cell{Problem: d.Problem, Variant: d.B})
		}
	}
	if err := e.prepare(c, dev, cells); err != nil {
		return dev, err
	}
	o.Seed++
	o.More = func(cell verdict.Cell) bool { return run.Rule.More(cell, len(slower)) }
	for _, d := range run.Duels {
		if !slices.Contains(slower, d.Problem) {
			continue
		}
		again, err := ab.Fight(e.ctx, e.registry, dev, d.Duel, o)
		if err != nil {
			return dev, err
		}
		j := verdict.Judge([]verdict.Cell{again.Cell()}, run.Rule)[0]
		if again.Status != kernels.StatusOK {
			j.Verdict, j.Gate, j.Reason = verdict.Inconclusive, verdict.Inconclusive, string(again.Status)+", "+again.Reason
		}
		g := gated{Problem: d.Problem, Confirmed: j.Verdict == verdict.Slower, Status: again.Status, Again: j}
		run.Gate = append(run.Gate, g)
		e.notef("%s: %s", d.Problem, g.found())
	}
	return dev, nil
}

// outcome is the exit code: wrong answers first, then an unfit machine, then
// what the gate, --at-least (low) and --strict ask for.
func (r *liveRun) outcome(gate bool, low error, strict bool) error {
	tally := map[kernels.Status]int{}
	failed := 0
	seen := func(s kernels.Status) {
		tally[s]++
		if s != kernels.StatusOK && s != kernels.StatusWrong && s != kernels.StatusUnfit {
			failed++
		}
	}
	for _, d := range r.Duels {
		seen(d.Status)
	}
	confirmed, unclear := 0, r.Summary.Inconclusive
	for _, g := range r.Gate {
		seen(cmp.Or(g.Status, kernels.StatusOK)) // of other inputs, on which a kernel may be wrong that was right before
		switch {
		case g.Confirmed:
			confirmed++
		case g.Again.Verdict == verdict.Inconclusive:
			unclear++
		}
	}
	switch {
	case tally[kernels.StatusWrong] > 0:
		return &coded{exitWrong, hint.Errorf("`normbench verify` names the outputs that are wrong, and by how much", "a wrong answer in %s", count(tally[kernels.StatusWrong], "cell"))}
	case tally[kernels.StatusUnfit] > 0:
		return &coded{exitUnfit, hint.Errorf("`nvidia-smi` shows clocks, throttling and other processes", "the machine was unfit in %s", count(tally[kernels.StatusUnfit], "cell"))}
	case failed > 0:
		return &coded{exitTrouble, hint.Errorf("`normbench bench` shows the reason in full", "%s could not be measured", count(failed, "cell"))}
	case gate && confirmed > 0:
		return &coded{exitGate, hint.Errorf("the table's last lines have the second run of each; \"what moved\" names the stage, and `normbench bench` times them all", "%s slower, confirmed", count(confirmed, "cell"))}
	case low != nil:
		return low
	case strict && unclear > 0:
		return &coded{exitUnclear, hint.Errorf("more rounds may tell: --rounds 24,48", "%s inconclusive", count(unclear, "cell"))}
	}
	return nil
}
