package learn

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// Search is the name of learn's strategy in records.
const Search = "learn"

// Data is what a map is filled from: medians of the records of one device.
type Data struct {
	Device   kernels.DeviceInfo
	Protocol record.Protocol   // of the last record
	Tool     string            // the normbench that measured it
	Date     time.Time         // of the last record
	Sources  map[string]string // hash of each family's sources
	Points   []*Point          // problems with a time, in the order of record.CompareProblems
	Notes    []string          // what a reader should know, one line each
	Runs     []*record.Run     // that measured, in the order of the records
}

// A Point holds the measured times of one problem.
type Point struct {
	Problem kernels.Problem
	US      map[kernels.Variant]float64 // median times in microseconds; infinite without a right answer
	// BestUS is the least of them. Where a sweep searched the problem in full it is the least in its
	// finals: what a search sees on the way has few samples.
	BestUS float64
	Stream float64 // median time of a copy; 0 where none was measured

	finals map[kernels.Variant]bool // of a full search; nil where there was none
}

// OK says whether the variant has a time.
func (p *Point) OK(v kernels.Variant) bool { return p.US[v] > 0 && !math.IsInf(p.US[v], 1) }

// Gather makes a point of each problem from the records of files, for a map to be filled from. It takes
// only times with a flushed cache, of the problems that keep wants, and the last record of each variant.
// It refuses records of several devices, or of several sources of one family, as they do not compare.
//
// With a family it takes only that family's times. Those of a sweep of the family against its own
// default come first; a variant without any has its times from sweeps of all families. Without a family
// it leaves out sweeps of a family against its own default.
func Gather(family string, keep func(kernels.Problem) bool, files ...*record.File) (*Data, error) {
	d := &Data{Sources: map[string]string{}}
	points := map[kernels.Problem]*Point{}
	for _, f := range files {
		d.Notes = append(d.Notes, f.Notes...)
		outcomes, runs := coldOutcomes(family, f)
		for _, run := range runs {
			if have, now := d.Device, run.Device; len(d.Runs) > 0 &&
				(have.ID != now.ID || have.Arch != now.Arch || have.SMs != now.SMs) {
				return nil, hint.Errorf("fill the map of one device at a time",
					"records of %s and of %s, which do not compare", describe(have), describe(now))
			}
			if !slices.ContainsFunc(d.Runs, func(o *record.Run) bool { return o.ID == run.ID }) {
				d.Runs = append(d.Runs, run)
			}
			d.Tool, d.Protocol, d.Device = run.Tool, run.Protocol, run.Device
		}
		for _, e := range outcomes {
			if e.Time.After(d.Date) {
				d.Date = e.Time
			}
			// Peers are measured beside ours; no map of ours can launch them.
			name := e.Variant.Family
			if _, peer := kernels.PeerName(name); peer || name == record.Stream {
				continue
			}
			if old := cmp.Or(d.Sources[name], e.Source); old != e.Source {
				return nil, hint.Errorf("sweep again into the same folder, which measures what "+
					"has changed, or give records of "+
					"one version of the kernels", "%s was measured with the sources %s and %s, "+
					"which do not compare",
					name, min(old, e.Source), max(old, e.Source))
			}
			d.Sources[name] = e.Source
			if points[e.Problem] == nil {
				points[e.Problem] = &Point{Problem: e.Problem, US: map[kernels.Variant]float64{}}
			}
			points[e.Problem].add(e, family)
		}
	}
	for q, p := range points {
		if p.BestUS = p.bestTime(); !math.IsInf(p.BestUS, 1) && keep(q) {
			d.Points = append(d.Points, p)
		}
	}
	slices.SortFunc(d.Points, func(a, b *Point) int { return record.CompareProblems(a.Problem, b.Problem) })
	return d, nil
}

// coldOutcomes returns the cold outcomes of a file that count for a family, or with "" for all, later
// ones last. runs are the runs that measured some of them, or nothing at all.
func coldOutcomes(family string, f *record.File) (entries record.Outcomes, runs []*record.Run) {
	counts := func(e *record.Outcome) bool {
		return e.BaseOf == family && e.Rivals() || e.BaseOf == "" && e.Variant.Family == family
	}
	of, others := map[*record.Run]bool{}, map[*record.Run]bool{}
	for _, e := range slices.Concat(f.SearchOutcomes(), f.LatestOutcomes()) {
		if counts(e) {
			of[e.Run] = true
		} else {
			others[e.Run] = true
		}
	}
	for _, run := range f.Runs {
		if of[run] || !others[run] {
			runs = append(runs, run)
		}
	}
	cold := func(e *record.Outcome) bool { return e.Run.Protocol.Cold && counts(e) }
	entries = slices.Concat(f.SearchOutcomes(cold), f.LatestOutcomes(cold))
	slices.SortStableFunc(entries, func(a, b *record.Outcome) int { // its own times replace the others
		return strings.Compare(a.BaseOf, b.BaseOf)
	})
	return entries, runs
}

// add adds the time of an outcome. Finals among all families do not count as a full search of one.
func (p *Point) add(e *record.Outcome, family string) {
	p.Stream = cmp.Or(e.StreamUS, p.Stream)
	switch {
	case e.Status == kernels.StatusOK:
		p.US[e.Variant] = e.Median
		if e.Run.Protocol.Phase == record.PhaseFinal && e.BaseOf == family {
			if p.finals == nil {
				p.finals = map[kernels.Variant]bool{}
			}
			p.finals[e.Variant] = true
		}
	case e.Status != kernels.StatusUnfit:
		p.US[e.Variant] = math.Inf(1)
	}
}

// bestTime computes BestUS, infinite where no variant is right.
func (p *Point) bestTime() float64 {
	best := math.Inf(1)
	for v, us := range p.US {
		if p.finals == nil || p.finals[v] {
			best = min(best, us)
		}
	}
	return best
}

// Collect reads records files of one device and gathers their points; see Gather. It fails where there
// is none.
func Collect(family string, paths []string) (*Data, error) {
	var files []*record.File
	for _, path := range paths {
		f, err := record.Load(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	d, err := Gather(family, func(kernels.Problem) bool { return true }, files...)
	if err != nil {
		return nil, err
	}
	if len(d.Points) == 0 {
		of, next := "", "`normbench sweep` and `normbench map learn` write records"
		if family != "" {
			of = " of " + family
		}
		for _, f := range files {
			for _, e := range f.LatestOutcomes() {
				if e.BaseOf != "" && e.BaseOf != family {
					next = "add --family " + e.BaseOf + ": they have times of it against itself"
				}
			}
		}
		return nil, hint.Errorf(next, "%s: no problem with a cold time%s", strings.Join(paths, ", "), of)
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

// describe names a device with its architecture and SMs, for errors.
func describe(d kernels.DeviceInfo) string {
	return fmt.Sprintf("%s (%s, %d SMs)", d.ID, d.Arch, d.SMs)
}

// compareVariants orders variants by name, so that ties do not depend on the order of Go's maps or of
// records.
func compareVariants(a, b kernels.Variant) int {
	return cmp.Or(strings.Compare(a.Family, b.Family), strings.Compare(a.Config.String(), b.Config.String()))
}
