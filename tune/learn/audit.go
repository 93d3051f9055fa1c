package learn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// auditSalt changes the seed, so that an audit draws other problems than learn does with the same seed.
const auditSalt = 0x6a756467

// Audit measures how far a map's answers are behind full searches. It draws n problems that were not
// measured, each shape once, searches each in full, and compares what was found (A) with the map's
// answer (B) in paired rounds. It leaves out problems for which the search found no right variant.
func Audit(ctx context.Context, l *Loop, m *launchmap.Map, n int, progress func(string)) (*ab.Experiment, error) {
	info := l.Devices[0].Info()
	reg := families.ExtendRegistry(l.Registry, m)
	known := map[kernels.Problem]bool{}
	for _, p := range l.Data.Points {
		known[p.Problem] = true
	}
	var ps []kernels.Problem
	for _, s := range l.Domain.DrawShapes(2*n+8, l.Seed^auditSalt) {
		p := withShape(l.Classes[len(ps)%len(l.Classes)], s.M, s.N)
		if len(ps) == n || known[p] || p.CheckFits(info) != nil {
			continue
		}
		if _, err := reg.Base(p, info); err == nil { // one family does not serve all
			ps = append(ps, p)
		}
	}
	tasks, err := sweep.Grid(ctx, reg, ps, info, nil, nil)
	if err != nil {
		return nil, err
	}
	const finalRounds, finalists = 12, 8
	run := l.Run
	run.ID, run.Time = "audit", l.Now().UTC().Truncate(time.Millisecond)
	found := map[kernels.Problem]kernels.Variant{}
	o := sweep.RunOptions{Run: run, Seed: l.Seed}
	o.SearchBy(&sweep.SearchOptions{Strategy: search.Auto, Finals: finalists,
		Rounds: finalRounds})
	o.Finished = func(recs []*record.Record) error {
		for _, r := range recs {
			if r.Chosen != "" && r.Status == kernels.StatusOK {
				found[r.Problem] = r.Variant()
			}
		}
		progress(fmt.Sprintf("searched %d of %d problems", len(found), len(ps)))
		return nil
	}
	if _, err := sweep.Run(ctx, reg, l.Devices, tasks, discardRecords{}, o); err != nil {
		return nil, err
	}
	match := &ab.Experiment{Schema: ab.Schema, Run: run, A: "a full search", B: "the map", Rule: verdict.Default()}
	match.Rule.Plan = verdict.Pocock(match.Rule.Alpha, finalRounds)
	match.Run.Protocol = l.Run.Protocol
	match.Run.Protocol.Samples = 8
	var pairs []ab.Pair
	for _, t := range tasks {
		if v, ok := found[t.Problem]; ok {
			pairs = append(pairs, ab.Pair{Problem: t.Problem, Of: [2][]kernels.Variant{{v}, {t.Base}}})
		}
	}
	c := &ab.Runner{Registry: reg, Device: l.Devices[0], Protocol: match.Run.Protocol, Seed: l.Seed,
		Finished: func(*ab.DuelResult) error {
			progress(fmt.Sprintf("compared %d of %d problems", len(match.Duels), len(pairs)))
			return nil
		}}
	return match, c.Run(ctx, match, pairs, pairs)
}

// RegretNotes says how far B is behind A in an audit: what is lost by the map.
func RegretNotes(m *ab.Experiment) (notes []string) {
	var regrets, above []float64
	for _, j := range m.Judged {
		regrets = append(regrets, 100*(j.Effect-1))
	}
	for _, d := range m.Duels {
		var a, b []float64
		for _, r := range d.Rounds {
			a, b = append(a, r.A), append(b, r.B)
		}
		floor := m.Run.FloorUS
		if found := stats.Median(a); d.Status == kernels.StatusOK && floor > 0 && found > 1.05*floor {
			above = append(above, (stats.Median(b)-floor)/(found-floor))
		}
	}
	if s := m.Summary; s.Cells > 0 {
		notes = append(notes, fmt.Sprintf("regret: mean %.1f%% (95%% %.1f to %.1f, by shape), 95th "+
			"percentile %.1f%%, worst %.1f%%", 100*(s.Mean-1), 100*(s.Lo-1), 100*(s.Hi-1),
			stats.Quantile(0.95, regrets), slices.Max(regrets)))
	}
	if len(above) > 0 {
		notes = append(notes, fmt.Sprintf("above the %.2f us of an empty launch: mean %.1f%%",
			m.Run.FloorUS, 100*(stats.GeoMean(above)-1)))
	}
	return notes
}

// A discardRecords drops records: an audit's searches are no evidence for the map that they audit.
type discardRecords struct{}

func (discardRecords) AppendAll(...interface{ CheckValid() error }) error { return nil }
func (discardRecords) Status(string) (kernels.Status, bool)               { return "", false }
