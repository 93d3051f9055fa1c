package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune"
)

func (e *env) explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "show what the default, a tuned table or a rules file picks for a shape, and why",
		ArgsUsage: "SHAPE",
		Description: "SHAPE is MxN, for every op and pass of the file, or a problem such as rmsnorm/bwd/4096x8192/bf16. The answer says how\n" +
			"good the match is: exact (an entry of its own), rule, or default. It says what runs, what else could, and which\n" +
			"step of the ladder answers: rules of the device, of its architecture, of an older one, or the analytic base.\n" +
			"An entry of another device's table is no match. csv and json have the launches as data: grid, block, shared memory,\n" +
			"cluster, defines, and arguments by name in the kernel's order.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tuned", Usage: "ask this `FILE` of sweep, tune or learn instead of the program's own rules"},
			&cli.StringFlag{Name: "device", Usage: "launch on " + knownDevices, Value: "h200"},
			kernelsFlag,
			formatFlag,
		},
		Action: e.explain,
	}
}

// knownDevices is the help of flags that take one.
const knownDevices = "`DEVICE`: cpu, h200, another name that list devices prints, or a .json file of a card's figures"

// knownDevice is one that commands without a device can reason about.
func (e *env) knownDevice(name string) (kernels.DeviceInfo, error) {
	if name == "cpu" {
		d, err := e.cpu()
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		return d.Info(), nil
	}
	if filepath.Ext(name) == ".json" {
		return launchrule.ReadDevice(name)
	}
	keys := []string{"cpu"}
	key := strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(name))
	for _, k := range launchrule.KnownDevices() {
		if k.Key == key {
			return k.DeviceInfo, nil
		}
		keys = append(keys, k.Key)
	}
	return kernels.DeviceInfo{}, hint.Errorf("use "+strings.Join(keys, ", ")+", or a .json file of another card's figures", "unknown device %q", name)
}

