package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A builder collects the cells of runs.
type builder struct {
	runs  map[string]*Snapshot
	cells map[string]map[kernels.Problem]*Cell // by run
}

// cell returns that of a problem in a run.
func (b *builder) cell(of *record.Run, p kernels.Problem) *Cell {
	if b.runs == nil {
		b.runs, b.cells = map[string]*Snapshot{}, map[string]map[kernels.Problem]*Cell{}
	}
	if b.runs[of.ID] == nil {
		d := of.Device
		b.runs[of.ID] = &Snapshot{Schema: Schema, ID: of.ID, Commit: commitOf(of.Tool), Time: of.Time.UTC(), Device: d.ID, Card: d.Name,
			UUID: d.UUID, Driver: cmp.Or(d.DriverVersion, d.Driver), Compiler: d.Compiler, Protocol: of.Protocol}
		b.cells[of.ID] = map[kernels.Problem]*Cell{}
	}
	if b.cells[of.ID][p] == nil {
		b.cells[of.ID][p] = &Cell{Problem: p, US: map[string]float64{}}
	}
	return b.cells[of.ID][p]
}

// finish makes the runs, the oldest first. commit stands in place of the build's, where it is not empty.
func (b *builder) finish(commit string) (runs []Snapshot) {
	for id, r := range b.runs {
		for _, p := range slices.SortedFunc(maps.Keys(b.cells[id]), record.CompareProblems) {
			r.Cells = append(r.Cells, *b.cells[id][p])
		}
		r.Noise = noise(r.Cells)
		r.Commit = cmp.Or(commit, r.Commit, "unknown")
		runs = append(runs, *r)
	}
	slices.SortFunc(runs, func(x, y Snapshot) int { return cmp.Or(x.Time.Compare(y.Time), cmp.Compare(x.ID, y.ID)) })
	return runs
}

// noise returns the median difference of a second copy from the first.
func noise(cells []Cell) float64 {
	var all []float64
	for _, c := range cells {
		if c.Again > 0 {
			all = append(all, math.Abs(math.Log(c.Again)))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return round(stats.Median(all))
}

// round keeps six digits behind the point: a millionth of a ratio, a picosecond of a time.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// LiveRuns returns the lines of a live compare. (One that was resumed is one line.)
func LiveRuns(l *report.LiveFile, commit string) ([]Snapshot, error) {
	b := &builder{}
	for _, d := range l.Duels {
		if d.Status != kernels.StatusOK {
			continue
		}
		armA, armB := armsOf(d, l)
		b.cell(&l.Run, d.Problem).fill(d, armA, armB)
	}
	runs := b.finish(commit)
	if len(runs) == 0 {
		return nil, noTimes()
	}
	return runs, nil
}

func noTimes() error {
	return hint.Errorf("`normbench report RESULT` says why", "it has no problem with a time")
}

// armsOf returns the arms of a duel. Beside a peer stands the base where the operand says so, else ours; of two
// that are ours the first is the base.
func armsOf(d *ab.DuelResult, l *report.LiveFile) (a, b string) {
	peerA, isA := kernels.PeerName(d.A.Family)
	peerB, isB := kernels.PeerName(d.B.Family)
	beside := func(operand string) string {
		if operand == "base" {
			return Base
		}
		return Ours
	}
	switch {
	case isA && isB:
		return PeerArm + peerA, PeerArm + peerB
	case isA:
		return PeerArm + peerA, beside(l.B)
	case isB:
		return beside(l.A), PeerArm + peerB
	}
	return Base, Ours
}

func (c *Cell) fill(d *ab.DuelResult, a, b string) {
	var as, bs, ratios []float64
	for _, r := range d.Rounds {
		as, bs = append(as, r.A), append(bs, r.B)
		if r.A > 0 && r.A2 > 0 && r.A2 != r.A {
			ratios = append(ratios, r.A2/r.A)
		}
	}
	c.Rounds = len(d.Rounds)
	for arm, us := range map[string]float64{a: stats.Median(as), b: stats.Median(bs), Stream: d.StreamUS} {
		if us > 0 {
			c.US[arm] = round(us)
		}
	}
	if len(ratios) > 0 {
		c.Again = round(stats.Median(ratios))
	}
}

// SideRuns returns the lines of recorded sides, by the arm of each: a line for each run that measured a part.
func SideRuns(sides map[string]report.Side, commit string) ([]Snapshot, error) {
	b := &builder{}
	for arm, s := range sides {
		for p, x := range s.Cells {
			if x.Status != kernels.StatusOK || x.Run == nil || x.Run.ID == "" || !(x.Median > 0) {
				continue
			}
			c := b.cell(x.Run, p)
			c.US[arm] = round(x.Median)
			if x.StreamUS > 0 {
				c.US[Stream] = round(x.StreamUS)
			}
			n := x.N
			if f := x.Finals(); len(f.Rounds) > 0 {
				if n = len(f.Rounds); arm == Base && len(f.BaseAgain) > 0 {
					c.Again = round(stats.Median(f.BaseAgain) / stats.Median(f.Rounds))
				}
			}
			if c.Rounds == 0 || n < c.Rounds {
				c.Rounds = n
			}
		}
	}
	runs := b.finish(commit)
	if len(runs) == 0 {
		return nil, noTimes()
	}
	return runs, nil
}

// commitOf returns the commit in a version of normbench, such as 0.4.0.dev20261129152146+g40f67d6, or the version
// where it has none. Older runs have the commit alone.
func commitOf(version string) string {
	if _, commit, found := strings.Cut(version, "+g"); found {
		return commit
	}
	return version
}
