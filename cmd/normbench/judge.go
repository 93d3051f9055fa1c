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
	"normbench/sweep/verdict"
)

const judgeHelp = "give columns a and b, and a2 (a second copy of a) if there is one: `normbench judge --help`"

func (e *env) judgeCommand() *cli.Command {
	return &cli.Command{
		Name:      "judge",
		Usage:     "say whether b is faster than a, from paired rounds that any tool measured",
		ArgsUsage: "ROUNDS",
		Description: "A round visits a, b and, if you can, a2 (a second copy of a) in random order; its times are medians\n" +
			"of a few launches, in any one unit. 12 rounds find a change of 2% if equal visits scatter by up to 0.6%, 24 if by up\n" +
			"to 1%; of a scatter of 2% they find an eighth and a half. 10 rounds are the minimum.\n" +
			"ROUNDS is CSV with a header (a,b[,a2][,stream][,cell]), or JSON: {\"a\": [...], \"b\": [...], \"a2\": [...]} or a list of\n" +
			"{\"a\": 1.2, \"b\": 1.1}; - reads standard input. cell names the comparison; each cell is judged by itself.\n" +
			"FASTER and SLOWER speak of b, and are wrong in at most 0.5% of cells under drift, slow periods and outliers. Where one\n" +
			"side keeps a mode of its own, they can be wrong in 7 to 9% of cells (kept over 3 rounds) or 17 to 20% (over 8).\n" +
			"SAME means within 1%. TWO MODES means two groups of visits, whose medians are given. INCONCLUSIVE has a reason.\n" +
			"effect is b/a with its interval; q is p by Benjamini and Hochberg over the cells.\n" +
			"power is the chance to have called a change of 2% with this noise; need is about how many rounds would decide.\n" +
			"Without a2, nothing shows how much two copies of one code differ: then trust no effect below 2%.\n" +
			"The exit status is 0 whatever the verdict.",
		Flags: []cli.Flag{
			&cli.Float64Flag{Name: "step", Usage: "step of the clock, in the unit of the times; 0 is none"},
			formatFlag,
		},
		Action: e.judge,
	}
}

