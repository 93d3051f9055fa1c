package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/launchmap"
	"normbench/lab"
	"normbench/report"
	"normbench/tune"
)

// lintCommand makes the command lint.
func lintCommand(e *env) *cli.Command {
	x := &commonFlags{}
	var device string
	return e.command(&cli.Command{
		Name:      "lint",
		Usage:     "find faults in tuned tables: unknown, refused, unproven, stale",
		ArgsUsage: "FILE...",
		Description: "Prints one line per finding and exits 1 if there are any. A finding is a family or knob that does " +
			"not exist, or a config that the device or family refuses (in a map, anywhere in its cell). So is " +
			"an entry that is not proven faster, and a kernel source that has changed since.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Destination: &device, Name: "device", Category: catWhere,
				Usage: "check the files for " + knownDevices, DefaultText: "each file's own"},
			x.kernelsFlag(),
		}, x.tableFlags()...),
	}, x, func() error { return lint(e, x.operands, device, x.format) })
}

// lint checks tuned tables and prints findings. It reads all before it checks the first, so that a
// mistyped name costs no wait. device is the one to check for, "" for each table's own.
func lint(e *env, files []string, device, format string) error {
	if len(files) == 0 {
		return hint.Errorf("`normbench lint results/*/tuned.json`, for one", "lint takes one or more files, got 0")
	}
	var known kernels.DeviceInfo // that the files are checked for; none for their own
	var err error
	if device != "" {
		if known, err = local.Known(e.Registry, device); err != nil {
			return err
		}
	}
	tables := make([]*tune.TunedTable, len(files))
	for i, file := range files {
		if tables[i], err = tune.Read(file); err != nil {
			return err
		}
	}
	rows := report.New("", "file", "finding")
	faulty := 0 // files with findings
	for i, t := range tables {
		d := known
		if device == "" {
			d = ownDevice(t)
		}
		findings := t.Lint(e.Registry, d)
		for _, text := range findings {
			rows.Rows = append(rows.Rows, []string{files[i], console.OneLine(text)})
		}
		if len(findings) > 0 {
			faulty++
		}
		if format == "text" {
			printFindings(e, files[i], findings)
		}
	}
	if format != "text" {
		if err := report.RenderTable(e.out, rows, format); err != nil {
			return err
		}
	}
	n := console.Count(len(rows.Rows), "finding")
	switch {
	case faulty == 0:
		return nil
	case len(files) == 1:
		e.Notef("%s in %s", n, files[0])
	default:
		e.Notef("%s in %d of %d files", n, faulty, len(files))
	}
	return lab.Exit(exitGate, nil)
}

// ownDevice returns the device that a table is for: by normbench's own figures where it knows the card,
// as a table that was written by hand has fewer.
func ownDevice(t *tune.TunedTable) kernels.DeviceInfo {
	for _, k := range launchmap.KnownDevices() {
		if k.ID == t.Device.ID {
			return k.DeviceInfo
		}
	}
	return t.Device
}

// printFindings prints the findings of a file, a line each, or says that there are none.
func printFindings(e *env, file string, findings []string) {
	for _, text := range findings {
		fmt.Fprintf(e.out, "%s: %s\n", file, console.OneLine(text))
	}
	if len(findings) == 0 {
		fmt.Fprintf(e.out, "%s: no findings\n", file)
	}
}
