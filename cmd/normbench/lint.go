package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/tune"
	"normbench/tune/ref"
)

func (e *env) lintCommand() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "find faults in a tuned table: unknown, refused, unproven, stale",
		ArgsUsage: "FILE",
		Description: "Prints one line per finding and exits 1 if there are any: families and knobs that do not exist, configs that the\n" +
			"device or family refuses, in a map anywhere in their cell, kernel sources that have changed since.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "device", Category: catWhere, Usage: "check the file for " + knownDevices, DefaultText: "the file's own"},
			kernelsFlag,
			formatFlag,
		},
		Action: e.lint,
	}
}

func (e *env) lint(c *cli.Context) error {
	format := c.String("format")
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench lint results/nvidia-h200/tuned.json`, for one", "lint takes one file, got %d", len(ops))
	}
	var d kernels.DeviceInfo
	var err error
	if c.IsSet("device") {
		if d, err = e.knownDevice(c.String("device")); err != nil {
			return err
		}
	}
	t, err := ref.Read(ops[0])
	if err != nil {
		return err
	}
	if !c.IsSet("device") {
		d = t.Device
		for _, k := range rule.KnownDevices() {
			if k.ID == d.ID { // what is written by hand says less
				d = k.DeviceInfo
			}
		}
	}
	var found []string
	for _, text := range e.lintTable(t, d, families.NewIdentity(e.registry, d.Kind).Stale) {
		found = append(found, ops[0]+": "+text)
	}
	if format != "text" {
		t := newTable("", "file", "finding")
		for _, line := range found {
			t.Rows = append(t.Rows, []string{ops[0], oneLine(strings.TrimPrefix(line, ops[0]+": "))})
		}
		if err := report.RenderTable(e.stdout, t, format); err != nil {
			return err
		}
	} else {
		for _, line := range found {
			fmt.Fprintln(e.stdout, oneLine(line))
		}
	}
	if len(found) > 0 {
		e.notef("%s in %s", count(len(found), "finding"), ops[0])
		return &coded{code: exitGate}
	}
	if format == "text" {
		fmt.Fprintf(e.stdout, "%s: no findings\n", ops[0])
	}
	return nil
}

// lintTable finds what makes the entries of a tuned table wrong today.
func (e *env) lintTable(t *tune.Table, d kernels.DeviceInfo, stale func(*kernels.Family, string) (string, bool)) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if t.Device.ID != d.ID {
		add("the table is of %s, not of %s", t.Device.ID, d.ID)
	}
	if t.Device.SMs < 1 {
		add("its device has %d sms: nothing that depends on their number can be looked up", t.Device.SMs)
	}
	if len(t.Entries) == 0 && t.Map == nil {
		add("empty: it has no entry and no map")
	}
	told := map[string]bool{}
	for _, x := range t.Entries {
		f, _, _, err := e.registry.Resolve(x.Problem, x.Variant(), d)
		if err != nil {
			add("%s: %v", x.Problem, err)
			continue
		}
		if !x.Proven() {
			add("%s: %s is not provably faster than the base: sweep again, or delete the entry", x.Problem, x.Variant())
		}
		if now, old := stale(f, x.Source); old && !told[x.Family+x.Source] {
			told[x.Family+x.Source] = true
			add("stale: the sources of %s are %s, and entries such as %s are from %s", x.Family, now, x.Problem, x.Source)
		}
	}
	if t.Map != nil {
		found = append(found, t.Map.Lint(e.registry, d, stale)...)
	}
	return found
}
