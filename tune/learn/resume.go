package learn

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/sweep/models"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune"
)

// Describe writes into a map where it comes from: runs, protocol and sources. The same records make the
// same text.
func (f *Filler) Describe(m *launchmap.Map, d *Data) {
	m.Tool, m.Created, m.Sources = d.Tool, d.Date.UTC().Truncate(time.Second), map[string]string{}
	for _, r := range d.Runs {
		m.Runs = append(m.Runs, tune.SummarizeRun(r))
	}
	m.Protocol, _ = json.Marshal(d.Protocol)
	source := families.NewIdentity(f.Registry, m.Device.Kind).SourceOf
	for i := range m.Rasters {
		for _, v := range m.Rasters[i].Legend {
			m.Sources[v.Family] = source(v.Family)
			if s, ok := d.Sources[v.Family]; ok {
				m.Sources[v.Family] = s
			}
		}
	}
}

// Write writes a map into the tuned table of a file, whose entries stay. It merges the map with before,
// the table as it was when the command began, and not with maps that the command wrote meanwhile; see
// launchmap.Merge.
func (f *Filler) Write(p durable.Place, before *tune.TunedTable, m *launchmap.Map) error {
	return tune.Update(p, func(old *tune.TunedTable) (*tune.TunedTable, error) {
		t := tune.TunedTable{Device: m.Device, BaseOf: f.Registry.BaseOf, Entries: []tune.Entry{}}
		if old != nil {
			t = *old
		}
		if err := t.CheckFamily(p.String(), f.Registry.BaseOf); err != nil {
			return nil, err
		}
		if t.Device.ID != m.Device.ID {
			return nil, hint.Errorf("keep one tuned table per device", "%s is of %s, and the map of %s", p,
				t.Device.ID, m.Device.ID)
		}
		if t.Schema = tune.Schema; len(t.Entries) == 0 {
			t.Tool, t.Created = m.Tool, m.Created
			if err := json.Unmarshal(m.Protocol, &t.Protocol); err != nil {
				return nil, err
			}
		}
		if t.Map = m; before == nil || before.Map == nil {
			return &t, nil
		}
		source := families.NewIdentity(f.Registry, m.Device.Kind).SourceOf
		var err error
		t.Map, err = launchmap.Merge(before.Map, m, func(box launchmap.Box, a, b kernels.Variant) bool {
			return f.BatchInvariant || before.Map.Sources[a.Family] != source(a.Family) || f.IsFaster(box, a, b)
		})
		return &t, err
	})
}

// HeldOut names the group of shapes that no map is learned from, so that maps can be judged at them.
const HeldOut = "real-widths"

// NewCoverage makes the coverage of a map to learn: a domain and classes. The widths of the models that the
// program knows have lines of their own, and so have the given ones, which are drawn most. The map of a
// rung answers where nothing was measured.
func NewCoverage(r *kernels.Registry, step launchmap.Rung, info kernels.DeviceInfo, domain shapes.Domain,
	classes []kernels.Problem, widths []int64) (*Coverage, error) {
	all, hidden := models.Default().Widths()
	if len(widths) == 0 {
		widths = hidden
	}
	heldOut, err := shapes.Select(HeldOut)
	return &Coverage{Domain: domain, Classes: classes, First: widths, HeldOut: heldOut,
		Filler: &Filler{Registry: families.AnalyticRegistry(r), Device: info, Widths: slices.Concat(all, widths),
			Prior: families.Book(r, step, info)}}, err
}

// AsksFor says whether a problem is in one of the classes.
func (p *Coverage) AsksFor(q kernels.Problem) bool {
	of := launchmap.ClassOf(q)
	return slices.ContainsFunc(p.Classes, func(c kernels.Problem) bool { return launchmap.ClassOf(c) == of })
}

// Resume loads from a records file the points that an interrupted run has measured, and how much of the
// budget it has spent on them. It refuses records of another device, driver or compiler.
func (p *Coverage) Resume(f *record.File) (*Data, time.Duration, error) {
	d, err := Gather(p.Registry.BaseOf, p.AsksFor, f)
	if err != nil {
		return nil, 0, err
	}
	if len(d.Runs) > 0 && (d.Device.ID != p.Device.ID || d.Device.Compiler != p.Device.Compiler ||
		d.Device.Driver != p.Device.Driver) {
		return nil, 0, hint.Errorf("choose another --out",
			"%s has records of %s, %s, %s, which do not compare with what this device would add",
			f.Path, d.Device.ID, d.Device.Driver, d.Device.Compiler)
	}
	d.Device = p.Device
	return d, p.timeSpent(f.SearchOutcomes().Against(p.Registry.BaseOf)), nil
}

// timeSpent adds up the time that earlier runs of learn took; of each run only the share of the classes
// asked for.
func (p *Coverage) timeSpent(entries record.Outcomes) (total time.Duration) {
	records, asked, last := map[*record.Run]int{}, map[*record.Run]int{}, map[*record.Run]time.Time{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Run.Protocol.Search, Search) {
			continue
		}
		records[e.Run]++
		if p.AsksFor(e.Problem) {
			asked[e.Run]++
		}
		if e.Time.After(last[e.Run]) {
			last[e.Run] = e.Time
		}
	}
	for run, n := range records {
		took := max(last[run].Sub(run.Time), 0)
		total += time.Duration(float64(took) * float64(asked[run]) / float64(n))
	}
	return total
}
