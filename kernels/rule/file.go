package rule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
)

const help = "`normbench learn` and `normbench tune RECORDS` write maps; of a change by hand, see docs/reference.md"

// Parse reads the map of the text of a tuned table, nil where it has none, and nothing else of it. Errors name the file.
func Parse(name string, data []byte) (*Map, error) {
	if err := CheckOld(name, data); err != nil {
		return nil, err
	}
	var t struct {
		Device kernels.DeviceInfo
		Map    *Map
	}
	err := durable.Verify(data)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil && t.Map != nil {
		t.Map.Device = t.Device
		err = t.Map.CheckValid()
	}
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), help), "%s: %w", name, err)
	}
	return t.Map, nil
}

// oldKind is the kind of a rules file, in JSON or YAML, near its beginning.
var oldKind = regexp.MustCompile(`"kind":\s*"rules"|(?m:^kind:\s*"?rules)`)

// CheckOld refuses the text of a rules file, as normbench wrote it before there were maps.
func CheckOld(name string, data []byte) error {
	if !oldKind.Match(data[:min(len(data), 512)]) {
		return nil
	}
	return hint.Errorf("make a map: `normbench learn --device cuda`, or `normbench tune RECORDS` from the records of the rules",
		"%s has launch rules of an older normbench, which none reads any more", name)
}

// The map as it is written. Every line of a raster and of its legend is a line of the file.
type text struct {
	Tool     string            `json:"tool,omitempty"`
	Created  time.Time         `json:"created,omitzero"`
	Protocol json.RawMessage   `json:"protocol,omitempty"`
	Runs     []Run             `json:"runs,omitempty"`
	Sources  map[string]string `json:"sources,omitempty"`
	Rasters  []rasterText      `json:"rasters"`
	CRC      string            `json:"crc,omitempty"`
}

type rasterText struct {
	Class    Class    `json:"class"`
	Align    int64    `json:"align"`
	Problems int      `json:"problems,omitempty"`
	Regret   float64  `json:"regret_percent,omitempty"`
	Rows     string   `json:"rows"`
	Legend   []string `json:"legend"`
	Lines    []string `json:"lines"`
}

// MarshalJSON implements json.Marshaler: the half of a tuned table that is the map's, with its own checksum.
func (m *Map) MarshalJSON() ([]byte, error) {
	if err := m.CheckValid(); err != nil {
		return nil, err
	}
	t := text{m.Tool, m.Created, m.Protocol, m.Runs, m.Sources, []rasterText{}, ""}
	for i := range m.Rasters {
		r := m.Rasters[i].tidy()
		x := rasterText{r.Class, r.Align, r.Problems, r.Regret, "", r.legendText(), []string{}}
		for _, b := range r.Rows {
			x.Rows += " " + b.String()
		}
		x.Rows = x.Rows[1:]
		for _, l := range r.Lines {
			x.Lines = append(x.Lines, fmt.Sprintf("%6d  %s  %s", l.From, l.Cells, l.Evidence))
		}
		t.Rasters = append(t.Rasters, x)
	}
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return durable.Seal(data), nil
}

// Checksum is the one that the map has as text, "" of a map that cannot be written.
func (m *Map) Checksum() string {
	var t struct{ CRC string }
	if data, err := m.MarshalJSON(); err == nil {
		json.Unmarshal(data, &t)
	}
	return t.CRC
}

// Strip is the map with its device alone, as a tuned table of its own, which Parse reads.
func (m *Map) Strip() ([]byte, error) {
	data, err := json.MarshalIndent(struct {
		Device kernels.DeviceInfo `json:"device"`
		Map    *Map               `json:"map"`
	}{m.Device, m}, "", "  ")
	return append(data, '\n'), err
}

// UnmarshalJSON implements json.Unmarshaler. Device is left to the caller. A legend's config with a knob that there is
// no more is zero: its cells have no answer.
func (m *Map) UnmarshalJSON(data []byte) error {
	if err := durable.Verify(data); err != nil {
		return err
	}
	var t text
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return err
	}
	*m = Map{Tool: t.Tool, Created: t.Created, Protocol: t.Protocol, Runs: t.Runs, Sources: t.Sources}
	for i := range t.Rasters {
		x := &t.Rasters[i]
		r := Raster{Class: x.Class, Align: x.Align, Problems: x.Problems, Regret: x.Regret}
		fail := func(err error) error { return hint.Errorf(help, "%s: %w", r.Title(), err) }
		for _, s := range strings.Fields(x.Rows) {
			b, err := parseBound(s)
			if err != nil {
				return fail(err)
			}
			r.Rows = append(r.Rows, b)
		}
		var err error
		if r.Legend, err = parseLegend(x.Legend); err != nil {
			return fail(err)
		}
		for _, s := range x.Lines {
			w := strings.Fields(s)
			if len(w) != 3 {
				return fail(fmt.Errorf("line %q is not columns, letters and their evidence", s))
			}
			from, err := strconv.ParseInt(w[0], 10, 64)
			if err != nil {
				return fail(fmt.Errorf("line %q begins with no number of columns", s))
			}
			r.Lines = append(r.Lines, Line{from, w[1], w[2]})
		}
		m.Rasters = append(m.Rasters, r)
	}
	return nil
}

// Title names a raster: rmsnorm/fwd/2-byte, rows at 16 bytes.
func (r *Raster) Title() string { return fmt.Sprintf("%s, rows at %d bytes", r.Class, r.Align) }

