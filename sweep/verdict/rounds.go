package verdict

import (
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
)

const roundsHelp = "give CSV with a header and in each round a and b, and a2 (a second copy of a) if " +
	"there is one: `normbench judge --help`"

// NamedRounds are the rounds of one comparison in a file, under its name.
type NamedRounds struct {
	Name   string
	Again  bool // it has a2
	Rounds []Round
}

// ParseRounds reads CSV with a header, a row per round. name is for errors.
func ParseRounds(name string, data []byte) ([]NamedRounds, error) {
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(data), "\ufeff"))).ReadAll()
	var cells []NamedRounds
	if err == nil {
		cells, err = groupRounds(rows)
	}
	if err != nil {
		return nil, hint.Errorf(roundsHelp, "rounds %s: %s", name,
			strings.Join(strings.Fields(err.Error()), " "))
	}
	return cells, nil
}

// groupRounds puts rows below a header into cells, in the order of their first rows.
func groupRounds(rows [][]string) (cells []NamedRounds, err error) {
	if len(rows) < 2 {
		return nil, fmt.Errorf("no rounds")
	}
	header := rows[0]
	for i, h := range header {
		header[i] = strings.ToLower(strings.TrimSpace(h))
		if h = header[i]; h != "" && slices.Contains(header[:i], h) {
			return nil, fmt.Errorf("its header has the column %.80q twice", h)
		}
	}
	if !slices.Contains(header, "a") || !slices.Contains(header, "b") {
		return nil, fmt.Errorf("its header has no a and b")
	}
	again := slices.Contains(header, "a2")
	for n, row := range rows[1:] {
		r, name := Round{}, ""
		to := map[string]*float64{"a": &r.A, "b": &r.B, "a2": &r.A2}
		for i, field := range row {
			if header[i] == "cell" {
				name = field
			} else if time := to[header[i]]; time != nil {
				if *time, err = strconv.ParseFloat(strings.TrimSpace(field), 64); err != nil {
					return nil, fmt.Errorf("round %d: %s %.80q is no number", n+1, header[i], field)
				}
			}
		}
		if !again {
			r.A2 = r.A
		}
		for _, column := range []string{"a", "b", "a2"} {
			if time := *to[column]; !(time > 0) || math.IsInf(time, 1) {
				return nil, fmt.Errorf("round %d: %s is %g, which is no time", n+1, column, time)
			}
		}
		i := slices.IndexFunc(cells, func(c NamedRounds) bool { return c.Name == name })
		if i < 0 {
			i = len(cells)
			cells = append(cells, NamedRounds{Name: name, Again: again})
		}
		cells[i].Rounds = append(cells[i].Rounds, r)
	}
	return cells, nil
}
