package main

import (
	"fmt"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/tune/ref"
)

func lintCommand() *command {
	device := ""
	c := &command{
		common: &common{},
		path:   "lint",
		usage:  "find faults in a tuned table: unknown, refused, unproven, stale",
		args:   "FILE",
		only:   "one file",
		about: `Prints one line per finding and exits 1 if there are any: families and knobs that do
not exist, configs that the device or family refuses, in a map anywhere in their cell, kernel
sources that have changed since.`,
		examples: "lint results/nvidia-h200/tuned.json\nlint out/tuned.json",
		exits:    []int{exitGate},
	}
	c.addKnownDevice(&device, "check the file for").or("the file's own")
	c.addKernels()
	c.addTable()
	c.run = func(e *env) error { return lint(e, c.operands[0], device, c.format) }
	return c
}

func lint(e *env, file, device, format string) error {
	var d kernels.DeviceInfo
	var err error
	if device != "" {
		if d, err = e.Known(device); err != nil {
			return err
		}
	}
	t, err := ref.Read(file)
	if err != nil {
		return err
	}
	if device == "" {
		d = t.Device
		for _, k := range rule.KnownDevices() {
			if k.ID == d.ID { // what is written by hand says less
				d = k.DeviceInfo
			}
		}
	}
	rows := report.New("", "file", "finding")
	for _, text := range t.Lint(e.Registry, d, families.NewIdentity(e.Registry, d.Kind).Stale) {
		rows.Rows = append(rows.Rows, []string{file, console.OneLine(text)})
		if format == "text" {
			fmt.Fprintf(e.out, "%s: %s\n", file, console.OneLine(text))
		}
	}
	if format != "text" {
		if err := report.RenderTable(e.out, rows, format); err != nil {
			return err
		}
	}
	if n := len(rows.Rows); n > 0 {
		e.Notef("%s in %s", console.Count(n, "finding"), file)
		return &exitError{code: exitGate}
	}
	if format == "text" {
		fmt.Fprintf(e.out, "%s: no findings\n", file)
	}
	return nil
}
