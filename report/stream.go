package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
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
	// Line is the robust line of the times over the stream's, in us; nil of several kinds together, and of
	// fewer shapes than its interval needs.
	Line *stats.FittedLine
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
	var ratios, stream, us []float64
	var problems []kernels.Problem
	for _, row := range rows {
		c := []Measurement{row.A, row.B}[side]
		r := c.streamPercent()
		if r == 0 {
			continue
		}
		ratios, problems = append(ratios, r), append(problems, row.Problem)
		stream, us = append(stream, c.StreamUS), append(us, c.medianUS())
		if score.Worst == 0 || r < score.Worst {
			score.Worst, score.At = r, &row.Problem
		}
	}
	if score.N = len(ratios); score.N > 0 {
		score.Mean = stats.GeoMean(ratios)
	}
	if _, shapes := verdict.Clusters(problems); kind != "" && shapes >= honestShapes {
		if line := verdict.Line(problems, stream, us); !math.IsNaN(line.Slope) {
			score.Line = &line
		}
	}
	return score
}

// StreamTable says how near each side comes to the stream.
func StreamTable(scores []StreamScore) *Table {
	type column = Column[StreamScore]
	ofLine := func(name string, of func(*stats.FittedLine) float64) column {
		return column{Name: name, Value: func(s StreamScore) any {
			return ifAny(s.Line, func(l *stats.FittedLine) any { return of(l) })
		}}
	}
	constant := ofLine("fit_constant_us", func(l *stats.FittedLine) float64 { return l.Const })
	constant.Head, constant.Text = "constant us", func(s StreamScore) string { return s.constant() }
	constant.Means = "time = constant + factor x the stream's time, a robust line through the problems (Theil-Sen, " +
		"95% over other such shapes); the constant is what a call costs whatever its size"
	factor := ofLine("fit_stream_factor", func(l *stats.FittedLine) float64 { return l.Slope })
	factor.Head, factor.Text = "factor", func(s StreamScore) string { return s.factor() }
	if !slices.ContainsFunc(scores, func(s StreamScore) bool { return s.Line != nil }) {
		constant.Head, factor.Head = "", ""
	}
	t := NewTable("", scores, []column{
		{Head: "% of stream", Name: "side", Value: func(s StreamScore) any { return s.Side }},
		{Head: "kind", Name: "kind", Value: func(s StreamScore) any { return cmp.Or(s.Kind, "all") }},
		{Head: "problems", Name: "problems", Value: func(s StreamScore) any { return s.N }},
		{Head: "geomean", Name: "stream_percent",
			Value: func(s StreamScore) any { return NonZero(s.Mean) }, Format: "%.1f"},
		constant, factor,
		ofLine("fit_constant_lo_us", func(l *stats.FittedLine) float64 { return l.ConstLo }),
		ofLine("fit_constant_hi_us", func(l *stats.FittedLine) float64 { return l.ConstHi }),
		ofLine("fit_stream_factor_lo", func(l *stats.FittedLine) float64 { return l.SlopeLo }),
		ofLine("fit_stream_factor_hi", func(l *stats.FittedLine) float64 { return l.SlopeHi }),
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
	t.Name, t.Drop = "stream", []string{"at"}
	t.Group = &Group{Of: func(row []string) (string, string) {
		return row[0] + ", % of stream", row[0]
	}, Hide: []string{"% of stream"}}
	return t
}

// constant returns what the side takes beyond the stream's time, "2.46 (2.21-2.87)".
func (s StreamScore) constant() string {
	if s.Line == nil {
		return ""
	}
	dash := "-"
	if s.Line.ConstLo < 0 {
		dash = " to "
	}
	// + 0 makes a 0 of a -0
	return fmt.Sprintf("%.2f (%.2f%s%.2f)", math.Round(100*s.Line.Const)/100+0, s.Line.ConstLo, dash, s.Line.ConstHi)
}

// factor returns what the side takes of the stream's time, "1.021 (1.008-1.027)".
func (s StreamScore) factor() string {
	if s.Line == nil {
		return ""
	}
	return fmt.Sprintf("%.3f (%.3f-%.3f)", s.Line.Slope, s.Line.SlopeLo, s.Line.SlopeHi)
}