func (e *env) judge(c *cli.Context) error {
	format := c.String("format")
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench judge --help` shows its use", "judge takes one file of rounds, got %d", len(ops))
	}
	step := c.Float64("step")
	if !(step >= 0) || math.IsInf(step, 1) {
		return hint.Errorf("give it in the unit of the times", "--step %g is out of range", step)
	}
	var data []byte
	var err error
	name := ops[0]
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(os.Stdin)
	} else {
		data, err = textfile.Read(name, textfile.Large)
	}
	if err != nil {
		return hint.Errorf(cmp.Or(hint.Of(err), "give a file of rounds, or - for standard input"), "rounds %s: %w", ops[0], durable.Cause(err))
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
	return report.RenderTable(e.stdout, t, format)
}

// roundsOf are the rounds of one cell of a file.
type roundsOf struct {
	name   string
	again  bool    // it has a2
	stream float64 // median ratio of the stream to b, 0 for none
	rounds []verdict.Round
}

// arms are columns of rounds; those with one name belong together.
type arms struct {
	Cell   string    `json:"cell"`
	A      []float64 `json:"a"`
	B      []float64 `json:"b"`
	A2     []float64 `json:"a2"`
	Twin   []float64 `json:"twin"` // the name of a2 before 2026-11-24
	Stream []float64 `json:"stream"`
}

// parseRounds reads CSV or JSON. name is for errors.
func parseRounds(name string, data []byte) ([]roundsOf, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	var cells []*arms
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		if err := durable.Verify([]byte(text)); err != nil {
			return nil, fmt.Errorf("rounds %s: %w", name, err)
		}
	}
	names := map[string]bool{}
	var err error
	switch {
	case text == "":
		err = fmt.Errorf("it is empty")
	case text[0] == '{':
		a := &arms{}
		err = json.Unmarshal([]byte(text), a)
		cells = append(cells, a)
	case text[0] == '[':
		cells, err = roundList(text)
	default:
		cells, err = roundTable(text)
	}
	if err != nil {
		return nil, hint.Errorf(judgeHelp, "rounds %s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	var out []roundsOf
	for _, c := range cells {
		x, err := c.pair()
		if err == nil && names[c.Cell] {
			err = fmt.Errorf("it stands twice")
		}
		if err != nil && len(cells) > 1 {
			err = fmt.Errorf("cell %.80q: %w", c.Cell, err)
		}
		if err != nil {
			return nil, hint.Errorf(judgeHelp, "rounds %s: %w", name, err)
		}
		names[c.Cell] = true
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil, hint.Errorf(judgeHelp, "rounds %s: no rounds", name)
	}
	return out, nil
}

// roundList reads a list of rounds, or of cells with columns.
func roundList(text string) ([]*arms, error) {
	var columns []*arms
	if json.Unmarshal([]byte(text), &columns) == nil && !slices.Contains(columns, nil) {
		return columns, nil
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, err
	}
	var g grouped
	for i, row := range rows {
		err := g.add(fmt.Sprintf("round %d", i+1), func(k string) (float64, bool, error) {
			v, ok := row[k]
			if !ok {
				return 0, false, nil
			}
			f, number := v.(float64)
			if !number {
				return 0, true, fmt.Errorf("%.80q is no number", fmt.Sprint(v))
			}
			return f, true, nil
		}, row["cell"])
		if err != nil {
			return nil, err
		}
	}
	return g.cells, nil
}

func roundTable(text string) ([]*arms, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, h := range header {
		h = strings.ToLower(strings.TrimSpace(h))
		if _, twice := at[h]; twice && h != "" {
			return nil, fmt.Errorf("its header has the column %.80q twice", h)
		}
		at[h] = i
	}
	for _, h := range []string{"a", "b"} {
		if _, ok := at[h]; !ok {
			return nil, fmt.Errorf("its header %.80q has no column %s", strings.Join(header, ","), h)
		}
	}
	var g grouped
	for {
		row, err := r.Read()
		if err == io.EOF {
			return g.cells, nil
		} else if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		var cell any
		if k, ok := at["cell"]; ok {
			cell = row[k]
		}
		err = g.add(fmt.Sprintf("line %d", line), func(k string) (float64, bool, error) {
			j, ok := at[k]
			if !ok {
				return 0, false, nil
			}
			f, err := strconv.ParseFloat(strings.TrimSpace(row[j]), 64)
			if err != nil {
				return 0, true, fmt.Errorf("%.80q is no number", row[j])
			}
			return f, true, nil
		}, cell)
		if err != nil {
			return nil, err
		}
	}
}

// grouped collects rows into cells, in the order of their first rows.
type grouped struct{ cells []*arms }

// add takes a row, which is called where in errors.
func (g *grouped) add(where string, get func(column string) (float64, bool, error), cell any) error {
	name := ""
	switch cell.(type) {
	case nil:
	case string, float64, bool:
		name = fmt.Sprint(cell)
	default:
		return fmt.Errorf("%s: its cell is no name", where)
	}
	i := slices.IndexFunc(g.cells, func(c *arms) bool { return c.Cell == name })
	if i < 0 {
		i = len(g.cells)
		g.cells = append(g.cells, &arms{Cell: name})
	}
	c := g.cells[i]
	for i, to := range []*[]float64{&c.A, &c.B, &c.A2, &c.Twin, &c.Stream} {
		k := []string{"a", "b", "a2", "twin", "stream"}[i]
		v, ok, err := get(k)
		if err == nil && ok {
			err = checkTime(v)
		}
		if err != nil {
			return fmt.Errorf("%s: %s %w", where, k, err)
		}
		if ok {
			*to = append(*to, v)
		} else if k == "a" || k == "b" {
			return fmt.Errorf("%s has no %s", where, k)
		}
	}
	return nil
}

func checkTime(t float64) error {
	if !(t > 0) || math.IsInf(t, 1) {
		return fmt.Errorf("is %g, which is no time", t)
	}
	return nil
}

// pair makes rounds of columns.
func (c *arms) pair() (roundsOf, error) {
	if len(c.A2) > 0 && len(c.Twin) > 0 {
		return roundsOf{}, fmt.Errorf("it has both a2 and twin, which are one")
	}
	if len(c.A2) == 0 {
		c.A2 = c.Twin
	}
	x := roundsOf{name: c.Cell, again: len(c.A2) > 0}
	if len(c.A) == 0 || len(c.B) == 0 {
		return x, fmt.Errorf("no pairs: a has %d rounds, b %d", len(c.A), len(c.B))
	}
	for _, o := range []struct {
		name string
		t    []float64
	}{{"a", c.A}, {"b", c.B}, {"a2", c.A2}, {"stream", c.Stream}} {
		if len(o.t) != len(c.A) && (len(o.t) > 0 || o.name == "b") {
			return x, fmt.Errorf("a has %d rounds, %s %d", len(c.A), o.name, len(o.t))
		}
		for i, t := range o.t {
			if err := checkTime(t); err != nil {
				return x, fmt.Errorf("round %d: %s %w", i+1, o.name, err)
			}
		}
	}
	for i := range c.A {
		r := verdict.Round{A: c.A[i], B: c.B[i], A2: c.A[i]}
		if x.again {
			r.A2 = c.A2[i]
		}
		x.rounds = append(x.rounds, r)
	}
	if len(c.Stream) > 0 {
		ratios := make([]float64, len(c.B))
		for i := range ratios {
			ratios[i] = c.Stream[i] / c.B[i]
		}
		slices.Sort(ratios)
		x.stream = (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
	}
	return x, nil
}
