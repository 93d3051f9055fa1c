package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/sweep/shapes"
	"normbench/tune/ref"
)

// maxColumns is more than the widths of any few models.
const maxColumns = 256

func (e *env) ruleCommand() *cli.Command {
	return &cli.Command{
		Name:      "rule",
		Usage:     "print what a map launches for the widths of a model, or export it as code to paste",
		ArgsUsage: "REF",
		Description: "REF is base (this program's map for the device) or tuned:FILE (a table with a map). The table has a row for each\n" +
			"range of rows. The export is data and one function. It answers every problem with these columns and options, as\n" +
			"`normbench explain` does. Without --columns it has all columns, and without an option all options.",
		Flags: join([]cli.Flag{
			&cli.StringFlag{Name: "columns", Category: catWhat, Usage: "the widths: `N`, or several with commas"},
		}, classFlags, optionFlags, []cli.Flag{
			&cli.StringFlag{Name: "device", Category: catWhere, Usage: "launch on " + knownDevices, Value: "h200"},
			&cli.StringFlag{Name: "out", Category: catOutput, Usage: "write the export to `FILE`"},
			&cli.StringFlag{Name: "export", Category: catOutput, Usage: strings.Join(rule.Formats, ", ") + ": format of the export; without --out it goes to standard output"},
			&cli.BoolFlag{Name: "launch", Usage: "with --columns and --export json: the grid of each config, its block, shared bytes, cluster, defines and scratch"},
			kernelsFlag,
			formatFlag,
		}),
		Action: e.rule,
	}
}

func (e *env) rule(c *cli.Context) error {
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench rule base --columns 4096,5120`, for one", "rule takes one REF, got %d", len(ops))
	}
	export, out := c.String("export"), c.String("out")
	if export != "" && !slices.Contains(rule.Formats, export) {
		return hint.Errorf("use "+strings.Join(rule.Formats, ", "), "unknown --export %q", export)
	}
	if out != "" && export == "" {
		return hint.Errorf("say --export "+strings.Join(rule.Formats, ", --export "), "--out %s needs --export", out)
	}
	if c.Bool("launch") && (export != "json" || !c.IsSet("columns")) {
		return hint.Errorf("`normbench rule base --columns 4096 --export json --launch`, for one", "--launch needs --columns and --export json")
	}
	columns, err := ruleColumns(c)
	if err != nil {
		return err
	}
	classes, err := ruleClasses(c, export != "" && !c.Bool("launch"))
	if err != nil {
		return err
	}
	d, err := e.Known(c.String("device"))
	if err != nil {
		return err
	}
	book, err := e.bookOf(ops[0], d)
	if err != nil {
		return err
	}
	if export == "" {
		return report.RenderTable(e.out, ruleTable(book, ops[0], classes, columns), c.String("format"))
	}
	write := func() ([]byte, error) { return book.Export(classes, columns, export) }
	if c.Bool("launch") {
		write = func() ([]byte, error) { return book.Launches(classes, columns) }
	}
	text, err := write()
	if err != nil {
		return err
	}
	if out == "" {
		_, err = e.out.Write(text)
		return err
	}
	if err := overwrites(out); err != nil {
		return err
	}
	return e.writeFile(out, text)
}

// ruleColumns are those of the flag, which the table needs.
func ruleColumns(c *cli.Context) (columns []int64, err error) {
	const help = "use whole numbers with commas, such as --columns 4096,5120"
	if !c.IsSet("columns") {
		if c.String("export") != "" {
			return nil, nil
		}
		return nil, hint.Errorf("`normbench rule base --columns 4096,5120`, for one", "rule needs --columns")
	}
	for _, text := range strings.Split(c.String("columns"), ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, hint.Errorf(help, "malformed number %q in --columns", text)
		}
		if !rule.Inside(1, n) {
			return nil, hint.Errorf(fmt.Sprintf("use --columns from %d to %d; `normbench explain` answers for others", rule.MinN, rule.MaxN), "maps have no columns %d", n)
		}
		if !slices.Contains(columns, n) {
			columns = append(columns, n)
		}
	}
	if len(columns) > maxColumns {
		return nil, hint.Errorf("take the widths of a few models at a time", "--columns has %d numbers, more than %d", len(columns), maxColumns)
	}
	return columns, nil
}

// ruleClasses are those of the flags. Without an option an export has the classes of all.
func ruleClasses(c *cli.Context, export bool) (list []rule.Class, err error) {
	ps, err := selectionOf(c).Of(shapes.Shape{M: 16, N: 128})
	if err != nil {
		return nil, err
	}
	all := export && !slices.ContainsFunc(optionFlags, func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) })
	dtypes := c.IsSet("dtype") || !export
	for _, x := range rule.Classes() {
		if slices.ContainsFunc(ps, func(p kernels.Problem) bool {
			of := rule.ClassOf(p)
			return of == x || p.Transpose && x == rule.ClassOf(uneven(p)) || all && of.Op == x.Op && of.Pass == x.Pass && (of.Bytes == x.Bytes || !dtypes)
		}) {
			list = append(list, x)
		}
	}
	return list, nil
}

func uneven(p kernels.Problem) kernels.Problem {
	p.M, p.N = 1, 1
	return p
}

// bookOf answers for a REF, which must have a map.
func (e *env) bookOf(text string, d kernels.DeviceInfo) (*rule.Book, error) {
	path, file := strings.CutPrefix(text, "tuned:")
	if text != "base" && !file {
		return nil, hint.Errorf("use base or tuned:FILE; `normbench compare` takes the others too", "%s has no map", text)
	} else if !file {
		path = ""
	} else if _, err := ref.Read(path); err != nil { // the empty path is the program's own
		return nil, err
	}
	t, err := e.Tuned(path, d)
	switch {
	case err != nil:
		return nil, err
	case t.Book == nil:
		return nil, hint.Errorf("`normbench learn` measures one, `normbench tune RECORDS` makes it from records", "%s has no map", path)
	case t.Book.Map == nil:
		return nil, hint.Errorf("`normbench list devices` says which devices have a map", "%s launches by %s: there is no map to show", d.ID, t.Book.Step)
	case t.Book.Near != rule.Own:
		e.Notef("%s launches by %s", d.ID, t.Book.Step)
	}
	return t.Book, nil
}

// ruleTable is a row for each range of rows.
func ruleTable(book *rule.Book, ref string, classes []rule.Class, columns []int64) *report.Table {
	t := newTable(fmt.Sprintf("launches of %s for %s", ref, book.Device.Name), "problem", ">N", ">M from", ">to", "family", "label", "rests on")
	for _, x := range classes {
		for _, n := range columns {
			first := int64(1)
			for _, run := range book.Ranges(x, n) {
				a := book.Answer(x.At(first, n))
				on := map[byte]string{rule.Measured: "measured", rule.Neighbour: "neighbours", rule.Borrowed: "borrowed", rule.ByHand: "by hand"}[a.Evidence()]
				if a.Match != rule.MatchCell {
					on = string(a.Match)
				}
				t.Rows = append(t.Rows, []string{x.String(), fmt.Sprint(n), fmt.Sprint(first), fmt.Sprint(min(run.Last, rule.MaxElems/n)),
					run.Variant.Family, run.Variant.Config.String(), on})
				first = run.Last + 1
			}
		}
	}
	t.Data = &report.Table{Header: t.Header, Align: t.Align, Rows: t.Rows}
	t.Group = &report.Group{Hide: []string{"problem", "N"}, Of: func(row []string) (string, string) {
		return row[0] + ", N = " + row[1], row[0]
	}}
	return t
}
