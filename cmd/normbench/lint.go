package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/tune"
	"normbench/tune/rules"
)

func (e *env) lintCommand() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "what is wrong with a tuned table or rules file: unreachable, unknown, refused, stale",
		ArgsUsage: "FILE",
		Description: "Prints one line per finding and exits 1 if there are any: rules that cannot fire, families and knobs that\n" +
			"do not exist, configs that the device or family refuses, kernel sources that have changed since.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "device", Usage: "h200 or cpu, that the file should be for", Value: "h200"},
		},
		Action: e.lint,
	}
}

func (e *env) lint(c *cli.Context) error {
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench lint results/nvidia-h200/tuned.json`, for one", "lint takes one file, got %d", len(ops))
	}
	d, err := e.knownDevice(c.String("device"))
	if err != nil {
		return err
	}
	f, err := readTunedFile(ops[0])
	if err != nil {
		return err
	}
	hash := families.NewIdentity(e.registry, d.Kind).Source
	var found []string
	if f.rules != nil {
		found = f.rules.Lint(rules.Judge{Registry: e.registry, Device: d}, hash)
	} else {
		found = e.lintTable(f.table, d, hash)
	}
	for _, line := range found {
		fmt.Fprintf(e.stdout, "%s: %s\n", ops[0], oneLine(line))
	}
	if len(found) > 0 {
		e.notef("%s in %s", count(len(found), "finding"), ops[0])
		return &coded{code: exitGate}
	}
	fmt.Fprintf(e.stdout, "%s: nothing to complain of\n", ops[0])
	return nil
}

// lintTable finds what makes the entries of a tuned table wrong today.
func (e *env) lintTable(t *tune.Table, d kernels.DeviceInfo, hash func(*kernels.Family) (string, error)) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if t.Device.ID != d.ID {
		add("the table is of %s, not of %s", t.Device.ID, d.ID)
	}
	stale := map[string]bool{}
	for _, x := range t.Entries {
		f, _, _, err := e.registry.Resolve(x.Problem, x.Variant(), d)
		if err != nil {
			add("%s: %v", x.Problem, err)
			continue
		}
		if o := x.Base; o != nil && (kernels.Variant{Family: o.Family, Config: o.Config}) != x.Variant() && !x.ProvenFaster() {
			add("%s: %s is not provably faster than the base, %s: sweep again, or delete the entry", x.Problem, x.Variant(), kernels.Variant{Family: o.Family, Config: o.Config})
		}
		if now, err := hash(f); err == nil && now != families.FromSchema1(x.Source) && !stale[x.Family+x.Source] {
			stale[x.Family+x.Source] = true
			add("stale: the sources of %s are %s, and entries such as %s are from %s", x.Family, now, x.Problem, x.Source)
		}
	}
	return found
}
