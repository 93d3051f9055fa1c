package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/pullrequest"
	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verify"
)

// A gateConfig has the flags of gate, and what prepare and checkOutBase find.
type gateConfig struct {
	targetFlags
	live            liveConfig
	base            string // ref of git
	assumed         bool   // the base is the pull request's, not the flag's
	policy, comment string
	summary         string
	pull            *pullrequest.PullRequest // nil where the job is for none
	baseCommit      string                   // hash of the base's commit
	baseFolder      string                   // the folder of kernels in the base's checkout, "" where there is none
	onCPU, all      bool
}

// summaryLimit is GitHub's limit of a step's summary, in bytes.
const summaryLimit = 1 << 20

// gateCommand makes the command gate.
func gateCommand(e *env) *cli.Command {
	cfg := &gateConfig{}
	cfg.loads = true // so that a pull request is told what is wrong with them
	cfg.files = []*string{&cfg.summary}
	return e.command(&cli.Command{
		Name:  "gate",
		Usage: "check and compare the kernels of a pull request, and comment on it",
		Description: "Compares each family of --kernels with what it was at --base, in the same rounds, as " +
			"`normbench compare --gate` does; a cell that is slower is measured again in a fresh worker, and one " +
			"that is inconclusive once more. A family that the base lacks is checked against float64; one that only the " +
			"base has is named. With --device cpu, which needs no GPU, all families are checked, nothing is timed, and of " +
			"the base only the names of its families are read. " +
			"In a job of GitHub or GitLab, one comment on the pull request is kept up to date. docs/gate.md has the workflows.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.base, Name: "base", Category: catWhat,
				Usage:       "`REF` of git to compare with; it is fetched from origin where it is not there",
				DefaultText: "the pull request's base branch"},
			&cli.StringFlag{Destination: &cfg.policy, Name: "policy", Value: "regression",
				Usage: "off only reports; regression exits 1 on a confirmed one; strict also exits 3 if a cell stays inconclusive"},
			&cli.BoolFlag{Destination: &cfg.all, Name: "all-configs", Category: catWhat,
				Usage: "where families are checked, check every config of each one's space, not its base config alone"},
			&cli.StringFlag{Destination: &cfg.live.rounds, Name: "rounds",
				Usage: "rounds at which a cell is judged, with commas", Value: "12,24"},
			&cli.IntFlag{Destination: &cfg.live.samples, Name: "samples", Usage: "launches kept per visit", Value: 20,
				Action: checkRange("samples", 1, 1000, "use 1 to 1000")},
			&cli.StringFlag{Destination: &cfg.comment, Name: "comment", Category: catOutput, Value: "auto",
				Usage: "comment on the pull request: auto where the token may, always or never"},
			&cli.StringFlag{Destination: &cfg.summary, Name: "summary", Category: catOutput,
				Usage: "add the report to `FILE`", DefaultText: "$GITHUB_STEP_SUMMARY"},
			&cli.StringFlag{Destination: &cfg.live.out, Name: "out", Category: catOutput, Value: "out",
				Usage: "`FOLDER` for the report (gate.md, a page for each family) and every sample"},
		}, shapeFlags(&cfg.Selection, "fast-llm; smoke on a cpu", "those of the kernels"), optionFlags(&cfg.Selection),
			cfg.machineFlags.flags(), cfg.kernelFlags(), []cli.Flag{cfg.seedFlag()}),
	}, &cfg.commonFlags, func() error { return runGate(e, cfg) })
}

