package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/presets"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune/rules"
)

// maxColumns is more than the widths of any few models: the exported function goes through
// them one by one.
const maxColumns = 256

func (e *env) ruleCommand() *cli.Command {
	return &cli.Command{
		Name:      "rule",
		Usage:     "what a REF launches for the widths of a model, as a few ranges of rows: a table, or code to paste",
		ArgsUsage: "REF",
		Description: "REF is base, FAMILY, FAMILY@LABEL, preset:NAME or tuned:FILE; where FILE has no answer it is the base.\n" +
			"For each number of columns it is asked at thousands of numbers of rows, until a few ranges answer as it does.\n" +
			"The exported function has the arguments of that of `normbench tune`, and answers for these columns alone.\n" +
			"What it exports as json or yaml is a rules file, for tuned:FILE, explain and lint.",
		Flags: join([]cli.Flag{
			&cli.StringFlag{Name: "columns", Usage: "the widths, `N` or several with commas"},
			&cli.Int64Flag{Name: "rows", Usage: "the most rows", Value: 1 << 20},
		}, classFlags, optionFlags, []cli.Flag{
			&cli.StringFlag{Name: "device", Usage: "h200 or cpu, to launch on", Value: "h200"},
			&cli.StringFlag{Name: "out", Usage: "write the ranges to `FILE`; .yaml or .yml is YAML, else the format of --export"},
			&cli.StringFlag{Name: "export", Usage: strings.Join(rules.Formats, ", ") + ": as what; without --out, to standard output instead of the table", DefaultText: "json"},
			&cli.BoolFlag{Name: "force", Usage: "write over whatever FILE holds"},
			formatFlag,
		}),
		Action: e.rule,
	}
}

