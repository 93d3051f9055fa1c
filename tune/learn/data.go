package learn

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// Search is the name of the strategy under which learn's records stand.
const Search = "learn"

// Data is what a map is filled from: the medians of records.
type Data struct {
	Device   kernels.DeviceInfo
	Protocol record.Protocol   // of the last record
	Tool     string            // the normbench that measured it
	Date     time.Time         // of the last record
	Sources  map[string]string // hash of each family's sources
	Points   []*Point          // in the order of record.CompareProblems
	Notes    []string          // what a reader should know, one line each
	Runs     []*record.Run     // that measured, in the order of the records
}

// A Point is what is known of one problem.
type Point struct {
	Problem kernels.Problem
	US      map[kernels.Variant]float64 // median times in microseconds
	Failed  map[kernels.Variant]bool    // tried, without a right answer
	Best    kernels.Variant             // of those in US
	BestUS  float64
	Stream  float64         // median time of a copy; 0 where none was measured
	Asked   kernels.Variant // what the map answered before learn measured; else zero
	When    time.Time       // of its latest record
}

// Add takes a record. It reports a time that replaces an older one, too.
func (p *Point) Add(r *record.Record) {
	if p.US == nil {
		p.Problem, p.US, p.Failed = r.Problem, map[kernels.Variant]float64{}, map[kernels.Variant]bool{}
	}
	v := r.Variant()
	if r.StreamUS > 0 {
		p.Stream = r.StreamUS
	}
	if r.Time.After(p.When) {
		p.When = r.Time
	}
	switch {
	case r.Status == kernels.StatusOK:
		p.US[v] = stats.Median(r.SamplesUS)
	case r.Status != record.StatusPruned && r.Status != kernels.StatusUnfit:
		p.Failed[v] = true
	}
}

// finish finds the best of what was measured, and says whether there is one.
func (p *Point) finish() bool {
	p.BestUS = 0
	for v, us := range p.US {
		if p.BestUS == 0 || us < p.BestUS || us == p.BestUS && compareVariants(v, p.Best) < 0 {
			p.Best, p.BestUS = v, us
		}
	}
	return p.BestUS > 0
}

// ErrNoTimes says that records have nothing to fill a map from.
var ErrNoTimes = errors.New("no problem with a time")

// With is the data of a loop that began with d, and measured points in a run, which is nil if it measured nothing.
func (d *Data) With(points []*Point, info kernels.DeviceInfo, run *record.Run) *Data {
	out := *d
	out.Device, out.Points = info, points
	if run != nil {
		out.Runs = append(slices.Clone(d.Runs), run)
		out.Tool, out.Protocol = run.Tool, run.Protocol
	}
	for _, p := range points {
		if p.When.After(out.Date) {
			out.Date = p.When
		}
	}
	return &out
}

// Collect reads records files of one device. Of a problem and variant the last record counts. Times
// of several devices, or of several sources of one family, do not compare: they are an error.
func Collect(paths []string) (*Data, error) {
	d := &Data{Sources: map[string]string{}}
	points := map[kernels.Problem]*Point{}
	runs, compiled := map[string]bool{}, map[string]bool{}
	first := ""
	warm := map[kernels.Problem]*Point{} // for problems without cold times
	for _, path := range paths {
		notes, err := record.Read(path, func(r *record.Record, run *record.Run) error {
			if !runs[run.ID] {
				runs[run.ID], d.Runs = true, append(d.Runs, run)
			}
			switch have, now := d.Device, run.Device; {
			case first == "":
				first = path
			case have.ID != now.ID || have.Arch != now.Arch || have.SMs != now.SMs:
				return hint.Errorf("fill the map of one device at a time",
					"records of %s and of %s, which do not compare", describe(have), describe(now))
			}
			d.Date, d.Tool, d.Protocol, d.Device = r.Time, run.Tool, run.Protocol, run.Device
			// Peers are measured beside ours; no map of ours can launch them.
			if _, peer := kernels.PeerName(r.Family); peer || r.Family == record.Stream {
				return nil
			}
			compiled[run.Device.Driver+", "+run.Device.Compiler] = true
			source := r.Source
			if old, ok := d.Sources[r.Family]; ok && old != source {
				pair := []string{old, source}
				slices.Sort(pair)
				return hint.Errorf("sweep again into the same folder, which measures what has changed, or give records of "+
					"one version of the kernels", "%s was measured with the sources %s and %s, which do not compare",
					r.Family, pair[0], pair[1])
			}
			d.Sources[r.Family] = source
			into := points
			if !run.Protocol.Cold {
				into = warm
			}
			p := into[r.Problem]
			if p == nil {
				p = &Point{}
				into[r.Problem] = p
			}
			if p.Add(r); r.Base && strings.HasPrefix(run.Protocol.Search, Search) && p.Asked.Family == "" {
				p.Asked = r.Variant()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		d.Notes = append(d.Notes, notes...)
	}
	for q, p := range warm {
		if points[q] == nil {
			points[q] = p
		}
	}
	for _, p := range points {
		if p.finish() {
			d.Points = append(d.Points, p)
		}
	}
	sortPoints(d.Points)
	if len(d.Points) == 0 {
		return nil, hint.Errorf("`normbench sweep` and `normbench learn` write records",
			"%s: %w", strings.Join(paths, ", "), ErrNoTimes)
	}
	if len(compiled) > 1 {
		d.Notes = append(d.Notes, fmt.Sprintf("records of %d compilers or drivers", len(compiled)))
	}
	return d, nil
}

func describe(d kernels.DeviceInfo) string {
	return fmt.Sprintf("%s (%s, %d SMs)", d.ID, d.Arch, d.SMs)
}

func sortPoints(ps []*Point) {
	slices.SortFunc(ps, func(a, b *Point) int { return record.CompareProblems(a.Problem, b.Problem) })
}

// compareVariants orders variants by name, so that ties depend on no order of maps or records.
func compareVariants(a, b kernels.Variant) int {
	return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Config.String(), b.Config.String()))
}
