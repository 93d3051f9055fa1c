package launchmap

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"normbench/internal/hint"
	"normbench/kernels"
)

const help = "`normbench map learn` and `normbench map fill RECORDS` write maps; of a change by hand, " +
	"see docs/records.md"

// oldKind matches the kind of a rules file, in JSON or YAML, near its beginning.
var oldKind = regexp.MustCompile(`"kind":\s*"rules"|(?m:^kind:\s*"?rules)`)

// CheckOld refuses a rules file, which earlier versions of normbench wrote before there were maps.
func CheckOld(name string, data []byte) error {
	if !oldKind.Match(data[:min(len(data), 512)]) {
		return nil
	}
	return hint.Errorf("make a map: `normbench map learn --device cuda`, or `normbench map fill RECORDS` "+
		"from the records of the rules",
		"%s has launch rules of an older normbench, which none reads any more", name)
}

// A mapJSON is a map without methods.
type mapJSON Map

// MarshalJSON writes the map's half of a tuned table. Every line of a raster and of its legend is a line
// of the file.
func (m *Map) MarshalJSON() ([]byte, error) {
	if err := m.CheckValid(); err != nil {
		return nil, err
	}
	out := mapJSON(*m)
	out.Rasters = make([]Raster, len(m.Rasters))
	for i := range m.Rasters {
		out.Rasters[i] = *m.Rasters[i].withUsedConfigs()
	}
	return json.Marshal(out)
}

// Checksum returns the beginning of the SHA-256 of the map as text, by which exported code names the map
// that it was made from. It is "" for a map that cannot be written.
func (m *Map) Checksum() string {
	data, err := m.MarshalJSON()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// UnmarshalJSON reads a map; the caller sets Device. A config in a legend with a knob that does not
// exist any more becomes zero: its cells have no answer.
func (m *Map) UnmarshalJSON(data []byte) error {
	var t struct {
		mapJSON
		CRC string // of files of earlier versions
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(&t)
	*m = Map(t.mapJSON)
	return err
}

// MarshalText writes a band as a line: columns, letters and their evidence.
func (l Band) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%6d  %s  %s", l.From, l.Cells, l.Evidence), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Band) UnmarshalText(text []byte) error {
	w := strings.Fields(string(text))
	if len(w) != 3 {
		return fmt.Errorf("line %q is not columns, letters and their evidence", text)
	}
	from, err := strconv.ParseInt(w[0], 10, 64)
	if err != nil {
		return fmt.Errorf("line %q begins with no number of columns", text)
	}
	*l = Band{from, w[1], w[2]}
	return nil
}

// Title names the raster: rmsnorm/fwd/2-byte, rows at 16 bytes.
func (r *Raster) Title() string { return fmt.Sprintf("%s, rows at %d bytes", r.Class, r.Align) }

// CheckValid refuses a map that no file may hold. It is called before every write and after every read.
// Checks that need the registry are Lint's.
func (m *Map) CheckValid() error {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		err := r.checkValid(m.Device.SMs)
		if i > 0 && compareRasters(&m.Rasters[i-1], r) >= 0 {
			err = fmt.Errorf("it stands twice, or behind %s", m.Rasters[i-1].Title())
		}
		if err != nil {
			return hint.Errorf(help, "%s: %w", r.Title(), err)
		}
	}
	return nil
}

// checkValid refuses a raster whose cells, bounds or letters do not fit together.
func (r *Raster) checkValid(sms int) error {
	switch {
	case !slices.Contains(Aligns(r.Class.Bytes), r.Align):
		return errors.New("no rows of such elements start there")
	case len(r.Rows) == 0 || len(r.Lines) == 0:
		return errors.New("a raster without cells")
	case r.Lines[0].From > MinN || r.Rows[len(r.Rows)-1] != Bound{Rows: MaxM}:
		return fmt.Errorf("its lines begin beyond %d columns, or its bounds end before %d rows", MinN, MaxM)
	case r.BatchInvariant != 0 && !(r.BatchInvariant > 0 && r.isBatchInvariant()):
		return fmt.Errorf("batch_invariant is %g, and a range of columns has several configs or that is no factor", r.BatchInvariant)
	case len(r.Legend) > len(Letters):
		return fmt.Errorf("%d configs, more than %d letters name", len(r.Legend), len(Letters))
	}
	for k, b := range r.Rows {
		if k > 0 && b.Last(sms) < r.Rows[k-1].Last(sms) && sms > 0 {
			return fmt.Errorf("bound %s of rows is out of order", b)
		}
	}
	for k, l := range r.Lines {
		switch {
		case l.From < 1 || l.From > MaxN || k > 0 && l.From <= r.Lines[k-1].From:
			return fmt.Errorf("columns from %d are out of order", l.From)
		case len(l.Cells) != len(r.Rows) || len(l.Evidence) != len(r.Rows):
			return fmt.Errorf("columns from %d: %d letters with evidence of %d, not %d",
				l.From, len(l.Cells), len(l.Evidence), len(r.Rows))
		}
		known := string(Nothing) + Letters[:len(r.Legend)]
		if c := strings.Trim(l.Cells, known); c != "" {
			return fmt.Errorf("columns from %d: letter %q is not in the legend", l.From, c[0])
		}
		if c := strings.Trim(l.Evidence, evidences); c != "" {
			return fmt.Errorf("columns from %d: evidence %q is none of %s", l.From, c[0], evidences)
		}
	}
	return nil
}