// CheckValid says what no map can hold, or nil. It is called before every write and after every read. What depends on
// the registry is Lint's.
func (m *Map) CheckValid() error {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		fail := func(format string, args ...any) error {
			return hint.Errorf(help, "%s: %w", r.Title(), fmt.Errorf(format, args...))
		}
		if i > 0 {
			if o := &m.Rasters[i-1]; compareRasters(o, r) >= 0 {
				return fail("it stands twice, or behind %s", o.Title())
			}
		}
		switch {
		case !slices.Contains(Aligns(r.Class.Bytes), r.Align):
			return fail("no rows of such elements start there")
		case len(r.Rows) == 0 || len(r.Lines) == 0:
			return fail("a raster without cells")
		case len(r.Legend) > len(Letters):
			return fail("%d configs, more than %d letters name", len(r.Legend), len(Letters))
		}
		for k := range r.Rows {
			if last := r.Rows[k].Last(m.Device.SMs); k > 0 && m.Device.SMs > 0 && last < r.Rows[k-1].Last(m.Device.SMs) || last < 1 && m.Device.SMs > 0 {
				return fail("bound %s of rows is out of order", r.Rows[k])
			}
		}
		for k, l := range r.Lines {
			switch {
			case l.From < 1 || l.From > MaxN || k > 0 && l.From <= r.Lines[k-1].From:
				return fail("columns from %d are out of order", l.From)
			case len(l.Cells) != len(r.Rows) || len(l.Evidence) != len(r.Rows):
				return fail("columns from %d: %d letters with evidence of %d, not %d", l.From, len(l.Cells), len(l.Evidence), len(r.Rows))
			}
			for j := range len(l.Cells) {
				if c := l.Cells[j]; c != Nothing && (letterOf(c) < 0 || letterOf(c) >= len(r.Legend)) {
					return fail("columns from %d: letter %q is not in the legend", l.From, c)
				}
				if !strings.ContainsRune(evidences, rune(l.Evidence[j])) {
					return fail("columns from %d: evidence %q is none of %s", l.From, l.Evidence[j], evidences)
				}
			}
		}
	}
	return nil
}

const evidences = string(Measured) + string(Neighbour) + string(Borrowed) + string(ByHand) + string(Nothing)

func compareRasters(a, b *Raster) int {
	return cmp.Or(a.Class.Compare(b.Class), cmp.Compare(b.Align, a.Align))
}

// Sort puts the rasters of m in order.
func (m *Map) Sort() {
	slices.SortFunc(m.Rasters, func(a, b Raster) int { return compareRasters(&a, &b) })
}

// tidy is r with the configs that cells use, in the order of the raster's cells.
func (r *Raster) tidy() *Raster {
	out := *r
	out.Legend, out.Lines = nil, slices.Clone(r.Lines)
	for i, l := range r.Lines {
		cells, evidence := []byte(l.Cells), []byte(l.Evidence)
		for j := range cells {
			if v, ok := r.Pick(i, j); ok {
				cells[j], _ = out.Letter(v)
			} else {
				cells[j], evidence[j] = Nothing, Nothing
			}
		}
		out.Lines[i].Cells, out.Lines[i].Evidence = string(cells), string(evidence)
	}
	return &out
}

// knobsOf are the knobs that some of vs set, in label order.
func knobsOf(vs []kernels.Variant) (ks []*kernels.Knob) {
	for _, k := range kernels.Knobs() {
		if slices.ContainsFunc(vs, func(v kernels.Variant) bool { _, ok := v.Config.Lookup(k); return ok }) {
			ks = append(ks, k)
		}
	}
	return ks
}

// legendText is the legend as a table: a line of the names, then for each letter the family and the value of each knob.
func (r *Raster) legendText() []string {
	ks := knobsOf(r.Legend)
	rows := [][]string{{"", "family"}}
	for _, k := range ks {
		rows[0] = append(rows[0], k.Key)
	}
	for i, v := range r.Legend {
		row := []string{Letters[i : i+1], v.Family}
		for _, k := range ks {
			value := "-"
			if n, ok := v.Config.Lookup(k); ok {
				value = strconv.Itoa(n)
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	wide := make([]int, len(ks)+2)
	for _, row := range rows {
		for i, s := range row {
			wide[i] = max(wide[i], len(s))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		s := fmt.Sprintf("%1s  %-*s", row[0], wide[1], row[1])
		for k := range ks {
			s += fmt.Sprintf(" %*s", wide[k+2], row[k+2])
		}
		lines[i] = s
	}
	return lines
}

// parseLegend reads what legendText writes.
func parseLegend(lines []string) (vs []kernels.Variant, err error) {
	if len(lines) == 0 {
		return nil, fmt.Errorf("the legend has no line of names")
	}
	names := strings.Fields(lines[0])
	if len(names) == 0 || names[0] != "family" {
		return nil, fmt.Errorf("the legend begins with %q, not with family and knobs", lines[0])
	}
	for i, s := range lines[1:] {
		w := strings.Fields(s)
		if len(w) != len(names)+1 || i >= len(Letters) || w[0] != Letters[i:i+1] {
			return nil, fmt.Errorf("legend %q is not a letter, in order, with a family and %d knobs", s, len(names)-1)
		}
		v, known := kernels.Variant{Family: w[1]}, true
		for j, value := range w[2:] {
			if value == "-" {
				continue
			}
			n, bad := strconv.ParseUint(value, 10, 31)
			if bad != nil {
				return nil, fmt.Errorf("legend %q: %q is no value of %s", s, value, names[j+1])
			}
			k, unknown := kernels.ParseKnob(names[j+1])
			if known = known && unknown == nil; known {
				v.Config = v.Config.With(kernels.Setting{Knob: k, Value: int(n)})
			}
		}
		if !known {
			v.Config = kernels.Config{} // Lint names it
		}
		vs = append(vs, v)
	}
	return vs, nil
}
