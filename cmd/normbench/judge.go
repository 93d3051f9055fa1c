package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/report"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

const judgeHelp = "give each round a and b, and a2 (a second copy of a) if there is one: `normbench judge --help`"

func judgeCommand(e *env) *cli.Command {
	x := &common{}
	var step float64
	return e.command(&cli.Command{
		Name:      "judge",
		Usage:     "say whether b is faster than a, from paired rounds that any tool measured",
		ArgsUsage: "ROUNDS",
		Description: "A round visits a, b and, if you can, a2 (a second copy of a) in random order; its times are medians\n" +
			"of a few launches, in any one unit. 12 rounds find a change of 2% if equal visits scatter by up to 0.6%, 24 if by up\n" +
			"to 1%; of a scatter of 2% they find an eighth and a half. 10 rounds are the minimum.\n" +
			"ROUNDS is CSV with a header (a,b[,a2][,stream][,cell]), or JSON, a list of {\"a\": 1.2, \"b\": 1.1} with the same\n" +
			"names; - reads standard input. cell names the comparison; each cell is judged by itself.\n" +
			"FASTER and SLOWER speak of b, and are wrong in at most 0.5% of cells under drift, slow periods and outliers. Where one\n" +
			"side keeps a mode of its own, they can be wrong in 7 to 9% of cells (kept over 3 rounds) or 17 to 20% (over 8).\n" +
			"SAME means within 1%. TWO MODES means two groups of visits, whose medians are given. INCONCLUSIVE has a reason.\n" +
			"effect is b/a with its interval; q is p by Benjamini and Hochberg over the cells.\n" +
			"power is the chance to have called a change of 2% with this noise; need is about how many rounds would decide.\n" +
			"Without a2, nothing shows how much two copies of one code differ: then trust no effect below 2%.\n" +
			"The exit status is 0 whatever the verdict.",
		Flags: append([]cli.Flag{
			&cli.Float64Flag{Destination: &step, Name: "step", Usage: "step of the clock, in the unit of the times; 0 is none",
				Action: within("step", 0, math.MaxFloat64, "give it in the unit of the times")},
		}, x.tableFlags()...),
	}, x, func() error {
		if err := x.takes(1, "judge takes one file of rounds"); err != nil {
			return err
		}
		return judge(e, x.operands[0], step, x.format)
	})
}

func judge(e *env, file string, step float64, format string) error {
	var data []byte
	var err error
	name := file
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(os.Stdin)
	} else {
		data, err = textfile.Read(name, textfile.Large)
	}
	if err != nil {
		return hint.Errorf(cmp.Or(hint.Of(err), "give a file of rounds, or - for standard input"), "rounds %s: %w", file, durable.Cause(err))
	}
	cells, err := parseRounds(name, data)
	if err != nil {
		return err
	}
	var list []verdict.Cell
	for _, x := range cells {
		list = append(list, verdict.Cell{Rounds: x.rounds, Step: step})
	}
	rule := verdict.Default()
	judged := verdict.Judge(list, rule)
	t := newTable("", "cell", "verdict", ">b/a", ">p", ">q", ">a2/a %", ">rounds", ">need", ">power %", ">stream/b %", "reason")
	t.Legend = []report.Meaning{{Column: "b/a", Text: "time of b over a's with its interval"}}
	t.Data = newTable("", "cell", "verdict", ">b/a", ">from", ">to", ">p", ">q", ">a2/a %", ">rounds", ">need", ">power %", ">stream/b %", "reason")
	for i, j := range judged {
		call := string(j.Verdict)
		if j.Modes != nil && j.Verdict == verdict.Inconclusive {
			call = "TWO MODES"
			j.Reason += fmt.Sprintf("; a %.4g and %.4g, b %.4g and %.4g", j.Modes.Fast[0], j.Modes.Slow[0], j.Modes.Fast[1], j.Modes.Slow[1])
		}
		number := func(f float64, format string) string {
			if f == 0 {
				return ""
			}
			return fmt.Sprintf(format, f)
		}
		again := "none"
		if cells[i].again {
			again = fmt.Sprintf("%.2f", 100*j.Floor)
		}
		stream := ""
		if cells[i].stream > 0 {
			stream = pc(cells[i].stream)
		}
		row := []string{cells[i].name, call, number(j.Effect, "%.4f"), number(j.Lo, "%.4f"), number(j.Hi, "%.4f"),
			fmt.Sprintf("%.2g", j.P), fmt.Sprintf("%.2g", j.Q), again, strconv.Itoa(j.Rounds), number(float64(j.Need), "%.0f"), pc(rule.Power(list[i])), stream, j.Reason}
		t.Data.Rows = append(t.Data.Rows, row)
		if row = slices.Clone(row); row[3] != "" {
			row[2] += " (" + row[3] + "-" + row[4] + ")"
		}
		t.Rows = append(t.Rows, slices.Delete(row, 3, 5))
	}
	if slices.ContainsFunc(cells, func(x roundsOf) bool { return !x.again }) {
		t.Notes = append(t.Notes, "no a2: nothing shows what two copies of one code differ by")
	}
	return report.RenderTable(e.out, t, format)
}

