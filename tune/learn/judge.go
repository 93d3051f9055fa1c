package learn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/rule"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A Judged is a problem that the map had not seen, with the best that a full search finds there.
// Both were timed again in the same rounds.
type Judged struct {
	Problem kernels.Problem `json:"problem"`
	Pick    kernels.Variant `json:"pick"`
	Found   kernels.Variant `json:"found"`
	PickUS  float64         `json:"pick_us"`
	FoundUS float64         `json:"found_us"`
	// Regret is the pick's time over the found one's, in percent, with its 95% interval.
	Regret   float64    `json:"regret_percent"`
	Interval [2]float64 `json:"interval_percent"`
	// AboveFloor is the same without the time of an empty launch in both; nil where that is not
	// known.
	AboveFloor *float64 `json:"above_floor_percent,omitempty"`
}

// A Judgement is how good a map is on fresh problems.
type Judgement struct {
	Time     time.Time `json:"time"`
	Tool     string    `json:"tool"`
	Command  []string  `json:"command"`
	Seed     uint64    `json:"seed"`
	FloorUS  float64   `json:"floor_us,omitempty"` // of an empty launch
	Problems []Judged  `json:"problems"`
	// Mean is the geometric mean of Regret with its 95% interval over shapes, MeanAboveFloor that
	// without the floor.
	Mean           float64    `json:"mean_percent"`
	Interval       [2]float64 `json:"interval_percent"`
	MeanAboveFloor *float64   `json:"mean_above_floor_percent,omitempty"`
	P95            float64    `json:"p95_percent"`
	Worst          float64    `json:"worst_percent"`
	Failed         int        `json:"failed,omitempty"` // problems without a time
}

// judgeSalt keeps the problems of a judgement from being those that learn draws with the same seed.
const judgeSalt = 0x6a756467

// Judge draws so many problems that were not measured, each shape once, searches each in full, and
// times what was found against the map's pick.
func Judge(ctx context.Context, l *Loop, m *rule.Map, n int, progress func(string)) (*Judgement, error) {
	info := l.Devices[0].Info()
	reg := families.Over(l.Registry, m)
	var ps []kernels.Problem
	for _, s := range l.Domain.Draw(2*n+8, l.Seed^judgeSalt) {
		p := sized(l.Classes[len(ps)%len(l.Classes)], s.M, s.N)
		if len(ps) < n && l.Data.all[p] == nil && p.CheckFits(info) == nil {
			ps = append(ps, p)
		}
	}
	tasks, err := sweep.Grid(ctx, reg, ps, info, nil, nil)
	if err != nil {
		return nil, err
	}
	const rounds, finalists = 12, 8
	run := l.Run
	run.ID, run.Time = "judge", l.Now().UTC().Truncate(time.Millisecond)
	final := run
	final.ID += "-finals"
	run.Protocol, final.Protocol = sweep.SearchProtocols(run.Protocol, search.Auto, search.Budget{}, rounds)
	found := map[kernels.Problem]kernels.Variant{}
	o := sweep.Options{Run: run, Seed: l.Seed, Search: &sweep.Searching{Strategy: search.Auto,
		Final: final, Finals: finalists, Rounds: rounds}}
	o.Finished = func(recs []*record.Record) error {
		for _, r := range recs {
			if r.Chosen != "" && r.Status == kernels.StatusOK {
				found[r.Problem] = r.Variant()
			}
		}
		progress(fmt.Sprintf("searched %d of %d problems", len(found), len(ps)))
		return nil
	}
	if _, err := sweep.Run(ctx, reg, l.Devices, tasks, unkept{}, o); err != nil {
		return nil, err
	}
	j := &Judgement{Time: run.Time, Tool: run.Tool, Command: run.Command, Seed: l.Seed, FloorUS: run.FloorUS}
	pr := l.Run.Protocol
	pr.Samples = 8
	for i, t := range tasks {
		v, ok := found[t.Problem]
		if !ok {
			j.Failed++
			continue
		}
		d, err := ab.Fight(ctx, reg, l.Devices[0], ab.Duel{Problem: t.Problem, A: v, B: t.Base}, ab.Options{
			Protocol: pr, Order: ab.OrderRandom, Seed: l.Seed + uint64(i), More: func(c verdict.Cell) bool { return len(c.Rounds) < rounds }})
		if err != nil {
			return nil, err
		}
		if d.Status != kernels.StatusOK {
			j.Failed++
			continue
		}
		j.Problems = append(j.Problems, judged(d, j.FloorUS))
		progress(fmt.Sprintf("compared %d of %d problems", i+1, len(tasks)))
	}
	j.sum()
	return j, nil
}

// judged is what a duel of a found variant, A, with the map's pick, B, says.
func judged(d *ab.Result, floor float64) Judged {
	var a, b []float64
	for _, r := range d.Rounds {
		a, b = append(a, r.A), append(b, r.B)
	}
	x := Judged{Problem: d.Problem, Pick: d.B, Found: d.A, PickUS: stats.Median(b), FoundUS: stats.Median(a)}
	if d.A != d.B {
		more, lo, hi, _ := verdict.Gain(b, a)
		x.Regret, x.Interval = 100*more, [2]float64{100 * lo, 100 * hi}
	}
	if floor > 0 && x.FoundUS > 1.05*floor {
		above := x.Regret * x.FoundUS / (x.FoundUS - floor)
		x.AboveFloor = &above
	}
	return x
}

// sum fills in the means.
func (j *Judgement) sum() {
	var ps []kernels.Problem
	var logs [][]float64
	var regrets, above []float64
	for _, x := range j.Problems {
		ps, logs = append(ps, x.Problem), append(logs, []float64{math.Log1p(x.Regret / 100)})
		regrets = append(regrets, x.Regret)
		if x.AboveFloor != nil {
			above = append(above, 1+*x.AboveFloor/100)
		}
	}
	if len(ps) == 0 {
		return
	}
	_, mean, lo, hi := verdict.Mean(ps, logs)
	j.Mean, j.Interval = 100*(mean-1), [2]float64{100 * (lo - 1), 100 * (hi - 1)}
	if len(above) > 0 {
		m := 100 * (stats.GeoMean(above) - 1)
		j.MeanAboveFloor = &m
	}
	j.P95, j.Worst = stats.Quantile(0.95, regrets), slices.Max(regrets)
}

// unkept is a sink that keeps nothing: what is searched again was never measured.
type unkept struct{}

func (unkept) AppendAll(...interface{ CheckValid() error }) error { return nil }
func (unkept) Status(string) (kernels.Status, bool)               { return "", false }
