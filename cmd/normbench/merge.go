package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/tune"
)

func mergeCommand(e *env) *cli.Command {
	x := &commonFlags{}
	var out string
	x.files = []*string{&out}
	return e.command(&cli.Command{
		Name:      "merge",
		Usage:     "make one tuned table of several of one card, in any order",
		ArgsUsage: "FILE...",
		Description: "Of each problem the entry with better evidence stays: finals, an interval, more samples, " +
			"the later run. Of each class of a map, the raster with more measured problems stays, and every " +
			"cell that was written by hand. The order of the files changes nothing, nor does a file that " +
			"comes twice. A file with the conflict markers of git counts as both of its sides.",
		Flags: []cli.Flag{
			&cli.StringFlag{Destination: &out, Name: "out", Category: catOutput,
				Usage: "write to `FILE`, which may be one of those, and not to standard output"},
			x.kernelsFlag(),
		},
	}, x, func() error { return merge(e, x.operands, out) })
}

func merge(e *env, files []string, out string) error {
	if len(files) == 0 {
		return hint.Errorf("`normbench merge tuned.json --out tuned.json` merges both sides of a conflict, for one",
			"merge needs tuned tables")
	}
	var tables []*tune.TunedTable
	for _, file := range files {
		if st, err := os.Stat(file); textfile.Ext(file) == ".jsonl" || err == nil && st.IsDir() {
			return hint.Errorf("name its tuned.json; `normbench map fill` reads the records of several folders",
				"%s has records, and merge takes tuned tables", file)
		}
		sides, err := tune.ReadSides(file)
		if err != nil {
			return err
		}
		for _, t := range sides {
			if t.Map != nil {
				if err := t.Map.CheckKnobs(e.Registry); err != nil {
					return hint.Errorf(hint.Of(err), "%s: %w", file, err)
				}
			}
		}
		tables = append(tables, sides...)
	}
	t, err := tune.JoinAll(tables)
	if err != nil {
		return err
	}
	text, err := t.Text()
	if err != nil {
		return err
	}
	if out == "" {
		_, err = e.out.Write(text)
		return err
	}
	if err := e.Write(durable.Place{Name: out}, text); err != nil {
		return err
	}
	rasters := 0
	if t.Map != nil {
		rasters = len(t.Map.Rasters)
	}
	_, err = fmt.Fprintf(e.out, "%s of %s merged: %s, a map of %s\n", console.Count(len(tables), "table"), t.Device.ID,
		console.Count(len(t.Entries), "entry"), console.Count(rasters, "raster"))
	return err
}