func (e *env) explain(c *cli.Context) error {
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench explain 4096x8192`, for one", "explain takes one shape or problem, got %d", len(ops))
	}
	d, err := e.knownDevice(c.String("device"))
	if err != nil {
		return err
	}
	step := families.Step(d)
	f, name := tunedFile{rules: step.Set}, c.String("tuned")
	if name != "" {
		if f, err = readTunedFile(name); err == nil {
			err = f.check(e.registry)
		}
		if err != nil {
			return err
		}
		if f.rules != nil {
			if step = launchrule.Ladder([]*launchrule.Set{f.rules}, &d); step.Set == nil {
				return noStep(name, f.rules, d)
			}
		}
		if d.ID != f.device().ID {
			e.notef("%s is of %s, not of %s", name, f.device().ID, d.ID)
		}
	}
	if step.Set != nil && f.table == nil {
		f.rules = step.Set.Scaled(d) // whose evidence says where it is from
	}
	ps, err := f.problems(ops[0])
	if err != nil {
		return err
	}
	if len(ps) == 0 {
		return hint.Errorf("`normbench lint "+name+"` says more", "%s has no entry, and so nothing to explain", name)
	}
	t := newTable("", "problem", "match", "why", "variant", "launches", "else", "ladder")
	t.Data = newTable("", "problem", "match", "why", "variant", "launches", "scratch", "refused", "else", "ladder")
	t.Data.Align[4], t.Data.Align[5] = report.JSON, report.JSON
	for _, p := range ps {
		if err := f.refused(e.registry, p, d); err != nil && name != "" { // the program's own are linted
			return err
		}
		v, match, why := f.answer(e.registry, p, d)
		if v.Family == "" {
			if v, err = e.registry.Base(p, d); err != nil {
				return err
			}
		}
		if _, err := e.registry.Lookup(v.Family); err != nil {
			return hint.Errorf("`normbench lint "+name+"` lists all that is wrong with it", "%s: %s: %w", name, p, err)
		}
		launches, scratch, data, refused := "", "", "", ""
		if _, full, plan, err := e.registry.Resolve(p, v, d); err != nil && match == "exact" {
			return hint.Errorf("sweep the shape again, or delete the entry; `normbench lint "+name+"` lists all that is wrong", "%s: %s: %s: %w", name, p, v, err)
		} else if err != nil {
			refused = oneLine(err.Error())
			launches = "refused: " + refused
		} else {
			v, launches = full, strings.TrimSpace(strings.ReplaceAll(plan.String(), "\n", "; "))
			data, scratch = value(plan.Launches), value(plan.Scratch)
		}
		ladder := step.String()
		if f.table != nil {
			ladder = families.Step(d).String()
		}
		instead := f.instead(e.registry, p, d)
		t.Rows = append(t.Rows, []string{p.String(), match, why, v.String(), launches, instead, ladder})
		t.Data.Rows = append(t.Data.Rows, []string{p.String(), match, why, v.String(), data, scratch, refused, instead, ladder})
	}
	if c.String("format") != "text" {
		return report.RenderTable(e.stdout, t, c.String("format"))
	}
	// A plan is too wide for a column.
	for i, row := range t.Rows {
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		fmt.Fprintln(e.stdout, row[0])
		for j, name := range t.Header[1:] {
			if row[j+1] == "" {
				continue
			}
			for k, line := range e.wrap(row[j+1], 12) {
				if k > 0 {
					name = ""
				}
				fmt.Fprintf(e.stdout, "  %-9s %s\n", name, line)
			}
		}
	}
	return nil
}

// value is a list as JSON.
func value[T any](list []T) string {
	if len(list) == 0 {
		return "[]"
	}
	b, err := json.Marshal(list)
	if err != nil {
		return "" // NaN, which no plan has
	}
	return string(b)
}

// problems are those that a shape means: itself, or one of each class that the
// file knows.
func (t tunedFile) problems(text string) ([]kernels.Problem, error) {
	if strings.Contains(text, "/") {
		p, err := kernels.ParseProblem(text)
		return []kernels.Problem{p}, err
	}
	list, err := shapes.ParseList(text)
	if err != nil {
		return nil, err
	}
	var ps []kernels.Problem
	seen := map[kernels.Problem]bool{}
	add := func(p kernels.Problem) {
		p.M, p.N = list[0].M, list[0].N
		if !seen[p] && p.Validate() == nil {
			seen[p] = true
			ps = append(ps, p)
		}
	}
	if t.table == nil && (t.rules == nil || t.rules.Whole) { // any problem: the plain ones
		for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
			for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
				add(kernels.Problem{Op: op, Pass: pass, DType: kernels.BF16, Weight: kernels.BF16, Bias: op == kernels.LayerNorm})
			}
		}
	} else if t.rules != nil {
		for _, l := range t.rules.Lists {
			add(l.Problem(1, 1))
		}
	} else {
		for _, x := range t.table.Entries {
			add(x.Problem)
		}
	}
	return ps, nil
}

// entryTimes are those of an entry and of the default, with both estimates of how they compare:
// by medians, as tables of records have it, and by rounds, which tell more where time drifts.
func entryTimes(x *tune.Entry) string {
	text := report.Micros(x.MedianUS) + " us"
	b := x.Base
	switch {
	case b == nil:
		return text
	case x.Variant() == (kernels.Variant{Family: b.Family, Config: b.Config}):
		return text + ", and the default"
	}
	text += fmt.Sprintf(", the default %s us in the same sweep: %s by medians", report.Micros(b.MedianUS), report.Ratio(b.MedianUS/x.MedianUS))
	if len(x.SpeedupCI) == 2 {
		text += fmt.Sprintf(", %s (95%% %.2f-%.2f) by rounds", report.Ratio(x.Speedup), x.SpeedupCI[0], x.SpeedupCI[1])
	}
	return text
}

// answer is the variant for a problem on a device, zero for the default, how good the match
// is, and why.
func (t tunedFile) answer(r *kernels.Registry, p kernels.Problem, d kernels.DeviceInfo) (v kernels.Variant, match, why string) {
	if t.table != nil {
		x, m := t.table.Lookup(p)
		if m != tune.MatchExact {
			return v, "default", "the table has no entry for it"
		}
		if t.table.Device.ID != d.ID {
			return x.Variant(), "other device", "an entry of " + t.table.Device.ID + ", measured there: " + entryTimes(&x)
		}
		return x.Variant(), "exact", "an entry of its own: " + entryTimes(&x)
	}
	x := families.Explain(r, t.rules, p, d)[0]
	rows := fmt.Sprintf("it has M/SM = %d", launchrule.RowsPerSM(p.M, d.SMs))
	whole := t.rules == nil || t.rules.Whole
	if whole && t.rules != nil {
		if l := t.rules.Outside(p, d); l != nil {
			rows += fmt.Sprintf("; it is outside the hull in which %s was measured: %s", l.Title(), l.Hull)
		}
	}
	switch {
	case x.Index >= 0:
		return x.Variant, "rule", ruleText(x.Answer) + "; " + rows + "; " + evidenceText(x.List, x.Rule())
	case whole:
		return x.Variant, "default", "the analytic base: no rule is for it, or none is accepted; " + rows
	}
	at := t.rules.At(p, d)
	switch a := t.rules.Choose(&at, nil); a.Match {
	case launchrule.MatchOutside:
		return v, "default", fmt.Sprintf("outside the measured hull: %s; %s", a.List.Hull, rows)
	case launchrule.MatchClass:
		return v, "default", fmt.Sprintf("nothing of %s was measured", launchrule.ClassOf(p))
	case launchrule.MatchRule:
		return v, "default", fmt.Sprintf("%s is refused; %s", ruleText(a), rows)
	default:
		return v, "default", fmt.Sprintf("no rule of %s fires: nothing known beats the default there; %s", a.List.Class, rows)
	}
}

// refused is an error if the problem's rule was measured on this device but is refused there today.
func (t tunedFile) refused(r *kernels.Registry, p kernels.Problem, d kernels.DeviceInfo) error {
	if t.rules == nil || t.rules.Device.ID != d.ID {
		return nil
	}
	for _, x := range families.Explain(r, t.rules, p, d)[1:] {
		if x.Index >= 0 && x.Refusal != nil && x.List.Origin == "" {
			list := slices.IndexFunc(t.rules.Lists, func(l launchrule.List) bool { return l.Class == x.List.Class && l.Name == x.List.Name })
			return t.at(list, x.Index, fmt.Errorf("%s: %s is refused for %s: %w", ruleText(x.Answer), x.Variant, p, x.Refusal))
		}
	}
	return nil
}

// instead is what rules would launch next, and why.
func (t tunedFile) instead(r *kernels.Registry, p kernels.Problem, d kernels.DeviceInfo) string {
	if t.table != nil {
		return ""
	}
	var parts []string
	for _, x := range families.Explain(r, t.rules, p, d)[1:] {
		text := "the analytic base"
		if x.Index >= 0 {
			text = ruleText(x.Answer)
		}
		if x.Refusal != nil {
			text += ", refused: " + oneLine(x.Refusal.Error())
		}
		parts = append(parts, x.Variant.String()+" by "+text)
	}
	return strings.Join(parts, "; ")
}

// ruleText names a rule, with its box.
func ruleText(a launchrule.Answer) string {
	return fmt.Sprintf("rule %d of %s: %s", a.Index+1, a.List.Title(), a.Rule().Box)
}

// evidenceText says what a rule rests on.
func evidenceText(l *launchrule.List, r *launchrule.Rule) string {
	e := r.Evidence
	if e.Problems == 0 {
		return "no evidence, from " + cmp.Or(l.Origin, "a fit")
	}
	text := "over " + count(e.Problems, "measured problem")
	if e.Records > 0 {
		text += " and " + count(e.Records, "record")
	}
	text += fmt.Sprintf(", regret %.3f", e.Regret)
	add := func(x float64, format string, args ...any) {
		if x > 0 {
			text += fmt.Sprintf(format, append([]any{x}, args...)...)
		}
	}
	add(e.HeldOutRegret, ", held out %.3f")
	add(e.DefaultRegret, " (default %.3f)")
	add(e.OverBase, ", %.3fx of the analytic base")
	add(e.OverBaseWorst, " (worst %.3fx)")
	add(e.OverNext, ", %.3fx of the next rule")
	add(e.OverNextWorst, " (worst %.3fx)")
	if e.Device != "" {
		text += ", on " + e.Device
	}
	if e.Commit != "" {
		text += ", at " + e.Commit
	}
	return text
}
