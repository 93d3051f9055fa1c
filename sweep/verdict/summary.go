package verdict

import "normbench/sweep/stats"

// A Summary is many cells in one line. It comes with its worst cell, as a good
// mean may hide it; nothing should be gated on the mean alone.
type Summary struct {
	Cells        int     `json:"cells"`            // with an effect
	Shapes       int     `json:"shapes,omitempty"` // of these cells
	Mean         float64 `json:"mean"`             // geometric, of B's time over A's; 0 where there are no cells
	Lo           float64 `json:"lo"`               // its 95 % interval, for other such shapes and other rounds
	Hi           float64 `json:"hi"`
	Faster       int     `json:"faster"`
	Slower       int     `json:"slower"`
	Same         int     `json:"same"`
	Inconclusive int     `json:"inconclusive"`
	Unpaired     int     `json:"unpaired,omitempty"` // of all
	Worst        *Judged `json:"worst,omitempty"`    // the cell on which B does worst
}

// The bootstrap of a summary. 1000 resamples move a 95 % bound by a twentieth of
// the interval's width; the seed is fixed, so that a file read twice says the
// same twice.
const (
	resamples     = 1000
	bootstrapSeed = 1
)

// Summarize sums up cells judged by Judge or JudgeUnpaired. The interval draws whole shapes, all
// cells of one together. Of an unpaired cell only the choice is resampled, not its samples.
func Summarize(judged []Judged) Summary {
	var s Summary
	var logs [][]float64
	var clusters []int
	shapes := map[[2]int64]int{}
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
		if j.Unpaired {
			s.Unpaired++
		}
		if j.Effect > 0 {
			s.Cells++
			shape := [2]int64{j.Problem.M, j.Problem.N}
			if _, ok := shapes[shape]; !ok {
				shapes[shape] = len(shapes)
			}
			logs, clusters = append(logs, j.logs), append(clusters, shapes[shape])
			if s.Worst == nil || j.Effect > s.Worst.Effect {
				s.Worst = j
			}
		}
	}
	if s.Cells > 0 {
		s.Shapes = len(shapes)
		s.Mean, s.Lo, s.Hi = stats.GeoMeanCI(logs, clusters, stats.Level, resamples, bootstrapSeed)
	}
	return s
}
