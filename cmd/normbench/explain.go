package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune/ref"
)

func explainCommand(e *env) *cli.Command {
	x := &common{}
	var tuned, device string
	return e.command(&cli.Command{
		Name:      "explain",
		Usage:     "show what the default or a tuned table picks for a shape, and why",
		ArgsUsage: "SHAPE",
		Description: "SHAPE is MxN, for every op and pass, or a problem such as rmsnorm/bwd/4096x8192/bf16. The answer says how good the\n" +
			"match is: exact (an entry of its own), cell (of a map), moved (the nearest cell's, as its own is refused on this\n" +
			"device), base (the analytic base's config for the cell), outside or default. It says which map answers, what the\n" +
			"neighbours run, and draws the cells around the pick. An entry of another device's table is no match. csv and json have\n" +
			"the launches as data: grid, block, shared memory, cluster, defines, and arguments by name in the kernel's order.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Destination: &tuned, Name: "tuned", Category: catWhat, Usage: "ask this `FILE` of sweep, tune or learn instead of the program's own map"},
			&cli.StringFlag{Destination: &device, Name: "device", Category: catWhere, Usage: "launch on " + knownDevices, Value: "h200"},
			x.kernelsFlag(),
		}, x.tableFlags()...),
	}, x, func() error {
		if err := x.takes(1, "explain takes one shape or problem"); err != nil {
			return err
		}
		return explain(e, x.operands[0], tuned, device, x.format)
	})
}

// knownDevices is the help of flags that take one.
const knownDevices = "`DEVICE`: cpu, h200, another name that list devices prints, or a .json file of a card's figures"

func explain(e *env, shape, name, device, format string) error {
	d, err := e.Known(device)
	if err != nil {
		return err
	}
	t, err := e.Tuned(name, d)
	if err != nil {
		return err
	}
	ps, err := shapeProblems(t, shape)
	if err != nil {
		return err
	}
	if len(ps) == 0 {
		return hint.Errorf("`normbench lint "+name+"` says more", "%s has no entry, and so nothing to explain", name)
	}
	table := newTable("", "problem", "match", "why", "variant", "launches", "nearby", "ladder")
	table.Data = newTable("", "problem", "match", "why", "variant", "launches", "scratch", "refused", "nearby", "ladder")
	table.Data.Align[4], table.Data.Align[5] = report.JSON, report.JSON
	var drawn [][]string
	for _, p := range ps {
		a, match, why := t.Answer(p)
		v := a.Variant
		if v.Family == "" {
			if v, err = e.Registry.Base(p, d); err != nil {
				return err
			}
		}
		if _, err := e.Registry.Lookup(v.Family); err != nil {
			return hint.Errorf("`normbench lint "+name+"` lists all that is wrong with it", "%s: %s: %w", name, p, err)
		}
		launches, scratch, data, refused := "", "", "", ""
		if _, full, plan, err := e.Registry.Resolve(p, v, d); err != nil && match == ref.Exact {
			return hint.Errorf("sweep the shape again, or delete the entry; `normbench lint "+name+"` lists all that is wrong", "%s: %s: %s: %w", name, p, v, err)
		} else if err != nil {
			refused = console.OneLine(err.Error())
			launches = "refused: " + refused
		} else {
			v, launches = full, strings.TrimSpace(strings.ReplaceAll(plan.String(), "\n", "; "))
			data, scratch = value(plan.Launches), value(plan.Scratch)
		}
		ladder, neighbours := "the table alone", []string{}
		if t.Book != nil {
			ladder = t.Book.Step.String()
		}
		if a.Raster != nil {
			for _, n := range a.Raster.Neighbours(a.Line, a.Cell) {
				neighbours = append(neighbours, n.String())
			}
		}
		near := strings.Join(neighbours, "; ")
		table.Rows = append(table.Rows, []string{p.String(), match, why, v.String(), launches, near, ladder})
		table.Data.Rows = append(table.Data.Rows, []string{p.String(), match, why, v.String(), data, scratch, refused, near, ladder})
		drawn = append(drawn, nil)
		if t.Book != nil {
			drawn[len(drawn)-1] = t.Book.Draw(a)
		}
	}
	if format != "text" {
		return report.RenderTable(e.out, table, format)
	}
	// A plan is too wide for a column.
	for i, row := range table.Rows {
		if i > 0 {
			fmt.Fprintln(e.out)
		}
		fmt.Fprintln(e.out, row[0])
		for j, name := range table.Header[1:] {
			if row[j+1] == "" {
				continue
			}
			lines := []string{row[j+1]}
			if l := &e.out.Layout; !l.Wide {
				lines = console.Wrap(row[j+1], max(30, l.Width-12))
			}
			for k, line := range lines {
				if k > 0 {
					name = ""
				}
				fmt.Fprintf(e.out, "  %-9s %s\n", name, line)
			}
		}
		for _, line := range drawn[i] {
			fmt.Fprintf(e.out, "  %s\n", line)
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

// shapeProblems are those that a shape means: itself, or one of each class that the table knows.
func shapeProblems(t *ref.Table, text string) ([]kernels.Problem, error) {
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
	if t.Book != nil {
		for _, op := range kernels.Ops() {
			for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
				if op.Default || t.Book.Map.Has(op.Op) {
					add(kernels.Problem{Op: op.Op, Pass: pass, DType: kernels.BF16, Weight: kernels.BF16, Bias: op.Bias})
				}
			}
		}
	}
	if t.Table != nil {
		for _, x := range t.Entries {
			add(x.Problem)
		}
	}
	return ps, nil
}
