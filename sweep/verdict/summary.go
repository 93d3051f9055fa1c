package verdict

import "normbench/sweep/stats"

// A Summary is many cells in one line. It comes with its worst cell, as a good
// mean may hide it; nothing should be gated on the mean alone.
type Summary struct {
	Cells        int     `json:"cells"` // with an effect
	Mean         float64 `json:"mean"`  // geometric, of B's time over A's; 0 where there are no cells
	Lo           float64 `json:"lo"`    // its 95 % interval, for other such cells and other rounds
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

// Summarize sums up cells judged by Judge or JudgeUnpaired. Of an unpaired cell
// only the choice of cells is resampled, not its samples.
func Summarize(judged []Judged) Summary {
	var s Summary
	var logs [][]float64
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
			logs = append(logs, j.logs)
			if s.Worst == nil || j.Effect > s.Worst.Effect {
				s.Worst = j
			}
		}
	}
	if s.Cells > 0 {
		s.Mean, s.Lo, s.Hi = stats.GeoMeanCI(logs, stats.Level, resamples, bootstrapSeed)
	}
	return s
}
