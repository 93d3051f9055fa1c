package history

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"

	"normbench/sweep/record"
)

// The formats that servers of histories read.
const (
	FormatBMF    = "bmf"
	FormatAction = "github-action-benchmark"
)

// ExportFormats lists them.
func ExportFormats() []string { return []string{FormatBMF, FormatAction} }

// Export writes the newest point of each device for another server, which has a history of its own: names are
// the problem and the arm, with the device before them where there are several.
func Export(w io.Writer, f *Log, format string) error {
	type entry struct {
		name string
		us   float64
		p    *Observation
	}
	var list []entry
	all := GroupRuns(f.Runs)
	for _, s := range all {
		p := s.Points[len(s.Points)-1]
		for _, k := range slices.SortedFunc(maps.Keys(p.Cells), record.CompareProblems) {
			c := p.Cells[k]
			for _, arm := range slices.Sorted(maps.Keys(c.US)) {
				name := k.String() + " " + arm
				if len(all) > 1 {
					name = s.Device + " " + name
				}
				list = append(list, entry{name, c.US[arm], p})
			}
		}
	}
	var out any
	if format == FormatBMF {
		type measure struct {
			Value float64 `json:"value"`
		}
		doc := map[string]map[string]measure{}
		for _, e := range list {
			doc[e.name] = map[string]measure{"latency": {round(1e3 * e.us)}} // Bencher's is in nanoseconds
		}
		out = doc
	} else {
		type bench struct {
			Name  string  `json:"name"`
			Unit  string  `json:"unit"`
			Value float64 `json:"value"`
			Range string  `json:"range,omitempty"`
			Extra string  `json:"extra,omitempty"`
		}
		doc := []bench{}
		for _, e := range list {
			b := bench{Name: e.name, Unit: "us", Value: e.us, Extra: e.p.Runs[0].Card + ", commit " + e.p.Commit}
			if n := e.p.Runs[0].Noise; n > 0 { // what two copies of one kernel differ by
				b.Range = "± " + strconv.FormatFloat(round(n*e.us), 'g', 4, 64)
			}
			doc = append(doc, b)
		}
		out = doc
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	return err
}
