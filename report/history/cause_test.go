package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A recording is the rounds of a problem in a real run: logarithms of A and of its second copy over the median
// of both.
type recording struct {
	problem kernels.Problem
	us      float64
	rounds  [][2]float64
}

// recordings are those of an H200 beside other libraries, by kind.
func recordings(t *testing.T) [][]recording {
	by := map[string][]recording{}
	for _, name := range []string{"rmsnorm-fwd", "rmsnorm-bwd", "layernorm-fwd", "layernorm-bwd", "qk-norm-bwd"} {
		l, err := report.ReadLive(filepath.Join("..", "..", "results", "nvidia-h200", "peers", name+".json.gz"))
		assert.NoError(t, err)
		for _, d := range l.Duels {
			var all []float64
			for _, r := range d.Rounds {
				all = append(all, r.A, r.A2)
			}
			if len(d.Rounds) < 10 {
				continue
			}
			x := recording{d.Problem, stats.Median(all), nil}
			for _, r := range d.Rounds {
				x.rounds = append(x.rounds, [2]float64{math.Log(r.A / x.us), math.Log(r.A2 / x.us)})
			}
			by[KindOf(x.problem)] = append(by[KindOf(x.problem)], x)
		}
	}
	var kinds [][]recording
	for _, k := range slices.Sorted(maps.Keys(by)) {
		kinds = append(kinds, by[k])
	}
	return kinds
}

// A plant is what is made to happen at the last commit of a synthetic history.
type plant struct {
	cause  Cause
	arms   []string
	kind   int // index of a kind, -1 for all
	change float64
}

// synthesize makes a history of some commits on two kinds of problems, at whose last one a plant happens. All
// noise is drawn again from the rounds of real runs; wobble is what a machine adds to all times of a run.
func synthesize(r *rand.Rand, kinds [][]recording, commits int, wobble float64, p plant) *DeviceHistory {
	return scaled(r, kinds, commits, wobble, 1, p)
}

// scaled is synthesize with so many times the noise of the rounds, and few problems where that is not 1.
func scaled(r *rand.Rand, kinds [][]recording, commits int, wobble, times float64, p plant) *DeviceHistory {
	var problems [][]recording
	for _, k := range r.Perm(len(kinds))[:2] {
		n := min(8+r.IntN(8), len(kinds[k]))
		if times != 1 {
			n = 2
		}
		var of []recording
		for _, i := range r.Perm(len(kinds[k]))[:n] {
			of = append(of, kinds[k][i])
		}
		problems = append(problems, of)
	}
	arms := []string{Stream, Base, Ours, PeerArm + "liger", PeerArm + "quack"}
	var runs []Snapshot
	for i := range commits {
		run := Snapshot{Schema: Schema, ID: fmt.Sprint(i), Commit: fmt.Sprintf("c%02d", i), Device: "card",
			Time:     time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC),
			Protocol: record.Protocol{Name: "cold", Samples: 10, Cold: true}}
		all := wobble * r.NormFloat64()
		last := i == commits-1
		rounds := 12
		if last && p.cause == Unknown {
			rounds = 3 + r.IntN(5)
		}
		if last && p.cause == Method {
			run.Protocol.Samples = 20
		}
		for k, of := range problems {
			here := last && (p.kind < 0 || p.kind == k)
			for n, x := range of {
				c := Cell{Problem: x.problem, Rounds: rounds, US: map[string]float64{}}
				drawn := make([][]float64, len(arms)+1)
				for range rounds {
					round := x.rounds[r.IntN(len(x.rounds))]
					for a := range drawn {
						drawn[a] = append(drawn[a], times*round[r.IntN(2)])
					}
				}
				for a, arm := range arms {
					v := all + median(drawn[a]) + math.Log(x.us*(0.6+0.2*float64(a))*(1+0.01*float64(n%7)))
					if here && slices.Contains(p.arms, arm) {
						v += math.Log1p(p.change)
					}
					if here && p.cause == Noise {
						v += p.change * r.NormFloat64()
					}
					c.US[arm] = math.Exp(v)
				}
				again := median(drawn[len(arms)]) - median(drawn[1])
				if here && p.cause == Noise {
					again += p.change * r.NormFloat64()
				}
				c.Again = math.Exp(again)
				run.Cells = append(run.Cells, c)
			}
		}
		runs = append(runs, run)
	}
	return GroupRuns(runs)[0]
}

