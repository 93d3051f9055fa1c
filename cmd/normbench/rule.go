package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune"
)

// maxColumns is more than the widths of any few models.
const maxColumns = 256

// A ruleConfig is what the flags of rule ask for.
type ruleConfig struct {
	common
	shapes.Selection
	widths, device, out, export string
	launch                      bool
}

func ruleCommand(e *env) *cli.Command {
	cfg := &ruleConfig{}
	cfg.files, cfg.only = []*string{&cfg.out}, "one REF"
	return e.command(&cli.Command{
		Name:      "rule",
		Usage:     "print what a map launches for the widths of a model, or export it as code to paste",
		ArgsUsage: "REF",
		Description: "REF is base (this program's map for the device) or tuned:FILE (a table with a map). " +
			"The table has a row for each range of rows. The export is data and one function. It " +
			"answers every problem with these columns and options, as `normbench explain` does. " +
			"Without --columns it has all columns, and without an option all options.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.widths, Name: "columns", Category: catWhat,
				Usage: "the widths: `N`, or several with commas"},
		}, classFlags(&cfg.Selection, ""), optionFlags(&cfg.Selection), []cli.Flag{
			&cli.StringFlag{Destination: &cfg.device, Name: "device", Category: catWhere,
				Usage: "launch on " + knownDevices, Value: "h200"},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "write the export to `FILE`"},
			&cli.StringFlag{Destination: &cfg.export, Name: "export", Category: catOutput,
				Usage: strings.Join(rule.Formats, ", ") + ": format of the export; without --out it " +
					"goes to standard output"},
			&cli.BoolFlag{Destination: &cfg.launch, Name: "launch",
				Usage: "with --columns and --export json: the grid of each config, its block, shared " +
					"bytes, cluster, defines and scratch"},
			cfg.kernelsFlag(),
			// its own are widths
		}, slices.DeleteFunc(cfg.tableFlags(), func(f cli.Flag) bool { return f.Names()[0] == "columns" })),
	}, &cfg.common, func() error { return exportRule(e, cfg) })
}

func exportRule(e *env, cfg *ruleConfig) error {
	if cfg.out != "" && cfg.export == "" {
		return hint.Errorf("say --export "+strings.Join(rule.Formats, ", --export "),
			"--out %s needs --export", cfg.out)
	}
	if cfg.launch && (cfg.export != "json" || cfg.widths == "") {
		return hint.Errorf("`normbench rule base --columns 4096 --export json --launch`, for one",
			"--launch needs --columns and --export json")
	}
	columns, err := cfg.columnsOf()
	if err != nil {
		return err
	}
	classes, err := cfg.classes(cfg.export != "" && !cfg.launch)
	if err != nil {
		return err
	}
	d, err := e.KnownDevice(cfg.device)
	if err != nil {
		return err
	}
	book, err := bookOf(e, cfg.operands[0], d)
	if err != nil {
		return err
	}
	if cfg.export == "" {
		return report.RenderTable(e.out, report.RuleTable(book, cfg.operands[0], classes, columns),
			cfg.format)
	}
	write := func() ([]byte, error) { return book.Export(classes, columns, cfg.export) }
	if cfg.launch {
		write = func() ([]byte, error) { return book.Launches(classes, columns) }
	}
	text, err := write()
	if err != nil {
		return err
	}
	if cfg.out == "" {
		_, err = e.out.Write(text)
		return err
	}
	return e.Write(durable.Place{Name: cfg.out}, text)
}

// columnsOf are those of the flag, which the table needs.
func (cfg *ruleConfig) columnsOf() (columns []int64, err error) {
	const help = "use whole numbers with commas, such as --columns 4096,5120"
	if cfg.widths == "" {
		if cfg.export != "" {
			return nil, nil
		}
		return nil, hint.Errorf("`normbench rule base --columns 4096,5120`, for one", "rule needs --columns")
	}
	for _, text := range strings.Split(cfg.widths, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, hint.Errorf(help, "malformed number %q in --columns", text)
		}
		if !rule.Inside(1, n) {
			return nil, hint.Errorf(fmt.Sprintf("use --columns from %d to %d; `normbench explain` "+
				"answers for others", rule.MinN, rule.MaxN), "maps have no columns %d", n)
		}
		if !slices.Contains(columns, n) {
			columns = append(columns, n)
		}
	}
	if len(columns) > maxColumns {
		return nil, hint.Errorf("take the widths of a few models at a time",
			"--columns has %d numbers, more than %d", len(columns), maxColumns)
	}
	return columns, nil
}

// classes are those of the flags. Without an option an export has the classes of all.
func (cfg *ruleConfig) classes(export bool) (list []rule.Class, err error) {
	ps, err := cfg.Of(shapes.Shape{M: 16, N: 128})
	if err != nil {
		return nil, err
	}
	all := export && !slices.ContainsFunc(names(optionFlags(&shapes.Selection{})),
		func(name string) bool { return cfg.given[name] })
	dtypes := cfg.given["dtype"] || !export
	for _, x := range rule.Classes() {
		if slices.ContainsFunc(ps, func(p kernels.Problem) bool {
			of, uneven := rule.ClassOf(p), p
			uneven.M, uneven.N = 1, 1
			return of == x || p.Transpose && x == rule.ClassOf(uneven) || all && of.Op == x.Op &&
				of.Pass == x.Pass && (of.Bytes == x.Bytes || !dtypes)
		}) {
			list = append(list, x)
		}
	}
	return list, nil
}

// bookOf answers for a REF, which must have a map.
func bookOf(e *env, text string, d kernels.DeviceInfo) (*rule.Book, error) {
	path, file := strings.CutPrefix(text, "tuned:")
	if text != "base" && !file {
		return nil, hint.Errorf("use base or tuned:FILE; `normbench compare` takes the others too",
			"%s has no map", text)
	} else if !file {
		path = ""
	} else if _, err := tune.Read(path); err != nil { // the empty path is the program's own
		return nil, err
	}
	t, err := e.Tuned(path, d)
	switch {
	case err != nil:
		return nil, err
	case t.Book == nil:
		return nil, hint.Errorf("`normbench learn` measures one, `normbench tune RECORDS` makes it "+
			"from records", "%s has no map", path)
	case t.Book.Map == nil:
		return nil, hint.Errorf("`normbench list devices` says which devices have a map",
			"%s launches by %s: there is no map to show", d.ID, t.Book.Step)
	case t.Book.Near != rule.Own:
		e.Notef("%s launches by %s", d.ID, t.Book.Step)
	}
	return t.Book, nil
}
