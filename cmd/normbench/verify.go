package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/reference"
	"normbench/kernels/replay"
	"normbench/report"
	"normbench/sweep"
)

func (e *env) verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check variants against the float64 reference and for reproducible bits; no timing",
		ArgsUsage: "[REF...]",
		Description: refHelp + ".\nWithout a REF, verify checks every family in its base config, or with --all-configs in every config.\n" +
			"The inputs come from a fresh seed, which is printed.",
		Flags: join(problemFlags, deviceFlags, []cli.Flag{
			seedFlag, formatFlag, kernelsFlag, includeFlag,
			&cli.IntFlag{Name: "repeats", Usage: "runs of each variant; their bits are compared", Value: 3},
			&cli.BoolFlag{Name: "all-configs", Usage: "check every config of each family's space"},
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
	if all && named {
		return hint.Errorf("leave one of them out", "--all-configs and REFs exclude each other")
	}
	if err := checkProblems(c); err != nil {
		return err
	}
	var refs []ref
	if named {
		var err error
		if refs, err = e.parseRefs(operands(c)); err != nil {
			return err
		}
	}
	devices, err := e.devicesFor(c, refs...)
	if err != nil {
		return err
	}
	defer closeAll(devices)
	dev := devices[0]
	info := dev.Info()
	if _, replayed := dev.(*replay.Device); replayed {
		return hint.Errorf("use --device cpu or --device cuda", "verify runs kernels, and %s has recorded times only", c.String("device"))
	}
	refs, unrun, err := e.hostCheck(c, info, refs)
	if err != nil {
		return err
	}
	if named && len(refs) == 0 {
		return notRun(unrun)
	}
	var tasks []sweep.Task
	switch {
	case all:
		ps, err := problems(c, info)
		if err != nil {
			return err
		}
		if tasks, err = sweep.Grid(e.ctx, e.registry, ps, info, nil, nil); err != nil {
			return err
		}
	case named:
		if err := e.preparePeers(c, dev, refs); err != nil {
			return err
		}
		if tasks, err = e.tasks(c, refs, info, nil); err != nil {
			return err
		}
	default:
		if tasks, err = e.baseTasks(c, info); err != nil {
			return err
		}
	}
	if !named {
		if err := e.checkLaidOut(tasks, unrun, info); err != nil {
			return err
		}
	}
	seed := seed(c)
	if c.Bool("hostile") {
		seed |= reference.Hostile
	}
	e.notef("%s, inputs from --seed %d", info.Name, seed)
	t, bad, done, err := e.check(dev, tasks, seed, c.Int("repeats"))
	stopped := err != nil && e.ctx.Err() != nil
	if err == nil || done > 0 { // a run that ended early still has its rows
		err = cmp.Or(err, report.RenderTable(e.stdout, t, c.String("format")))
	}
	switch {
	case stopped:
		total := 0
		for _, t := range tasks {
			total += len(t.Variants)
		}
		return interrupted("%d of %d checks done, %d of them failed", done, total, bad)
	case err != nil:
		return err
	case bad > 0:
		return &coded{exitGate, hint.Errorf(fmt.Sprintf("`normbench verify FAMILY@LABEL --seed %d`, with the same problem, repeats one of them", seed), "%d of %d checks failed", bad, done)}
	}
	if done == 0 {
		return hint.Errorf("name a REF to see why its config is refused", "nothing was checked: no family has a valid base config for these problems")
	}
	e.notef("%d checks passed", done)
	return notRun(unrun)
}

// baseTasks is every serving family in its base config, where it has a valid
// one.
func (e *env) baseTasks(c *cli.Context, info kernels.DeviceInfo) ([]sweep.Task, error) {
	ps, err := problems(c, info)
	if err != nil {
		return nil, err
	}
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

func verifyTable(repeats int) *report.Table {
	t := newTable(fmt.Sprintf("worst error over tolerance (at most 1 passes), bits compared over %d runs", repeats),
		"problem", "family", ">configs", "output", ">error/tol", ">rel L2", ">differing", "stated", "verdict")
	t.Group, t.Drop = report.ByProblem, []string{"stated", "rel L2", "configs"}
	t.Data = verifyData()
	return t
}

// check runs the checks of all tasks and makes their table, one row per output
// of a variant in a small run, one per family and problem in a large one. Beside
// an error it returns what was found before.
func (e *env) check(dev kernels.Device, tasks []sweep.Task, seed uint64, repeats int) (t *report.Table, bad, done int, err error) {
	t = verifyTable(repeats)
	for _, task := range tasks {
		found, err := e.checkTask(dev, task, seed, repeats)
		for _, k := range found {
			bad += k.failed
			done += k.configs
			t.Rows = append(t.Rows, k.rows(task.Problem)...)
			k.data(t.Data, task.Problem)
		}
		if err != nil {
			return t, bad, done, err
		}
	}
	return t, bad, done, nil
}

// checkTask is check for one task: the verdicts of each family.
func (e *env) checkTask(dev kernels.Device, task sweep.Task, seed uint64, repeats int) (found []*verdicts, err error) {
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
	dev.Prefetch(task.Problem, task.Variants)
	byFamily := map[string]*verdicts{}
	for _, v := range task.Variants {
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
		k := byFamily[v.Family]
		if k == nil {
			family, err := e.registry.Lookup(v.Family)
			if err != nil {
				return found, err
			}
			k = &verdicts{family: family, outputs: map[string]kernels.OutputCheck{}, digests: map[uint64]kernels.Config{}}
			byFamily[v.Family] = k
			found = append(found, k)
		}
		if f == nil {
			k.add(v, &got)
			continue
		}
		k.fail(v, f.Error())
	}
	return found, nil
}

// verdicts collects what was found of one family on one problem.
type verdicts struct {
	family          *kernels.Family
	configs, failed int
	order           []string
	outputs         map[string]kernels.OutputCheck // the worst of each
	differing       int64
	digests         map[uint64]kernels.Config // one config for each result that came out
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
	case k.breaksBitwise(v, c.Digest):
		k.fail(v, "the bits are not those of another config, but the family is bitwise")
	default:
		k.configs++
	}
}

// breaksBitwise says whether a family that is bitwise has come to two results.
func (k *verdicts) breaksBitwise(v kernels.Variant, digest uint64) bool {
	k.digests[digest] = v.Config
	return k.family.Bits == kernels.Bitwise && len(k.digests) > 1
}

// stated is the family's determinism.
func (k *verdicts) stated() string {
	if k.family.Unordered != nil {
		return k.family.Bits.String() + ", some configs not"
	}
	return k.family.Bits.String()
}

func (k *verdicts) rows(p kernels.Problem) [][]string {
	verdict := "ok"
	if k.failed > 0 {
		verdict = fmt.Sprintf("%d FAILED, first %s", k.failed, k.reasons[0])
	}
	rows := [][]string{{p.String(), k.family.Name, fmt.Sprint(k.configs), "", "", "", fmt.Sprint(k.differing), k.stated(), verdict}}
	for i, name := range k.order {
		o := k.outputs[name]
		cells := []string{name, fmt.Sprintf("%.2f", o.MaxErr), fmt.Sprintf("%.1e", o.RelL2)}
		if i == 0 {
			copy(rows[0][3:], cells)
			continue
		}
		rows = append(rows, append(append([]string{"", "", ""}, cells...), "", "", ""))
	}
	return rows
}
