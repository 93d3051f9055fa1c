package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/lab"
	"normbench/sweep/record"
	"normbench/tune"
)

func mergeCommand(e *env) *cli.Command {
	x := &commonFlags{}
	var out string
	var partial bool
	return e.command(&cli.Command{
		Name:      "merge",
		Usage:     "make one results folder, or one tuned table, of several of one kind of card, in any order",
		ArgsUsage: "DIR|FILE...",
		Description: "Of results folders, such as those of shards, the records become those of one folder, each once, with " +
			"the tuned table that one sweep would have written. A folder is itself, its devices' folders and its shards'. " +
			"Kernels, protocols and kinds of device must be the same. Shards that are missing are listed with the " +
			"command that makes them, and then nothing is written.\n\n" +
			"Of tuned tables: of each problem the entry with better evidence stays: finals, an interval, more samples, " +
			"the later run. Of each class of a map, the raster with more measured problems stays, and every " +
			"cell that was written by hand.\n\nThe order of what is merged changes nothing, nor does what comes twice. A file with the conflict markers of git counts as both of its sides.",
		Flags: []cli.Flag{
			&cli.StringFlag{Destination: &out, Name: "out", Category: catOutput,
				Usage:       "write to `PLACE`, which may be one of those: a folder for records, a file for tuned tables",
				DefaultText: "the folder, where only one is named; a table goes to standard output"},
			&cli.BoolFlag{Destination: &partial, Name: "partial",
				Usage: "merge what there is of shards, also if some are missing or not done"},
			x.kernelsFlag(),
		},
	}, x, func() error { return merge(e, x.operands, out, partial) })
}

// merge merges records if the first operand has some, else tuned tables.
func merge(e *env, operands []string, out string, partial bool) error {
	if len(operands) == 0 {
		return hint.Errorf("`normbench merge out` merges the shards below out; `normbench merge tuned.json --out tuned.json` "+
			"both sides of a conflict", "merge needs results folders or tuned tables")
	}
	records := hasRecords(operands[0])
	for _, file := range operands[1:] {
		if hasRecords(file) != records {
			return hint.Errorf("merge folders and records by themselves, and tuned tables by themselves",
				"%s and %s: one has records, the other is a tuned table", operands[0], file)
		}
	}
	switch {
	case !records && partial:
		return hint.Errorf("leave it out", "--partial is for shards, and %s is a tuned table", operands[0])
	case !records && out != "":
		if err := lab.CheckPlace(durable.Place{Name: out}); err != nil {
			return err
		}
		return mergeTables(e, operands, out)
	case !records:
		return mergeTables(e, operands, out)
	case out == "" && len(operands) > 1:
		return hint.Errorf("add --out FOLDER; it may be one of them", "merge of several folders does not know where to")
	case out == "" && hasOwnRecords(operands[0]):
		return hint.Errorf("add --out FOLDER", "%s is the records of one device: merge does not know where to", operands[0])
	case out == "":
		out = operands[0]
	}
	sum, err := e.Merge(&lab.MergeTask{Folders: operands, Out: out, Partial: partial, Quote: quoteWords})
	if err != nil {
		return err
	}
	cards := ""
	if sum.Cards > 1 {
		cards = fmt.Sprintf(", of %d cards", sum.Cards)
	}
	_, err = fmt.Fprintf(e.out, "%s of %s merged into %s: %s%s, %s, %s\n", console.Count(sum.Files, "file"), sum.Device.ID,
		sum.Place, console.Count(sum.Problems, "problem"), cards, console.Count(sum.Records, "record"),
		console.Count(sum.Entries, "entry"))
	return err
}

// hasRecords says whether an operand is a folder or a records file.
func hasRecords(path string) bool {
	st, err := os.Stat(path)
	return textfile.Ext(path) == ".jsonl" || err == nil && st.IsDir()
}

// hasOwnRecords says whether an operand is a records file, or the folder of a device.
func hasOwnRecords(path string) bool {
	if textfile.Ext(path) == ".jsonl" {
		return true
	}
	own, _ := filepath.Glob(filepath.Join(path, record.FileName+"*"))
	return len(own) > 0
}

func mergeTables(e *env, files []string, out string) error {
	var tables []*tune.TunedTable
	for _, file := range files {
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
