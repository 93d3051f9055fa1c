package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/report"
	"normbench/sweep/shapes"
)

// maxColumns is more than the widths of any few models: the exported function goes through
// them one by one.
const maxColumns = 256

func (e *env) ruleCommand() *cli.Command {
	return &cli.Command{
		Name:      "rule",
		Usage:     "print the launch rules for the widths of a model: a table by rows, or code to paste",
		ArgsUsage: "REF",
		Description: "REF is base (this program's rules for the device) or tuned:FILE (a rules file). The answer keeps only the rules for\n" +
			"the given columns, ops, passes and options, and fills in the values that depend on columns. The exported function\n" +
			"takes the same arguments as that of `normbench tune`, but answers for these columns only. An export as json or\n" +
			"yaml is a rules file, for tuned:FILE, explain and lint.",
		Flags: join([]cli.Flag{
			&cli.StringFlag{Name: "columns", Usage: "the widths: `N`, or several with commas"},
		}, classFlags, optionFlags, []cli.Flag{
			&cli.StringFlag{Name: "device", Usage: "launch on " + knownDevices, Value: "h200"},
			&cli.StringFlag{Name: "out", Usage: "write the rules to `FILE`; .yaml or .yml is YAML, else the format of --export"},
			&cli.StringFlag{Name: "export", Usage: strings.Join(launchrule.Formats, ", ") + ": format of the rules; without --out they go to standard output instead of the table", DefaultText: "json"},
			&cli.BoolFlag{Name: "force", Usage: "overwrite FILE, whatever it holds"},
			kernelsFlag,
			formatFlag,
		}),
		Action: e.rule,
	}
}

func (e *env) rule(c *cli.Context) error {
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
	set, err := e.rulesOf(ops[0], d)
	if err != nil {
		return err
	}
	program := families.Over(e.registry, set)
	set = set.For(ps, func(p kernels.Problem) (kernels.Variant, error) { return program.Base(p, d) })
	if len(set.Lists) == 0 {
		return hint.Errorf("`normbench explain SHAPE` says what the default launches", "no rule of %s is for any of these problems", ops[0])
	}
	if out == "" && !c.IsSet("export") {
		return report.RenderTable(e.stdout, ruleTable(set, ops[0]), c.String("format"))
	}
	if export == "json" || export == "yaml" { // a file of this device; code asks for the number of SMs
		set = set.Reached()
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

// ruleProblems are the problems of the flags, of one row each.
func ruleProblems(c *cli.Context) ([]kernels.Problem, error) {
	const help = "use whole numbers with commas, such as --columns 4096,5120"
	if !c.IsSet("columns") {
		return nil, hint.Errorf("`normbench rule base --columns 4096,5120`, for one", "rule needs --columns")
	}
	var list []shapes.Shape
	for _, text := range strings.Split(c.String("columns"), ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, hint.Errorf(help, "malformed number %q in --columns", text)
		}
		// The other fields of the problem do not matter for the check of its shape.
		p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 1, N: n, DType: kernels.BF16, Weight: kernels.BF16}
		if err := p.Validate(); err != nil {
			return nil, hint.Errorf("use --columns from 1 to 2147483648", "%w", err)
		}
		if s := (shapes.Shape{M: 1, N: n}); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if len(list) > maxColumns {
		return nil, hint.Errorf("take the widths of a few models at a time", "--columns has %d numbers, more than %d", len(list), maxColumns)
	}
	return crossed(c, list, "")
}

// rulesOf are the rules that a REF names.
func (e *env) rulesOf(text string, d kernels.DeviceInfo) (*launchrule.Set, error) {
	if text == "base" {
		step := families.Step(d)
		if step.Set == nil {
			return nil, hint.Errorf("`normbench list devices` says which devices have rules", "%s launches by %s: there is no rule to show", d.ID, step)
		}
		if step.Near != launchrule.Own {
			e.notef("%s launches by %s", d.ID, step)
		}
		return step.Set.Scaled(d), nil
	}
	path, ok := strings.CutPrefix(text, "tuned:")
	if !ok {
		return nil, hint.Errorf("use base or tuned:FILE; `normbench compare` takes the others too", "%s has no rules", text)
	}
	t, err := readTunedFile(path)
	if err == nil {
		err = t.check(e.registry)
	}
	switch {
	case err != nil:
		return nil, err
	case t.rules == nil:
		return nil, hint.Errorf("`normbench tune RECORDS --out FILE` fits rules", "%s is a table, and has no rules", path)
	case launchrule.Ladder([]*launchrule.Set{t.rules}, &d).Set == nil:
		return nil, noStep(text, t.rules, d)
	case t.rules.Device.ID != d.ID:
		e.notef("%s is of %s, not of %s", text, t.rules.Device.ID, d.ID)
	}
	return t.rules.Scaled(d), nil
}

// ruleTable is a row for each rule.
func ruleTable(set *launchrule.Set, ref string) *report.Table {
	t := newTable(fmt.Sprintf("launch rules of %s for %s", ref, set.Device.Name), "problem", ">N", "where", "family", "label", ">list", "from")
	widths, lists, origin := map[int64]bool{}, map[string]int{}, false
	for i := range set.Lists {
		l := &set.Lists[i]
		class := l.Class.String()
		lists[class]++
		for j := range l.Rules {
			r := &l.Rules[j]
			box := r.Box
			box.NOver, box.NMax = 0, 0
			from := cmp.Or(r.Evidence.Device, l.Origin)
			widths[r.NMax], origin = true, origin || from != ""
			t.Rows = append(t.Rows, []string{class, fmt.Sprint(r.NMax), box.String(), cmp.Or(r.Family, r.Then), r.Config.String(), strconv.Itoa(lists[class]), from})
		}
	}
	t.Data = &report.Table{Header: t.Header, Align: t.Align, Rows: t.Rows}
	order, of := []int{0, 1, 5, 2, 3, 4}, func(row []string) string { return row[0] }
	if !slices.ContainsFunc(set.Lists, func(l launchrule.List) bool { return lists[l.Class.String()] > 1 }) {
		order = slices.Delete(order, 2, 3)
	}
	if origin {
		order = append(order, 6)
		t.Drop = []string{"from"}
	}
	t.Group = &report.Group{Hide: []string{"problem"}}
	if len(widths) == 1 {
		t.Group.Hide, of = []string{"problem", "N"}, func(row []string) string { return row[0] + ", N = " + row[1] }
	}
	t.Group.Of = func(row []string) (string, string) { return of(row), row[0] }
	t = t.Ordered(order)
	t.Notes = []string{"the first rule that fits answers; next: the following list does; base: the default does, in several configs; always: fits every problem that the rules above left"}
	return t
}