// runGate compares the kernels of a pull request with the base's, reports the result and returns its
// exit code.
func runGate(e *env, cfg *gateConfig) error {
	if err := cfg.prepare(e); err != nil {
		return err
	}
	// A report of an earlier run would pass for this one's.
	if err := os.Remove(cfg.place().String()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hint.Errorf(durable.Help(err), "%s: %w", cfg.place(), durable.Cause(err))
	}
	var parts []report.GatePart
	var err error
	if cfg.base != "" {
		var old *lab.Checkout
		if old, err = cfg.checkOutBase(e); old != nil {
			defer old.Close()
		}
	}
	if err == nil {
		parts, err = cfg.gateFamilies(e)
	}
	switch {
	case e.Ctx.Err() != nil:
		return cmp.Or(err, e.Ctx.Err())
	case err != nil: // is told: what stands on the pull request is of another commit
		parts = append(parts, report.GatePart{Family: cfg.kernels, Outcome: &report.GateOutcome{Kind: report.Broken,
			Reason: console.OneLine(err.Error()), Next: hintOf(err)}})
	}
	var list []*report.GateOutcome
	for _, p := range parts {
		list = append(list, p.Outcome)
	}
	o := report.Join(list)
	if lost := cfg.writeReports(e, o, parts); lost != nil || err != nil {
		return cmp.Or(err, lost)
	}
	return exitOf(o)
}

// hintOf returns the hint of an error as a line of a report.
func hintOf(err error) string {
	if help := hint.Of(err); help != "" {
		return "hint: " + console.OneLine(help)
	}
	return ""
}

// prepare finds the pull request and checks everything that could fail at the end: the token, the
// summary's place. So nothing fails only after the measuring.
func (cfg *gateConfig) prepare(e *env) (err error) {
	if cfg.kernels == "" {
		return hint.Errorf("name the folder of their manifests: --kernels FOLDER; `normbench init` writes a manifest",
			"gate needs the kernels to compare")
	}
	if cfg.pull, err = pullrequest.FromEnv(os.Getenv); err != nil {
		return err
	}
	cfg.onCPU = cfg.Device == "cpu"
	switch {
	case cfg.base != "":
	case cfg.pull == nil && cfg.onCPU:
	case cfg.pull == nil:
		return hint.Errorf("name a branch or commit: --base main",
			"this is no job of a pull request, so there is no base to compare with")
	default: // with --comment never, too
		cfg.base, cfg.assumed = cfg.pull.Base, true
	}
	switch why := errors.New("this is no job of a pull request"); {
	case cfg.comment == "never":
		cfg.pull = nil
	case cfg.pull != nil:
		if why = cfg.pull.CanComment(); why == nil {
			break
		}
		fallthrough
	case cfg.comment == "always":
		if cfg.comment == "always" {
			return hint.Errorf(cmp.Or(hint.Of(why), "leave out --comment, or run it in a job of GitHub or GitLab"), "%w", why)
		}
		e.Notef("%s", why)
	}
	for _, name := range pullrequest.TokenVariables { // no kernel's process sees it
		os.Unsetenv(name) //nolint:errcheck // it was read
	}
	if cfg.summary = cmp.Or(cfg.summary, os.Getenv("GITHUB_STEP_SUMMARY")); cfg.summary != "" {
		if err := lab.CheckPlace(durable.Place{Name: cfg.summary}); err != nil {
			return err
		}
	}
	if cfg.Device == "" && len(cfg.workers.Value()) == 0 {
		cfg.Device = "cuda" // with auto, a GPU that fails would pass
	}
	if cfg.Shapes == "" && cfg.Model == "" && !cfg.onCPU {
		cfg.Shapes = "fast-llm"
	}
	cfg.live.gate, cfg.live.strict = cfg.policy != "off", cfg.policy == "strict"
	return nil
}