const evidences = string(Measured) + string(Neighbour) + string(Borrowed) + string(ByHand) + string(Nothing)

// compareRasters orders rasters by class, then the widest alignment first.
func compareRasters(a, b *Raster) int {
	return cmp.Or(a.Class.Compare(b.Class), cmp.Compare(b.Align, a.Align))
}

// Sort puts the map's rasters in order.
func (m *Map) Sort() {
	slices.SortFunc(m.Rasters, func(a, b Raster) int { return compareRasters(&a, &b) })
}

// isBatchInvariant says whether each line has one config.
func (r *Raster) isBatchInvariant() bool {
	return !slices.ContainsFunc(r.Lines, func(l Band) bool {
		cells := strings.ReplaceAll(l.Cells, string(Nothing), "")
		return cells != "" && strings.Trim(cells, cells[:1]) != ""
	})
}

// withUsedConfigs copies r with only the configs that cells use, with letters in the order of the cells. One that
// has several in a line is not batch-invariant.
func (r *Raster) withUsedConfigs() *Raster {
	out := *r
	out.Legend, out.Lines = nil, slices.Clone(r.Lines)
	if !r.isBatchInvariant() {
		out.BatchInvariant = 0
	}
	for i, l := range r.Lines {
		cells, evidence := []byte(l.Cells), []byte(l.Evidence)
		for j := range cells {
			if v, ok := r.Pick(i, j); ok {
				cells[j], _ = out.AddLetter(v)
			} else {
				cells[j], evidence[j] = Nothing, Nothing
			}
		}
		out.Lines[i].Cells, out.Lines[i].Evidence = string(cells), string(evidence)
	}
	return &out
}

// knobsOf lists the knobs that some of vs set, in label order.
func knobsOf(vs []kernels.Variant) (ks []*kernels.Knob) {
	for _, k := range kernels.Knobs() {
		if slices.ContainsFunc(vs, func(v kernels.Variant) bool { _, ok := v.Config.Lookup(k); return ok }) {
			ks = append(ks, k)
		}
	}
	return ks
}

// A Legend has the config of each letter.
type Legend []kernels.Variant

// MarshalJSON writes the legend as a table: a line of names, then for each letter the family and the
// value of each knob.
func (vs Legend) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	ks := knobsOf(vs)
	fmt.Fprint(w, " \tfamily")
	for _, k := range ks {
		fmt.Fprint(w, "\t", k.Key)
	}
	for i, v := range vs {
		fmt.Fprintf(w, "\n%c\t%s", Letters[i], v.Family)
		for _, k := range ks {
			if n, ok := v.Config.Lookup(k); ok {
				fmt.Fprint(w, "\t", n)
			} else {
				fmt.Fprint(w, "\t-")
			}
		}
	}
	w.Flush()
	return json.Marshal(strings.Split(b.String(), "\n"))
}

// UnmarshalJSON implements json.Unmarshaler.
func (vs *Legend) UnmarshalJSON(data []byte) error {
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return err
	}
	names := strings.Fields(strings.Join(lines[:min(len(lines), 1)], ""))
	if len(names) == 0 || names[0] != "family" {
		return fmt.Errorf("a legend begins with %q, not with family and knobs", names)
	}
	for i, s := range lines[1:] {
		w := strings.Fields(s)
		if len(w) != len(names)+1 || i >= len(Letters) || w[0] != Letters[i:i+1] {
			return fmt.Errorf("legend %q is not a letter, in order, with a family and %d knobs", s,
				len(names)-1)
		}
		v, known := kernels.Variant{Family: w[1]}, true
		for j, value := range w[2:] {
			if value == "-" {
				continue
			}
			n, bad := strconv.ParseUint(value, 10, 31)
			if bad != nil {
				return fmt.Errorf("legend %q: %q is no value of %s", s, value, names[j+1])
			}
			k, unknown := kernels.FindKnob(names[j+1])
			if known = known && unknown == nil; known {
				v.Config = v.Config.With(kernels.Setting{Knob: k, Value: int(n)})
			}
		}
		if !known {
			v.Config = kernels.Config{} // Lint names it
		}
		*vs = append(*vs, v)
	}
	return nil
}
