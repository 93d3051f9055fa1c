package main

import (
	"fmt"

	"normbench/internal/console"
	"normbench/kernels/rule"
	"normbench/report"
)

func explainCommand() *command {
	tuned, device := "", "h200"
	c := &command{
		common: &common{},
		path:   "explain",
		usage:  "show what the default or a tuned table picks for a shape, and why",
		args:   "SHAPE",
		only:   "one shape or problem",
		about: `SHAPE is MxN, for every op and pass, or a problem such as rmsnorm/bwd/4096x8192/bf16.
The answer says how good the match is: exact (an entry of its own), cell (of a map), moved (the
nearest cell's, as its own is refused on this device), base (the analytic base's config for the
cell), outside or default. It says which map answers, what the neighbours run, and draws the cells
around the pick. An entry of another device's table is no match. csv and json have the launches as
data: grid, block, shared memory, cluster, defines, and arguments by name in the kernel's order.`,
		examples: `explain 4096x8192
explain 1024x8192 --tuned results/nvidia-h200/tuned.json
explain rmsnorm/bwd/4096x8192/bf16 --device b200`,
	}
	c.add(catWhat, "tuned", &tuned,
		"ask this `FILE` of sweep, tune or learn instead of the program's own map")
	c.addKnownDevice(&device, "launch on")
	c.addKernels()
	c.addTable()
	c.run = func(e *env) error { return explain(e, c.operands[0], tuned, device, c.format) }
	return c
}

// addKnownDevice adds --device of a command that runs nothing on it.
func (c *command) addKnownDevice(to *string, what string) *option {
	names := []string{"cpu"}
	for _, k := range rule.KnownDevices() {
		names = append(names, k.Key)
	}
	return c.add(catWhere, "device", to, what+" `DEVICE`: cpu, h200, another name that list "+
		"devices prints, or a .json file of a card's figures").offering(names...)
}

func explain(e *env, shape, name, device, format string) error {
	d, err := e.Known(device)
	if err != nil {
		return err
	}
	table, drawn, err := e.Explain(name, shape, d)
	if err != nil {
		return err
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
