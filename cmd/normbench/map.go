package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/launchmap"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/models"
	"normbench/sweep/shapes"
	"normbench/tune"
)

// mapCommand makes the command map, which only has subcommands.
func mapCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:        "map",
		Usage:       "fill, show and export maps: which kernel config to launch for every shape",
		Subcommands: []*cli.Command{mapLearnCommand(e), mapFillCommand(e), mapShowCommand(e), mapExportCommand(e)},
		Action: func(c *cli.Context) error {
			if ops := c.Args().Slice(); len(ops) > 0 {
				return unknownCommand("map ", ops, c.Command.Subcommands,
					"use map learn, map fill, map show or map export")
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

// maxWidths is the most numbers of --widths, more than a few models have.
const maxWidths = 256

// A mapConfig has the flags of map show and of map export.
type mapConfig struct {
	commonFlags
	shapes.Selection
	widths, device, family, out string
}

// flags makes the flags that choose a part of a map: widths, classes of problems and a device.
func (cfg *mapConfig) flags() []cli.Flag {
	cfg.only = "one REF"
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Destination: &cfg.widths, Name: "widths", Category: catWhat,
			Usage: "the widths of a model (columns of x): `N`, a model's name or its config.json, or several with commas"},
	}, classFlags(&cfg.Selection, ""), optionFlags(&cfg.Selection), []cli.Flag{
		&cli.StringFlag{Destination: &cfg.device, Name: "device", Category: catWhere,
			Usage: "launch on " + knownDevices, Value: "h200"},
		familyFlag(&cfg.family, "the map must be of this `FAMILY` alone, as map learn --family writes one"),
		cfg.kernelsFlag(),
	})
}

// mapShowCommand makes the command map show.
func mapShowCommand(e *env) *cli.Command {
	cfg := &mapConfig{}
	return e.command(&cli.Command{
		Name:      "show",
		Usage:     "print what a map launches for the widths of a model",
		ArgsUsage: "REF",
		Description: "REF is base (this program's map for the device) or tuned:FILE (a table with a map). " +
			"The table has a row for each range of rows that has one config. `normbench explain` " +
			"says on what measurements an answer rests.",
		Flags: append(cfg.flags(), cfg.tableFlags()...),
	}, &cfg.commonFlags, func() error { return showWidths(e, cfg) })
}

// showWidths prints the map's configs for the widths, by ranges of rows.
func showWidths(e *env, cfg *mapConfig) error {
	widths, err := widthList(cfg.widths)
	if err != nil {
		return err
	}
	if len(widths) == 0 {
		return hint.Errorf("`normbench map show base --widths 4096,5120`, for one", "map show needs --widths")
	}
	const export = false
	book, classes, err := cfg.book(e, export)
	if err != nil {
		return err
	}
	return report.RenderTable(e.out, report.WidthsTable(book, cfg.operands[0], classes, widths), cfg.format)
}

// mapExportCommand makes the command map export.
func mapExportCommand(e *env) *cli.Command {
	cfg := &mapConfig{}
	cfg.files = []*string{&cfg.out}
	return e.command(&cli.Command{
		Name:      "export",
		Usage:     "write a map as code to paste beside a launcher, with one function",
		ArgsUsage: "REF",
		Description: "REF is base (this program's map for the device) or tuned:FILE (a table with a map). " +
			"The code answers every problem with these widths and options as `normbench explain` " +
			"does. Without --widths it has all widths, and without an option all options. With up " +
			"to 16 widths and 1000 ranges of rows it is a chain of ifs, else tables.",
		Flags: append(cfg.flags(),
			&cli.StringFlag{Destination: &cfg.format, Name: "format", Category: catOutput,
				Usage: "language of the code: " + strings.Join(launchmap.Formats, ", ")},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "write to `FILE`, not to standard output"}),
	}, &cfg.commonFlags, func() error { return exportMap(e, cfg) })
}

// exportMap writes the map as code, to standard output or a file.
func exportMap(e *env, cfg *mapConfig) error {
	if cfg.format == "" {
		return hint.Errorf("add --format "+strings.Join(launchmap.Formats, ", --format "), "map export needs --format")
	}
	widths, err := widthList(cfg.widths)
	if err != nil {
		return err
	}
	const export = true
	book, classes, err := cfg.book(e, export)
	if err != nil {
		return err
	}
	text, err := book.Export(classes, widths, cfg.format)
	if err != nil {
		return err
	}
	if cfg.out == "" {
		_, err = e.out.Write(text)
		return err
	}
	return e.Write(durable.Place{Name: cfg.out}, text)
}

