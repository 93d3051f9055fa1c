package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels/launchmap"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/learn"
)

// A fillConfig has the flags of map fill.
type fillConfig struct {
	commonFlags
	out, prior, family, widths string
	invariant                  bool
}

// invariantFlag makes the flag --batch-invariant of a map.
func invariantFlag(to *bool) cli.Flag {
	return &cli.BoolFlag{Destination: to, Name: "batch-invariant",
		Usage: "give a range of columns one config, whatever the rows: the bits of a row are the same in any batch"}
}

// mapFillCommand makes the command map fill.
func mapFillCommand(e *env) *cli.Command {
	cfg := &fillConfig{}
	cfg.files, cfg.first = []*string{&cfg.out}, firstMap
	return e.command(&cli.Command{
		Name:      "fill",
		Usage:     "fill a map of launch answers from records, into a tuned table",
		ArgsUsage: "RECORDS...",
		Description: "Fills a map from records files or results folders of one device, of sweep or of map learn. " +
			"Each cell of columns and rows gets the config that is expected to lose the least. Prints how many cells rest on what. --out puts it into a tuned table, " +
			"whose entries stay. `normbench explain` draws a cell's neighbourhood; `normbench " +
			"map export` writes code.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "write the map into the tuned table `FILE`, as results/nvidia-h200/tuned.json"},
			&cli.StringFlag{Destination: &cfg.plot, Name: "plot", Category: catOutput,
				Usage: "draw the map to `FILE`.svg"},
			cfg.htmlFlag(),
			widthsFlag(&cfg.widths, ""),
			priorFlag(&cfg.prior, "none"),
			familyFlag(&cfg.family, "fill the map of this `FAMILY` alone, from its times"),
			invariantFlag(&cfg.invariant),
			cfg.kernelsFlag(),
		}, cfg.tableFlags()...),
	}, &cfg.commonFlags, func() error { return fillMap(e, cfg) })
}

// firstMap makes an empty table of a map, by which --columns is checked before the wait.
func firstMap() *report.Table { return report.MapTable(&launchmap.Map{}) }

// fillMap fills a map from records, writes it into the tuned table of --out and prints its table.
func fillMap(e *env, cfg *fillConfig) error {
	out := cfg.out
	if len(cfg.operands) == 0 {
		return hint.Errorf("`normbench map fill results/nvidia-h200`, for one", "map fill needs records")
	}
	if out != "" && filepath.Ext(out) != ".json" {
		return hint.Errorf("name it .json; `normbench map export tuned:FILE --format go` makes code of it",
			"--out %s is no tuned table", out)
	}
	widths, err := widthList(cfg.widths)
	if err != nil {
		return err
	}
	if _, err := e.Against(cfg.family); err != nil {
		return err
	}
	step := e.Wait("reading the records")
	defer step.End()
	d, err := learn.Collect(cfg.family, cfg.operands)
	if err != nil {
		return err
	}
	e.NoteOnce(d.Notes...)
	p, err := e.Coverage(cfg.prior, cfg.family, d.Device, shapes.DefaultDomain, nil, widths)
	if err != nil {
		return err
	}
	if strings.HasPrefix(d.Protocol.Search, learn.Search) {
		d.Protocol = sweep.RaceProtocol(d.Protocol, learn.Search, d.Protocol.Samples/sweep.FinalLaunches)
	}
	step.Set("filling the map from %d problems", len(d.Points))
	p.BatchInvariant = cfg.invariant
	m := p.Fill(d.Points)
	p.Describe(m, d)
	// Files come first: the tables may go to a pipe that closes.
	if out != "" {
		place := durable.Place{Name: out}
		old, _ := tune.Read(out) // the first has none
		if err := p.Write(place, old, m); err != nil {
			return err
		}
		e.Notef("wrote the map of %s", place)
		e.NoteMapChange(p.Filler, old, m)
	}
	if cfg.plot != "" {
		if err := e.Write(durable.Place{Name: cfg.plot}, learn.Plot(m, d.Points, d.Device)); err != nil {
			return err
		}
	}
	return showMap(e, &lab.LearnResult{Map: m, Data: d}, &cfg.commonFlags, nil)
}

// showMap prints the table of a map, which says what its cells rest on, then that of an audit if there
// is one. It also writes the page of --html.
func showMap(e *env, got *lab.LearnResult, x *commonFlags, audit *report.Table, more ...report.Fact) error {
	t := report.MapTable(got.Map)
	for _, line := range report.Timer(got.Data.Runs) {
		t.Title += "\n" + line
	}
	lost := e.writePage(x.html, func() *report.Page { return got.Page(t, more) })
	tables := []*report.Table{t}
	if audit != nil {
		audit.Name = "audit"
		tables = append(tables, audit)
	}
	return cmp.Or(report.RenderTables(e.out, x.format, report.Ending{}, tables...), lost)
}
