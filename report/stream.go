package report

import (
	"cmp"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// A StreamScore is how near a side comes to the stream over the problems of a
// kind: 1 is as fast as a copy of the same tensors in the same run.
type StreamScore struct {
	Side  string
	Kind  string           // "rmsnorm/bwd"; "" for all kinds together
	N     int              // problems with times of both
	Mean  float64          // geometric, of the stream's time over the side's, in percent
	Worst float64          // the least of them
	At    *kernels.Problem // where
}

// streamScores scores both sides of rows by kind, and over all where there are several kinds.
func streamScores(rows []Row) (scores []StreamScore) {
	for side := range 2 {
		n := len(scores)
		for k, of := range byKind(rows, func(r Row) string { return r.Kind }) {
			scores = append(scores, streamScore(side, k, of))
		}
		if len(scores)-n > 1 {
			scores = append(scores, streamScore(side, "", rows))
		}
	}
	return scores
}

func streamScore(side int, kind string, rows []Row) StreamScore {
	score := StreamScore{Side: letter(side), Kind: kind}
	var ratios []float64
	for _, row := range rows {
		r := []Measurement{row.A, row.B}[side].streamPercent()
		if r == 0 {
			continue
		}
		ratios = append(ratios, r)
		if score.Worst == 0 || r < score.Worst {
			score.Worst, score.At = r, &row.Problem
		}
	}
	if score.N = len(ratios); score.N > 0 {
		score.Mean = stats.GeoMean(ratios)
	}
	return score
}

// StreamTable says how near each side comes to the stream.
func StreamTable(scores []StreamScore) *Table {
	t := NewTable("", scores, []Column[StreamScore]{
		{Head: "% of stream", Name: "side", Value: func(s StreamScore) any { return s.Side }},
		{Head: "kind", Name: "kind", Value: func(s StreamScore) any { return cmp.Or(s.Kind, "all") }},
		{Head: "problems", Name: "problems", Value: func(s StreamScore) any { return s.N }},
		{Head: "geometric mean", Name: "stream_percent",
			Value: func(s StreamScore) any { return NonZero(s.Mean) }, Format: "%.1f"},
		{Head: "worst", Name: "worst_stream_percent",
			Value: func(s StreamScore) any { return NonZero(s.Worst) }, Format: "%.1f"},
		{Head: "at", Name: "worst_problem",
			Value: func(s StreamScore) any { return ifAny(s.At, func(p *kernels.Problem) any { return p }) },
			Text: func(s StreamScore) string {
				if s.At == nil {
					return ""
				}
				return s.At.String()
			}}})
	t.Group = &Group{Of: func(row []string) (string, string) {
		return row[0] + ", % of stream", row[0]
	}, Hide: []string{"% of stream"}}
	return t
}