// checkOutBase checks out the base that the kernels are compared with. The caller closes the checkout, which is nil
// where a check on a CPU does without: the token of a job may not read the base of a fork.
func (cfg *gateConfig) checkOutBase(e *env) (*lab.Checkout, error) {
	old, err := e.CheckOut(cfg.base, cfg.kernels)
	switch {
	case err != nil && cfg.onCPU && cfg.assumed:
		e.Notef("kernels that are gone are not named: %v", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	cfg.baseCommit, cfg.baseFolder = old.Commit, old.Folder
	return old, nil
}

// gateFamilies compares each family that the base has with the base's, and checks the others. On a CPU
// it only checks all. It names those that only the base has. Beside an error it returns the parts that are done.
func (cfg *gateConfig) gateFamilies(e *env) (parts []report.GatePart, err error) {
	const runsPeers = false
	if err := e.UseKernels(cfg.kernels, cfg.include.Value(), cfg.python, runsPeers, nil); err != nil {
		return nil, err
	}
	if err := record.CheckFolder(cfg.live.out, "."); err != nil { // which it makes
		return nil, err
	}
	var gone []string
	if cfg.baseFolder != "" {
		if gone, err = e.GoneFamilies(cfg.baseFolder); err != nil {
			return nil, err
		}
	}
	defer func() {
		parts = append(parts, aboutSome(gone, "is gone, and was compared with nothing",
			"are gone, and were compared with nothing")...)
	}()
	families, parts, err := cfg.leaveOut(e.UserFamilies)
	if err != nil {
		return nil, err
	}
	if cfg.onCPU {
		part, err := cfg.checkFamilies(e, families)
		if err != nil {
			return nil, err
		}
		if part.Outcome.Kind == report.Passed {
			part.Outcome.Reason += "; nothing was timed"
		}
		return append([]report.GatePart{part}, parts...), nil
	}
	if err := e.UseBaseline(cfg.baseFolder); err != nil {
		return nil, err
	}
	var fresh []*kernels.Family
	for _, f := range families {
		if !e.HasBaseline(f.Name) {
			fresh = append(fresh, f)
			continue
		}
		part, err := cfg.compareFamily(e, f)
		if err != nil {
			return parts, err
		}
		parts = append(parts, part)
	}
	for _, f := range fresh {
		part, err := cfg.checkFamilies(e, []*kernels.Family{f})
		if err != nil {
			return parts, err
		}
		if part.Family = f.Name; part.Outcome.Kind == report.Passed {
			why := ab.NewFamily
			if unread := e.WhyUnread(f); unread != nil {
				why = fmt.Sprintf("nothing to compare, as the base's manifest cannot be loaded: %s", console.OneLine(unread.Error()))
			}
			part.Outcome.Reason = why + "; " + part.Outcome.Reason
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// aboutSome makes a part of the report about some families, none where there are none. Many are not named one by one.
func aboutSome(names []string, one, several string) []report.GatePart {
	const most = 4
	var text string
	switch n := len(names); {
	case n == 0:
		return nil
	case n == 1:
		text = names[0] + " " + one
	case n <= most:
		text = strings.Join(names[:n-1], ", ") + " and " + names[n-1] + " " + several
	default:
		text = fmt.Sprintf("%s and %d more %s", strings.Join(names[:most-1], ", "), n-most+1, several)
	}
	return []report.GatePart{{Outcome: &report.GateOutcome{Kind: report.Passed, Reason: text}}}
}

// leaveOut separates the families that serve a problem that is asked for from the others, about which a part of the
// report says so. Where no family serves one, it leaves none out: to check nothing is an error.
func (cfg *gateConfig) leaveOut(families []*kernels.Family) (asked []*kernels.Family, others []report.GatePart, err error) {
	var left []string
	for _, f := range families {
		t := cfg.targetFor([]*kernels.Family{f})
		problems, err := t.Problems("smoke")
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(problems, func(p kernels.Problem) bool { return f.CheckServes(p) == nil }) {
			asked = append(asked, f)
			continue
		}
		left = append(left, f.Name)
	}
	if len(asked) == 0 {
		return families, nil, nil
	}
	return asked, aboutSome(left, "is left out, as it serves none of the problems asked for",
		"are left out, as they serve none of the problems asked for"), nil
}

// targetFor returns the flags' target for some families: with their ops and passes, unless the flags
// name some.
func (cfg *gateConfig) targetFor(families []*kernels.Family) targetFlags {
	t := cfg.targetFlags
	t.takeOpsOf(families)
	return t
}

// compareFamily compares a family with the base's in a live comparison. It measures problems that stay
// undecided, or whose device was not fit, once more.
func (cfg *gateConfig) compareFamily(e *env, f *kernels.Family) (part report.GatePart, err error) {
	c := &compareConfig{targetFlags: cfg.targetFor([]*kernels.Family{f}), live: cfg.live}
	c.operands = []string{f.Name, f.Name}
	run, nothing, err := fightLive(e, c)
	if err == nil && run != nil {
		if o := run.Outcome(); o.Kind == report.Undecided || o.Kind == report.Unfit {
			e.Notef("%s; measuring once more", o.Reason)
			if run, err = cfg.remeasure(e, f, run); err == nil && run == nil {
				return part, fmt.Errorf("%s has no cells", f.Name)
			}
		}
	}
	switch {
	case err != nil:
		return part, err
	case run == nil:
		return report.GatePart{Family: f.Name, Outcome: &report.GateOutcome{Kind: report.Passed, Reason: nothing}}, nil
	}
	o := run.Outcome()
	for _, d := range run.Duels {
		if o.Next == "" && d.Status == kernels.StatusWrong {
			o.Next = "repeat: " + c.repeatCommand(d.B, d.Problem, &verify.CheckRequest{Seed: c.seed, Repeats: defaultRepeats})
		}
	}
	return report.GatePart{Family: f.Name, Outcome: o, Comparison: run.Comparison()}, nil
}

// remeasure measures those problems of a run again that have no verdict, with another seed.
func (cfg *gateConfig) remeasure(e *env, f *kernels.Family, run *report.LiveFile) (*report.LiveFile, error) {
	c := &compareConfig{targetFlags: cfg.targetFor([]*kernels.Family{f}), live: cfg.live}
	c.operands = []string{f.Name, f.Name}
	c.seed++
	if run.Forget(); len(run.Duels) > 0 {
		if err := run.Write(durable.Place{Name: e.Saved}); err != nil {
			return nil, err
		}
		c.live.resume, c.live.out = e.Saved, ""
	}
	run, _, err := fightLive(e, c)
	return run, err
}

// checkFamilies checks the answers of families against float64, without timing.
func (cfg *gateConfig) checkFamilies(e *env, families []*kernels.Family) (part report.GatePart, err error) {
	t := cfg.targetFor(families)
	var names []string
	for _, f := range families {
		names = append(names, f.Name)
	}
	refs, err := e.ParseAll(names...)
	if err != nil {
		return part, err
	}
	t.Untimed = true
	const replayed = false
	if err := t.open(e, replayed, refs...); err != nil {
		return part, err
	}
	defer lab.Close(t.devices)
	c := &verify.CheckRequest{All: cfg.all, Seed: t.seed, Repeats: defaultRepeats, Typed: t.TypedShapes()}
	v, err := e.verify(&t, refs, c)
	if err != nil {
		return part, err
	}
	part = report.GatePart{Family: cfg.kernels, Outcome: &report.GateOutcome{Kind: report.Passed, Reason: v.Counts()}}
	if len(v.Findings) > 0 {
		part.Checks = report.VerifyTable(c.Repeats, v.Findings)
	}
	notRun := v.NotRun()
	switch o := part.Outcome; {
	case v.Failed > 0:
		o.Kind, o.Reason, o.Lines = report.Wrong, fmt.Sprintf("%d of %d checks failed", v.Failed, v.Checks()), v.Failures()
		failed := v.FirstFailed()
		o.Next = "repeat: " + t.repeatCommand(failed.FirstFailed, failed.Problem, c)
	case notRun != nil:
		o.Kind, o.Reason = report.Undecided, notRun.Error()
	case v.Checks() == 0:
		o.Kind, o.Reason = report.Broken, "nothing was checked: no family has a base config for these problems"
	}
	return part, nil
}

// writeReports prints the result, and writes the report, the pages, the step's summary, the job's
// outputs and the comment on the pull request.
func (cfg *gateConfig) writeReports(e *env, o *report.GateOutcome, parts []report.GatePart) error {
	kind := "gate"
	if cfg.onCPU {
		kind = "check"
	}
	about := fmt.Sprintf("`%s`", filepath.ToSlash(filepath.Clean(cfg.kernels)))
	against := cfg.baseCommit != "" && !cfg.onCPU
	if against {
		about += fmt.Sprintf(" against %s (%s)", cfg.base, cfg.baseCommit)
	}
	if about += ". "; against {
		about += "A is the base's kernel, B the change's. "
	}
	about += "normbench " + version() + "."
	for _, p := range parts {
		if p.Comparison == nil && p.Checks == nil {
			continue
		}
		var err error
		if p.Comparison != nil {
			err = report.Render(e.out, p.Comparison, report.FormatText)
		} else {
			err = report.RenderTable(e.out, p.Checks, report.FormatText)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(e.out)
	}
	if _, err := fmt.Fprintln(e.out, o); err != nil {
		return err
	}
	whole, err := report.GateText("", about, o, parts, 1<<30)
	if err != nil {
		return err
	}
	place := cfg.place()
	if err := record.CheckFolder(cfg.live.out, "."); err != nil { // which is not there where nothing was judged
		return err
	}
	if err := e.Write(place, []byte(whole)); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Comparison != nil {
			file := filepath.Join(cfg.live.out, "gate-"+kernels.Slug(p.Family)+".html")
			if err := e.writePage(file, func() *report.Page { return p.Comparison.Page("") }); err != nil {
				return err
			}
		}
	}
	if err := cfg.addSummary(about, o, parts); err != nil {
		return err
	}
	if err := addLines(os.Getenv("GITHUB_OUTPUT"), fmt.Sprintf(
		"verdict=%s\nreason=%s\nfaster=%d\nslower=%d\nsame=%d\ninconclusive=%d\nreport=%s\n",
		strings.ToLower(o.Kind.Word()), console.OneLine(o.Reason), o.Faster, o.VerdictCounts.Slower, o.Same, o.Inconclusive,
		place)); err != nil {
		return err
	}
	return cfg.sendComment(e, kind+" "+filepath.ToSlash(filepath.Clean(cfg.kernels)), about, o, parts)
}

// place returns where the report is written.
func (cfg *gateConfig) place() durable.Place {
	return durable.Place{Root: cfg.live.out, Name: "gate.md"}
}

// addSummary appends the report to the step's summary.
func (cfg *gateConfig) addSummary(about string, o *report.GateOutcome, parts []report.GatePart) error {
	text, err := report.GateText("", about, o, parts, summaryLimit)
	if err != nil {
		return err
	}
	return addLines(cfg.summary, text)
}

// sendComment writes the report as the comment on the pull request. With --comment auto it is no error
// that the host refuses it.
func (cfg *gateConfig) sendComment(e *env, name, about string, o *report.GateOutcome, parts []report.GatePart) error {
	if cfg.pull == nil || cfg.comment == "auto" && cfg.pull.CanComment() != nil {
		return nil
	}
	text, err := report.GateText(pullrequest.Mark(name), about, o, parts, cfg.pull.Limit)
	if err == nil {
		err = cfg.pull.Comment(e.Ctx, name, text)
	}
	switch {
	case err == nil:
		e.Notef("commented on the pull request")
	case cfg.comment == "auto":
		e.Notef("no comment: %v", err)
		err = nil
	}
	return err
}

// addLines appends text to a file that the CI host reads; no file, nothing to do.
func addLines(file, text string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return hint.Errorf(durable.Help(err), "%s: %w", file, durable.Cause(err))
	}
	_, err = f.WriteString(text)
	return cmp.Or(err, f.Close())
}