// drawPlant draws a cause, with a change of 1 to 10% to either side.
func drawPlant(r *rand.Rand) (p plant) {
	liger := PeerArm + "liger"
	all := []plant{
		{Machine, []string{Stream, Base, Ours, liger, PeerArm + "quack"}, -1, 0},
		{Memory, []string{Stream}, -1, 0},
		{Peer, []string{liger}, -1, 0},
		{Kernel, []string{Ours}, -1, 0},
		{Kernel, []string{Base, Ours}, -1, 0},
		{Kernel, []string{Ours}, 0, 0},
		{Noise, nil, -1, 0},
		{Method, nil, -1, 0},
		{Unknown, nil, -1, 0},
	}
	p = all[r.IntN(len(all))]
	p.change = 0.01 + 0.09*r.Float64()
	if r.IntN(2) == 0 && p.cause != Noise {
		p.change = -p.change
	}
	return p
}

// isNamed says whether the events are the plant alone, with its arms.
func (p plant) isNamed(events []Movement, last int) bool {
	if len(events) != 1 || events[0].Place != last || events[0].Cause != p.cause {
		return false
	}
	switch p.cause {
	case Peer, Kernel, Memory:
		return slices.Equal(events[0].Arms, p.arms) && events[0].Change*p.change > 0
	}
	return true
}

// Of 500 runs in which something was made to move by 1 to 10%, 95% are named right; of 500 histories in which
// nothing moved, 1% have anything named. Where a machine wobbles, 90% are, and 1% of quiet commits.
func TestCausesAreNamedAtTheirErrorRates(t *testing.T) {
	kinds := recordings(t)
	const commits = 9
	for _, tc := range []struct {
		wobble        float64
		runs          int
		right, called float64
	}{{0, 500, 0.95, 0.01}, {0.003, 100, 0.90, 0.01 * commits}} {
		t.Run(fmt.Sprint("wobble ", tc.wobble), func(t *testing.T) {
			t.Parallel()
			right, called := 0, 0
			missed := map[Cause]int{}
			r := rand.New(rand.NewPCG(68, uint64(tc.wobble*1e6)))
			for range tc.runs {
				p := drawPlant(r)
				events := DefaultRule().Find(synthesize(r, kinds, commits, tc.wobble, p))
				if p.isNamed(events, commits-1) {
					right++
				} else {
					missed[p.cause]++
				}
				quiet := DefaultRule().Find(synthesize(r, kinds, commits, tc.wobble, plant{kind: -1}))
				called += min(len(quiet), 1)
			}
			t.Logf("%d of %d named right, missed %v; %d quiet histories called", right, tc.runs, missed, called)
			assert.That(t, float64(right) >= tc.right*float64(tc.runs), "%d of %d named right, missed %v", right, tc.runs, missed)
			assert.That(t, float64(called) <= tc.called*float64(tc.runs), "%d of %d quiet histories called", called, tc.runs)
		})
	}
}

// What comes after each other is told one by one: a peer that moves and comes back, a single problem of ours, and a
// machine that moves while ours moves further, with what else changed there.
func TestMovesAreToldOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 68))
	s := synthesize(r, recordings(t), 14, 0, plant{kind: -1})
	problem := slices.MinFunc(slices.Collect(maps.Keys(s.Points[0].Cells)), func(a, b kernels.Problem) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), record.CompareProblems(a, b))
	})
	for i, p := range s.Points {
		for k, c := range p.Cells {
			if i >= 6 && i < 8 {
				c.US[PeerArm+"liger"] *= 0.94
			}
			if i >= 9 && k == problem {
				c.US[Ours] *= 1.08
			}
			if i >= 12 {
				c.US[Ours] *= 1.03
				for arm := range c.US {
					c.US[arm] *= 1.05
				}
			}
		}
		if i >= 12 {
			p.Runs[0].Driver = "580"
		}
	}
	var got []string
	for _, e := range DefaultRule().Find(s) {
		got = append(got, fmt.Sprintf("%s %s %+.0f%% %s %s", e.Commits(), e.What(), 100*e.Change, e.Where(), e.Note))
	}
	assert.Same(t, got, []string{"c05..c06 liger -6% all ", "c07..c08 liger +6% all ",
		"c08..c09 kernel (ours) +8% " + problem.String() + " ", "c11..c12 machine +5% all driver 580, was unknown",
		"c11..c12 kernel (ours) +3% all driver 580, was unknown"}, "events")
}

// Of two problems of each kind on a machine with ten times the noise of an H200, at most 1% of quiet commits have
// anything named, and none before there is enough to know the noise by.
func TestNoiseMovesNothing(t *testing.T) {
	kinds := recordings(t)
	r := rand.New(rand.NewPCG(2, 68))
	const histories, commits = 200, 9
	called := 0
	for range histories {
		at := map[int]bool{}
		for _, e := range DefaultRule().Find(scaled(r, kinds, commits, 0, 10, plant{kind: -1})) {
			at[e.Place] = true
			assert.That(t, e.Place >= DefaultRule().Settled, "called too early: %+v", e)
		}
		called += len(at)
	}
	assert.That(t, called <= histories*commits/100, "%d of %d quiet commits called", called, histories*commits)
}
