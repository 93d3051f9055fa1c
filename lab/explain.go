package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/ref"
)

// Explain is what a tuned table, or with the empty name the program's own map, picks for a shape or
// a problem on a device, and why: a row for each problem, and below each the cells around its pick. Of a
// family, "" for all, it is what that one picks.
func (l *Lab) Explain(name, family, shape string, d kernels.DeviceInfo) (*report.Table, error) {
	t, err := l.ReadTuned(name, family, d)
	if err != nil {
		return nil, err
	}
	r := l.Registry
	if t.BaseOf != "" {
		if r, err = r.Against(t.BaseOf); err != nil {
			return nil, err
		}
	}
	ps, err := shapeProblems(t, r, shape)
	if err != nil {
		return nil, err
	}
	if t.Book == nil && len(t.Entries) == 0 {
		return nil, hint.Errorf("`normbench lint "+name+"` says more",
			"%s has no entry, and so nothing to explain", name)
	}
	table := report.New("", "problem", "match", "why", "variant", "launches", "ladder")
	table.Data = report.New("", "problem", "match", "why", "variant", "launches", "scratch",
		"refused", "nearby", "ladder")
	table.Device = d.ID
	table.Data.Align[4], table.Data.Align[5] = report.JSON, report.JSON
	for _, p := range ps {
		a, match, why := t.Answer(p)
		if x, ok := t.Lookup(p); ok {
			why += ": " + entryTimes(&x)
		}
		v := a.Variant
		if v.Family == "" {
			if v, err = r.Base(p, d); err != nil {
				return nil, err
			}
		}
		if _, err := l.Registry.Lookup(v.Family); err != nil {
			return nil, hint.Errorf("`normbench lint "+name+"` lists all that is wrong with it",
				"%s: %s: %w", name, p, err)
		}
		var refused, text, list, scratch string
		if _, full, plan, err := l.Registry.Resolve(p, v, d); err != nil && match == ref.Exact {
			return nil, hint.Errorf("sweep the shape again, or delete the entry; `normbench lint "+
				name+"` lists all that is wrong", "%s: %s: %s: %w", name, p, v, err)
		} else if err != nil {
			refused = console.OneLine(err.Error())
			text = "refused: " + refused
		} else {
			v = full
			if text, list, scratch, err = planTexts(plan); err != nil {
				return nil, err
			}
		}
		ladder := "the table alone"
		var lines, nearby []string
		if t.Book != nil {
			ladder = t.Book.Step(launchmap.ClassOf(p))
			lines, nearby = t.Book.Draw(a)
		}
		table.Below = append(table.Below, lines)
		table.Rows = append(table.Rows, []string{p.String(), match, why, v.String(), text, ladder})
		table.Data.Rows = append(table.Data.Rows, []string{p.String(), match, why, v.String(), list,
			scratch, refused, strings.Join(nearby, "; "), ladder})
	}
	return table, nil
}

// planTexts are the launches of a plan in a line, and as JSON beside its scratch.
func planTexts(plan kernels.Plan) (line, launches, scratch string, err error) {
	list, err := json.Marshal(plan.Launches)
	buffers, bad := json.Marshal(slices.Concat([]kernels.Scratch{}, plan.Scratch))
	return strings.TrimSpace(strings.ReplaceAll(plan.String(), "\n", "; ")), string(list),
		string(buffers), cmp.Or(err, bad)
}

// shapeProblems parses the problems that a text means. A full problem is itself. One shape is a problem of each
// pass of each default op, and of the ops that the table's map has; with --family, those that the family serves.
func shapeProblems(t *ref.TunedBook, r *kernels.Registry, text string) ([]kernels.Problem, error) {
	if strings.Contains(text, "/") {
		p, err := kernels.ParseProblem(text)
		return []kernels.Problem{p}, err
	}
	list, err := shapes.ParseList(text)
	if err != nil {
		return nil, err
	}
	if r.BaseOf != "" { // --family
		return familyProblems(r, list[0])
	}
	var ops []string
	for _, op := range kernels.Ops() {
		if op.Default || t.Book != nil && t.Book.Map.Has(func(c launchmap.Class) bool { return c.Op == op.Op }) {
			ops = append(ops, string(op.Op))
		}
	}
	return (&shapes.Selection{Op: strings.Join(ops, ",")}).LayOut(list[0])
}

// familyProblems returns those of a shape that the one family of a registry serves.
func familyProblems(r *kernels.Registry, s shapes.Shape) ([]kernels.Problem, error) {
	f, err := r.Lookup(r.BaseOf)
	if err != nil {
		return nil, err
	}
	ps, err := (&shapes.Selection{Op: string(f.Op), Pass: string(f.Pass)}).LayOut(s)
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		err = cmp.Or(err, f.CheckServes(p))
	}
	ps = slices.DeleteFunc(ps, func(p kernels.Problem) bool { return f.CheckServes(p) != nil })
	if len(ps) == 0 {
		return nil, err
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
	text += fmt.Sprintf(", the default %s us in the same sweep: %s by medians",
		report.Micros(b.MedianUS), report.Ratio(b.MedianUS/x.MedianUS))
	if len(x.SpeedupCI) == 2 {
		text += fmt.Sprintf(", %s (95%% %.2f-%.2f) by rounds",
			report.Ratio(x.Speedup), x.SpeedupCI[0], x.SpeedupCI[1])
	}
	return text
}