// widthList reads the text of --widths, each width once. A model has several; those that maps are not for
// are left out.
func widthList(text string) (widths []int64, err error) {
	const help = "use whole numbers with commas, such as --widths 4096,5120, or models"
	if text == "" {
		return nil, nil
	}
	for _, text := range strings.Split(text, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil && text != "" && strings.IndexAny(text, "0123456789-+. ") != 0 {
			m, err := models.Default().Find(text)
			if err != nil {
				return nil, err
			}
			for _, n := range m.Widths() {
				if launchmap.CoversShape(1, n) && !slices.Contains(widths, n) {
					widths = append(widths, n)
				}
			}
			continue
		}
		if err != nil || n < 1 {
			return nil, hint.Errorf(help, "malformed number %q in --widths", text)
		}
		if !launchmap.CoversShape(1, n) {
			return nil, hint.Errorf(fmt.Sprintf("use --widths from %d to %d; `normbench explain` "+
				"answers for others", launchmap.MinN, launchmap.MaxN), "maps have no width %d", n)
		}
		if !slices.Contains(widths, n) {
			widths = append(widths, n)
		}
	}
	if len(widths) > maxWidths {
		return nil, hint.Errorf("take the widths of a few models at a time",
			"--widths has %d numbers, more than %d", len(widths), maxWidths)
	}
	return widths, nil
}

// classes lists the classes of problems that the flags choose. An export without an option flag has the
// classes of all options.
func (cfg *mapConfig) classes(export bool) (list []launchmap.Class, err error) {
	ps, err := cfg.LayOut(shapes.Shape{M: 16, N: 128})
	if err != nil {
		return nil, err
	}
	all := export && !slices.ContainsFunc(names(optionFlags(&shapes.Selection{})),
		func(name string) bool { return cfg.given[name] })
	dtypes := cfg.given["dtype"] || !export
	for _, x := range launchmap.Classes() {
		if slices.ContainsFunc(ps, func(p kernels.Problem) bool {
			of, uneven := launchmap.ClassOf(p), p
			uneven.M, uneven.N = 1, 1
			return of == x || p.Transpose && x == launchmap.ClassOf(uneven) || all && of.Op == x.Op &&
				of.Pass == x.Pass && (of.Bytes == x.Bytes || !dtypes)
		}) {
			list = append(list, x)
		}
	}
	return list, nil
}

// book opens the map of the command's REF on the device of the flags, and lists the classes that the
// flags choose; for the map of one family only those of its op and pass.
func (cfg *mapConfig) book(e *env, export bool) (*launchmap.Book, []launchmap.Class, error) {
	classes, err := cfg.classes(export)
	if err != nil {
		return nil, nil, err
	}
	d, err := local.Known(e.Registry, cfg.device)
	if err != nil {
		return nil, nil, err
	}
	text := cfg.operands[0]
	path, file := strings.CutPrefix(text, "tuned:")
	if text != "base" && !file {
		help := "use base or tuned:FILE; `normbench compare` takes the others too"
		if strings.HasSuffix(text, ".json") || strings.HasSuffix(text, ".json.gz") {
			help = "write tuned:" + text
		}
		return nil, nil, hint.Errorf(help, "%s is no REF of a map", text)
	} else if !file {
		path = ""
	} else if _, err := tune.Read(path); err != nil { // the empty path is the program's own
		return nil, nil, err
	}
	t, err := e.ReadTuned(path, cfg.family, d)
	switch {
	case err != nil:
		return nil, nil, err
	case t.Book == nil:
		return nil, nil, hint.Errorf("`normbench map learn` measures one, `normbench map fill RECORDS` makes it "+
			"from records", "%s has no map", path)
	case t.Book.Map == nil && cfg.family != "":
		return nil, nil, hint.Errorf("name its table: tuned:OUT/"+filepath.Join(d.ID, filepath.FromSlash(cfg.family),
			tune.FileName), "the program has no map of %s alone", cfg.family)
	case t.Book.Map == nil:
		return nil, nil, hint.Errorf("`normbench list devices` says which devices have a map",
			"%s launches by %s: there is no map to show", d.ID, t.Book.Rung)
	case t.Book.Near != launchmap.Own:
		e.Notef("%s launches by %s", d.ID, t.Book.Rung)
	}
	if t.BaseOf == "" {
		return t.Book, classes, nil
	}
	f, err := e.Registry.Lookup(t.BaseOf)
	if err != nil {
		return nil, nil, err
	}
	classes = slices.DeleteFunc(classes, func(c launchmap.Class) bool { return c.Op != f.Op || c.Pass != f.Pass })
	if len(classes) == 0 {
		return nil, nil, sweep.NewNoProblemError(f.Name)
	}
	return t.Book, classes, nil
}