// roundsOf are the rounds of one cell of a file.
type roundsOf struct {
	name   string
	again  bool    // it has a2
	stream float64 // median ratio of the stream to b, 0 for none
	rounds []verdict.Round
}

// A roundRow is one round as a file has it. Times that are not there are nil.
type roundRow struct {
	Cell   string   `json:"cell"`
	A      *float64 `json:"a"`
	B      *float64 `json:"b"`
	A2     *float64 `json:"a2"`
	Stream *float64 `json:"stream"`
	where  string
}

// parseRounds reads CSV or JSON, a row per round. name is for errors.
func parseRounds(name string, data []byte) ([]roundsOf, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	var rows []roundRow
	var err error
	if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
		if err := durable.Verify([]byte(text)); err != nil {
			return nil, fmt.Errorf("rounds %s: %w", name, err)
		}
		err = json.Unmarshal([]byte(text), &rows)
		for i := range rows {
			rows[i].where = fmt.Sprintf("round %d", i+1)
		}
	} else {
		rows, err = readRoundCSV(text)
	}
	var cells []roundsOf
	if err == nil {
		cells, err = groupRounds(rows)
	}
	if err != nil {
		return nil, hint.Errorf(judgeHelp, "rounds %s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	return cells, nil
}

func readRoundCSV(text string) (rows []roundRow, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("it is empty")
	}
	for i, h := range header {
		header[i] = strings.ToLower(strings.TrimSpace(h))
		if h = header[i]; h != "" && slices.Contains(header[:i], h) {
			return nil, fmt.Errorf("its header has the column %.80q twice", h)
		}
	}
	for err == nil {
		var fields []string
		if fields, err = r.Read(); err != nil {
			break
		}
		line, _ := r.FieldPos(0)
		row := roundRow{where: fmt.Sprintf("line %d", line)}
		to := map[string]**float64{"a": &row.A, "b": &row.B, "a2": &row.A2, "stream": &row.Stream}
		for i, field := range fields {
			if header[i] == "cell" {
				row.Cell = field
			} else if time := to[header[i]]; time != nil {
				f, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
				if err != nil {
					return nil, fmt.Errorf("%s: %s %.80q is no number", row.where, header[i], field)
				}
				*time = &f
			}
		}
		rows = append(rows, row)
	}
	if err != io.EOF {
		return nil, err
	}
	return rows, nil
}

// groupRounds puts rows into cells, in the order of their first rows.
func groupRounds(rows []roundRow) (cells []roundsOf, err error) {
	ratios := map[string][]float64{} // of the stream to b
	for _, row := range rows {
		for _, x := range []struct {
			name string
			us   *float64
			must bool
		}{{"a", row.A, true}, {"b", row.B, true}, {"a2", row.A2, false}, {"stream", row.Stream, false}} {
			if x.us == nil && x.must {
				return nil, fmt.Errorf("%s has no %s", row.where, x.name)
			}
			if x.us != nil && !isTime(*x.us) {
				return nil, fmt.Errorf("%s: %s is %g, which is no time", row.where, x.name, *x.us)
			}
		}
		i := slices.IndexFunc(cells, func(c roundsOf) bool { return c.name == row.Cell })
		if i < 0 {
			i = len(cells)
			cells = append(cells, roundsOf{name: row.Cell, again: row.A2 != nil})
		}
		c := &cells[i]
		if c.again != (row.A2 != nil) {
			return nil, fmt.Errorf("%s: some rounds of cell %.80q have a2, and some do not", row.where, c.name)
		}
		c.rounds = append(c.rounds, verdict.Round{A: *row.A, B: *row.B, A2: *cmp.Or(row.A2, row.A)})
		if row.Stream != nil {
			ratios[c.name] = append(ratios[c.name], *row.Stream / *row.B)
		}
	}
	for i, c := range cells {
		if of := ratios[c.name]; len(of) > 0 {
			cells[i].stream = stats.Median(of)
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("no rounds")
	}
	return cells, nil
}

func isTime(t float64) bool { return t > 0 && !math.IsInf(t, 1) }

// pc is a share in percent.
func pc(f float64) string { return fmt.Sprintf("%.1f", 100*f) }
