package verdict

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/sweep/stats"
)

const roundsHelp = "give each round a and b, and a2 (a second copy of a) if there is one: " +
	"`normbench judge --help`"

// Rounds are those of one cell of a file.
type Rounds struct {
	Name   string
	Again  bool    // it has a2
	Stream float64 // median ratio of the stream to b, 0 for none
	Rounds []Round
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

// ParseRounds reads CSV or JSON, a row per round. name is for errors.
func ParseRounds(name string, data []byte) ([]Rounds, error) {
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
	var cells []Rounds
	if err == nil {
		cells, err = groupRounds(rows)
	}
	if err != nil {
		return nil, hint.Errorf(roundsHelp, "rounds %s: %s", name,
			strings.Join(strings.Fields(err.Error()), " "))
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
func groupRounds(rows []roundRow) (cells []Rounds, err error) {
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
		i := slices.IndexFunc(cells, func(c Rounds) bool { return c.Name == row.Cell })
		if i < 0 {
			i = len(cells)
			cells = append(cells, Rounds{Name: row.Cell, Again: row.A2 != nil})
		}
		c := &cells[i]
		if c.Again != (row.A2 != nil) {
			return nil, fmt.Errorf("%s: some rounds of cell %.80q have a2, and some do not", row.where,
				c.Name)
		}
		c.Rounds = append(c.Rounds, Round{A: *row.A, B: *row.B, A2: *cmp.Or(row.A2, row.A)})
		if row.Stream != nil {
			ratios[c.Name] = append(ratios[c.Name], *row.Stream / *row.B)
		}
	}
	for i, c := range cells {
		if of := ratios[c.Name]; len(of) > 0 {
			cells[i].Stream = stats.Median(of)
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("no rounds")
	}
	return cells, nil
}

func isTime(t float64) bool { return t > 0 && !math.IsInf(t, 1) }