func (e *env) rule(c *cli.Context) error {
	if err := report.CheckFormat(c.String("format")); err != nil {
		return err
	}
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench rule base --columns 4096,5120`, for one", "rule takes one REF, got %d", len(ops))
	}
	out := c.String("out")
	export, err := exportFormat(c.String("export"), out)
	if err != nil {
		return err
	}
	ps, err := ruleProblems(c)
	if err != nil {
		return err
	}
	d, err := e.knownDevice(c.String("device"))
	if err != nil {
		return err
	}
	ref, err := e.launchRef(ops[0], d)
	if err != nil {
		return err
	}
	done, finish := e.counted(len(ps), "rule: asked of each width, op and pass")
	set, err := rules.Launches(ref, ps, d, version(), done)
	finish()
	if err != nil {
		return err
	}
	if err := e.addSources(set); err != nil {
		return err
	}
	e.noteWithout(set, ps)
	if out == "" && !c.IsSet("export") {
		return report.RenderTable(e.stdout, launchTable(set, c.Int64("rows")), c.String("format"))
	}
	text, err := set.Export(export)
	if err != nil {
		return err
	}
	if out == "" {
		_, err = e.stdout.Write(text)
		return err
	}
	if refusal := overwrites(set, out); refusal != nil && !c.Bool("force") {
		return refusal
	}
	return e.writeFile(out, text)
}

// ruleProblems are the problems of the flags, each with the most rows.
func ruleProblems(c *cli.Context) ([]kernels.Problem, error) {
	const help = "use whole numbers with commas, such as --columns 4096,5120"
	if !c.IsSet("columns") {
		return nil, hint.Errorf("`normbench rule base --columns 4096,5120`, for one", "rule needs --columns")
	}
	rows := c.Int64("rows")
	var list []shapes.Shape
	for _, text := range strings.Split(c.String("columns"), ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, hint.Errorf(help, "malformed number %q in --columns", text)
		}
		// What else a problem is decides nothing about its shape.
		p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: rows, N: n, DType: kernels.BF16, Weight: kernels.BF16}
		if err := p.Validate(); err != nil {
			return nil, hint.Errorf("use --columns and --rows from 1 to 2147483648, with at most 2^48 elements in all", "%w", err)
		}
		if s := (shapes.Shape{M: rows, N: n}); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if len(list) > maxColumns {
		return nil, hint.Errorf("take the widths of a few models at a time", "--columns has %d numbers, more than %d", len(list), maxColumns)
	}
	return crossed(c, list)
}

// launchRef is a REF by what it launches on a device.
func (e *env) launchRef(text string, d kernels.DeviceInfo) (rules.Ref, error) {
	judge := rules.Judge{Registry: e.registry, Device: d}
	base := func(p kernels.Problem) (kernels.Variant, bool) {
		v, err := e.registry.Base(p, d)
		return v, err == nil && judge.Accepts(p, v)
	}
	r := rules.Ref{Name: text}
	if text == "base" {
		r.Pick = base
		return r, nil
	}
	if strings.HasPrefix(text, "peer:") {
		return r, hint.Errorf("use base, FAMILY, FAMILY@LABEL, preset:NAME or tuned:FILE", "%s launches kernels of its own, not ours", text)
	}
	if strings.HasPrefix(text, "near:") {
		return r, hint.Errorf("`normbench tune RECORDS` makes rules of records", "%s names several variants to be timed, and a rule names one", text)
	}
	if name, ok := strings.CutPrefix(text, "preset:"); ok {
		preset, err := presets.Lookup(name)
		if err != nil {
			return r, err
		}
		if preset.Times {
			return r, hint.Errorf("use a preset that picks without: `normbench list presets` says what each does", "%s takes the fastest of several that it times", text)
		}
		r.Pick = func(p kernels.Problem) (kernels.Variant, bool) {
			vs, err := preset.Variants(e.registry, p, d)
			if err != nil {
				return kernels.Variant{}, false
			}
			return vs[0], true
		}
		return r, nil
	}
	if path, ok := strings.CutPrefix(text, "tuned:"); ok {
		t, err := readTunedFile(path)
		if err != nil {
			return r, err
		}
		if id := t.device().ID; id != d.ID {
			e.notef("%s is of %s, not of %s", text, id, d.ID)
		}
		r.Changes = t.changes
		r.Pick = func(p kernels.Problem) (kernels.Variant, bool) {
			v, _, _ := t.answer(p)
			if v.Family == "" {
				return base(p)
			}
			return e.completed(p, v, d)
		}
		return r, nil
	}
	f, config, err := e.familyRef(text)
	if err != nil {
		return r, err
	}
	r.Pick = func(p kernels.Problem) (kernels.Variant, bool) {
		return e.completed(p, kernels.Variant{Family: f.Name, Config: config}, d)
	}
	return r, nil
}

// completed is a variant with all knobs, if it can run: Resolve without the plan, which
// takes longer than the rest.
func (e *env) completed(p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo) (kernels.Variant, bool) {
	f, err := e.registry.Lookup(v.Family)
	if err != nil || f.CheckServes(p) != nil {
		return v, false
	}
	v.Config, err = f.Complete(p, v.Config, d)
	return v, err == nil
}

// changes are the rows from which on a file's answer may be another for problems like p.
func (t tunedFile) changes(p kernels.Problem) []int64 {
	if t.rules != nil {
		return t.rules.Changes(p)
	}
	var ms []int64
	for _, x := range t.table.Entries {
		q := x.Problem
		if q.M = p.M; q == p {
			ms = append(ms, x.Problem.M)
		}
	}
	return ms
}

// addSources adds the source hashes of a set's families.
func (e *env) addSources(set *rules.Set) error {
	id := families.NewIdentity(e.registry, set.Device.Kind)
	for _, l := range set.Classes {
		for _, r := range l.Rules {
			if _, ok := set.Sources[r.Family]; ok {
				continue
			}
			f, err := e.registry.Lookup(r.Family)
			if err != nil {
				return err
			}
			if set.Sources[r.Family], err = id.Source(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteWithout names what was asked about and has no launch at all.
func (e *env) noteWithout(set *rules.Set, ps []kernels.Problem) {
	var without []string
	for _, p := range ps {
		if slices.Contains(set.UpTo, p) {
			continue
		}
		text := p.Shapeless()
		if slices.ContainsFunc(set.UpTo, func(q kernels.Problem) bool { return q.Shapeless() == text }) {
			text += fmt.Sprintf(" of %d columns", p.N)
		}
		if !slices.Contains(without, text) {
			without = append(without, text)
		}
	}
	if len(without) > 0 {
		e.notef("%s launches nothing for %s", set.Of, strings.Join(without, ", "))
	}
}

// launchTable is a row for each range.
func launchTable(set *rules.Set, rows int64) *report.Table {
	t := newTable(fmt.Sprintf("what %s launches on %s, up to %d rows", set.Of, set.Device.Name, rows), "problem", ">N", "rows", "condition", "family", "label")
	shared := false
	for _, p := range set.UpTo {
		var above []rules.Box
		l := set.Classes[slices.IndexFunc(set.Classes, func(l rules.List) bool { return l.Class == rules.ClassOf(p) })]
		for _, r := range l.Rules {
			if r.NMax != p.N {
				continue
			}
			condition := ""
			if r.RowsMultiple > 0 {
				condition = fmt.Sprintf("multiple of %d", r.RowsMultiple)
			}
			t.Rows = append(t.Rows, []string{p.Shapeless(), fmt.Sprint(p.N), rowsText(r.Box, p.M), condition, r.Family, r.Config.String()})
			shared = shared || slices.ContainsFunc(above, func(b rules.Box) bool { return max(b.RowsOver, r.RowsOver) < min(b.RowsMax, r.RowsMax) })
			above = append(above, r.Box)
		}
	}
	if shared {
		t.Notes = append(t.Notes, "of ranges that share rows the first answers")
	}
	if gaps := set.Gaps(); len(gaps) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("for the other rows %s has no launch", set.Of))
	}
	return t
}

// rowsText is a box's rows: 1, 2 to 63, from 7681.
func rowsText(b rules.Box, most int64) string {
	switch from := b.RowsOver + 1; {
	case from == b.RowsMax:
		return fmt.Sprint(from)
	case b.RowsMax == most:
		return fmt.Sprintf("from %d", from)
	default:
		return fmt.Sprintf("%d to %d", from, b.RowsMax)
	}
}
