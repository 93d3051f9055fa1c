package learn

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
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

// Data is what a map is filled from: the medians of records of one device.
type Data struct {
	Device   kernels.DeviceInfo
	Protocol record.Protocol   // of the last record
	Tool     string            // the normbench that measured it
	Date     time.Time         // of the last record
	Sources  map[string]string // hash of each family's sources
	Points   []*Point          // problems with a time, in the order of record.CompareProblems; see Sort
	Notes    []string          // what a reader should know, one line each
	Runs     []*record.Run     // that measured, in the order of the records

	Keep func(kernels.Problem) bool // where set, the problems that Points has

	all map[kernels.Problem]*Point
}

// A Point is what is known of one problem.
type Point struct {
	Problem kernels.Problem
	US      map[kernels.Variant]float64 // median times in microseconds; infinite without a right answer
	BestUS  float64                     // the least of them
	Stream  float64                     // median time of a copy; 0 where none was measured
}

// OK says whether there is a time of a variant.
func (p *Point) OK(v kernels.Variant) bool { return p.US[v] > 0 && !math.IsInf(p.US[v], 1) }

// with is p with a record. p itself does not change: somebody may be reading it.
func (p *Point) with(r *record.Record) *Point {
	q := *p
	q.US, q.Stream = map[kernels.Variant]float64{}, cmp.Or(r.StreamUS, p.Stream)
	maps.Copy(q.US, p.US)
	switch {
	case r.Status == kernels.StatusOK:
		q.US[r.Variant()] = stats.Median(r.SamplesUS)
	case r.Status != record.StatusPruned && r.Status != kernels.StatusUnfit:
		q.US[r.Variant()] = math.Inf(1)
	}
	q.BestUS = slices.Min(append(slices.Collect(maps.Values(q.US)), math.Inf(1)))
	return &q
}

// ErrNoTimes says that records have nothing to fill a map from.
var ErrNoTimes = errors.New("no problem with a cold time")

// Add takes a record of a run, if its times are cold. Of a problem and variant the last record
// counts. Times of several devices, or of several sources of one family, do not compare: they are an
// error.
func (d *Data) Add(run *record.Run, r *record.Record) error {
	if d.all == nil {
		d.Sources, d.all = map[string]string{}, map[kernels.Problem]*Point{}
	}
	if have, now := d.Device, run.Device; len(d.Runs) > 0 &&
		(have.ID != now.ID || have.Arch != now.Arch || have.SMs != now.SMs) {
		return hint.Errorf("fill the map of one device at a time",
			"records of %s and of %s, which do not compare", describe(have), describe(now))
	}
	if !slices.ContainsFunc(d.Runs, func(o *record.Run) bool { return o.ID == run.ID }) {
		d.Runs = append(d.Runs, run)
	}
	d.Date, d.Tool, d.Protocol, d.Device = r.Time, run.Tool, run.Protocol, run.Device
	// Peers are measured beside ours; no map of ours can launch them.
	if _, peer := kernels.PeerName(r.Family); peer || r.Family == record.Stream || !run.Protocol.Cold {
		return nil
	}
	if old, ok := d.Sources[r.Family]; ok && old != r.Source {
		return hint.Errorf("sweep again into the same folder, which measures what has changed, or give records of "+
			"one version of the kernels", "%s was measured with the sources %s and %s, which do not compare",
			r.Family, min(old, r.Source), max(old, r.Source))
	}
	d.Sources[r.Family] = r.Source
	p := d.all[r.Problem]
	if p == nil {
		p = &Point{Problem: r.Problem}
	}
	d.all[r.Problem] = p.with(r)
	return nil
}

// Sort fills in Points.
func (d *Data) Sort() {
	d.Points = nil
	for q, p := range d.all {
		if !math.IsInf(p.BestUS, 1) && (d.Keep == nil || d.Keep(q)) {
			d.Points = append(d.Points, p)
		}
	}
	slices.SortFunc(d.Points, func(a, b *Point) int { return record.CompareProblems(a.Problem, b.Problem) })
}

// Collect reads records files of one device; see Add.
func Collect(paths []string) (*Data, error) {
	d := &Data{}
	for _, path := range paths {
		notes, err := record.Read(path, func(r *record.Record, run *record.Run) error { return d.Add(run, r) })
		if err != nil {
			return nil, err
		}
		d.Notes = append(d.Notes, notes...)
	}
	if d.Sort(); len(d.Points) == 0 {
		return nil, hint.Errorf("`normbench sweep` and `normbench learn` write records",
			"%s: %w", strings.Join(paths, ", "), ErrNoTimes)
	}
	compiled := map[string]bool{}
	for _, r := range d.Runs {
		compiled[r.Device.Driver+", "+r.Device.Compiler] = true
	}
	if len(compiled) > 1 {
		d.Notes = append(d.Notes, fmt.Sprintf("records of %d compilers or drivers", len(compiled)))
	}
	return d, nil
}

func describe(d kernels.DeviceInfo) string {
	return fmt.Sprintf("%s (%s, %d SMs)", d.ID, d.Arch, d.SMs)
}

// compareVariants orders variants by name, so that ties depend on no order of maps or records.
func compareVariants(a, b kernels.Variant) int {
	if c := cmp.Compare(a.Family, b.Family); c != 0 {
		return c
	}
	return cmp.Compare(a.Config.String(), b.Config.String())
}
