package verdict

import (
	"math"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// An Aggregate sums up many cells in one line. It comes with its worst cell, as a good
// mean may hide it; nothing should be gated on the mean alone.
type Aggregate struct {
	Cells        int        `json:"cells"`            // with an effect
	Shapes       int        `json:"shapes,omitempty"` // of these cells
	Mean         float64    `json:"mean"`             // geometric, of B's time over A's; 0 of none
	Lo           float64    `json:"lo"`               // its 95 % interval, for other such shapes
	Hi           float64    `json:"hi"`
	Faster       int        `json:"faster"`
	Slower       int        `json:"slower"`
	Same         int        `json:"same"`
	Inconclusive int        `json:"inconclusive"`
	Worst        *Judgement `json:"worst,omitempty"` // the cell on which B does worst
}

// The bootstrap of a summary. 1000 resamples move a 95 % bound by a twentieth of
// the interval's width; the seed is fixed, so that a file read twice says the
// same twice.
const (
	resamples     = 1000
	bootstrapSeed = 1
)

// Summarize sums up judged cells.
func Summarize(judged []Judgement) Aggregate {
	var s Aggregate
	var problems []kernels.Problem
	var logs []float64
	for i := range judged {
		j := &judged[i]
		switch j.Verdict {
		case Faster:
			s.Faster++
		case Slower:
			s.Slower++
		case Same:
			s.Same++
		default:
			s.Inconclusive++
		}
		if j.Effect > 0 {
			s.Cells++
			problems, logs = append(problems, j.Problem), append(logs, math.Log(j.Effect))
			if s.Worst == nil || j.Effect > s.Worst.Effect {
				s.Worst = j
			}
		}
	}
	if s.Cells > 0 {
		s.Shapes, s.Mean, s.Lo, s.Hi = Mean(problems, logs)
	}
	return s
}

// Mean returns the geometric mean of ratios of problems, by their logs, with its interval at 95%. The
// interval draws whole shapes.
func Mean(problems []kernels.Problem, logs []float64) (shapes int, mean, lo, hi float64) {
	clusters, shapes := Clusters(problems)
	mean, lo, hi = stats.GeoMeanCI(logs, clusters, stats.Level, resamples, bootstrapSeed)
	return shapes, mean, lo, hi
}

// Line returns the robust line of the times of problems over those of the stream, in us, with intervals at 95% that
// draw whole shapes.
func Line(problems []kernels.Problem, stream, us []float64) stats.FittedLine {
	clusters, _ := Clusters(problems)
	return stats.TheilSen(stream, us, clusters, stats.Level, resamples, bootstrapSeed)
}

// Clusters numbers problems by their shapes: what moves one problem of a shape moves the others.
func Clusters(problems []kernels.Problem) (clusters []int, shapes int) {
	number := map[[2]int64]int{}
	for _, p := range problems {
		shape := [2]int64{p.M, p.N}
		if _, ok := number[shape]; !ok {
			number[shape] = len(number)
		}
		clusters = append(clusters, number[shape])
	}
	return clusters, len(number)
}
