package history

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A Observation is a commit on a device: its runs, one after the other, of which each has other cells.
type Observation struct {
	Commit   string
	Time     time.Time // of the last run
	Runs     []*Snapshot
	Cells    map[kernels.Problem]*Cell
	Protocol record.Protocol
}

// A DeviceHistory is what one kind of device measured, the oldest first.
type DeviceHistory struct {
	Device string
	Points []*Observation
}

// GroupRuns groups runs, in time's order, by device and commit. A commit that measured a cell again is a new
// point, so that a night after a night without a commit shows what the machine did.
func GroupRuns(runs []Snapshot) (all []*DeviceHistory) {
	by := map[string]*DeviceHistory{}
	for i := range runs {
		r := &runs[i]
		s := by[r.Device]
		if s == nil {
			s = &DeviceHistory{Device: r.Device}
			by[r.Device], all = s, append(all, s)
		}
		var p *Observation
		if n := len(s.Points); n > 0 && s.Points[n-1].takes(r) {
			p = s.Points[n-1]
		} else {
			p = &Observation{Commit: r.Commit, Cells: map[kernels.Problem]*Cell{}, Protocol: ruler(r.Protocol)}
			s.Points = append(s.Points, p)
		}
		p.Time, p.Runs = r.Time, append(p.Runs, r)
		for k := range r.Cells {
			p.join(&r.Cells[k])
		}
	}
	slices.SortFunc(all, func(a, b *DeviceHistory) int { return strings.Compare(a.Device, b.Device) })
	return all
}

// ruler returns a protocol without what does not touch a time: how the variants were found.
func ruler(p record.Protocol) record.Protocol {
	p.Phase, p.Search, p.StageSamples = "", "", 0
	return p
}

// takes says whether a run is of the point.
func (p *Observation) takes(r *Snapshot) bool {
	if p.Commit != r.Commit || p.Protocol != ruler(r.Protocol) || p.Runs[0].UUID != r.UUID || p.Runs[0].Driver != r.Driver {
		return false
	}
	for _, c := range r.Cells {
		if old := p.Cells[c.Problem]; old != nil {
			for arm := range c.US {
				if _, ok := old.US[arm]; ok && arm != Stream {
					return false
				}
			}
		}
	}
	return true
}

// join adds a cell, whose arms may be others than those that are there.
func (p *Observation) join(c *Cell) {
	old := p.Cells[c.Problem]
	if old == nil {
		p.Cells[c.Problem] = &Cell{Problem: c.Problem, Rounds: c.Rounds, US: maps.Clone(c.US), Again: c.Again}
		return
	}
	maps.Copy(old.US, c.US)
	old.Rounds = min(old.Rounds, c.Rounds)
	if c.Again > 0 {
		old.Again = c.Again
	}
}

// rounds returns the median over the cells.
func (p *Observation) rounds() float64 {
	var n []float64
	for _, c := range p.Cells {
		n = append(n, float64(c.Rounds))
	}
	return stats.Median(n)
}

// again returns the logarithms of second copies over first ones.
func (p *Observation) again() (logs []float64) {
	for _, c := range p.Cells {
		if c.Again > 0 {
			logs = append(logs, math.Log(c.Again))
		}
	}
	return logs
}

// KindOf returns a problem without its shape: rmsnorm/bwd/bf16.
func KindOf(p kernels.Problem) string {
	parts := strings.Split(p.String(), "/")
	if len(parts) > 3 {
		parts = slices.Delete(parts, 2, 3)
	}
	return strings.Join(parts, "/")
}
