package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

var htmlFlag = &cli.StringFlag{Name: "html", Usage: "write one page with the verdict, charts and tables to `FILE`"}

// writePage writes a page where one was asked for.
func (e *env) writePage(path string, make func() *report.Page) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	err := make().Write(&plain{Writer: &b})
	if err == nil {
		err = replaceFile(durable.Place{Name: path}, b.Bytes())
	}
	if err != nil {
		return e.late(err)
	}
	e.notef("wrote %s", path)
	return nil
}

// page is the run as a page: its verdict, then what it rests on.
func (r *liveRun) page() *report.Page {
	t := r.table()
	names := report.ShortNames([]string{r.A, r.B})
	p := &report.Page{Title: fmt.Sprintf("%s against %s on %s", names[1], names[0], r.Run.Device.Name), What: t.Title, Summary: t.Notes}
	p.Facts = report.Facts(r.runs()...)
	if clock := r.clocks(); clock != "" {
		p.Facts = append(p.Facts, report.Fact{Name: "clocks", Value: clock})
	}
	t.Title, t.Notes = "Every problem", nil
	s := r.Summary
	if s.Cells > 0 {
		p.Summary = p.Summary[1:] // the tally says it
		p.Tally = append(p.Tally, report.Tally{N: fmt.Sprintf("%.3fx", 1/s.Mean), Word: fmt.Sprintf("mean speedup over %s (95%% %.3f-%.3f)", count(s.Cells, "cell"), 1/s.Hi, 1/s.Lo)})
	}
	for _, x := range []struct {
		n           int
		word, class string
	}{{s.Faster, "faster", "good"}, {s.Same, "same", "same"}, {s.Slower, "slower", "bad"}, {s.Inconclusive, "inconclusive", "open"}} {
		p.Tally = append(p.Tally, report.Tally{N: strconv.Itoa(x.n), Word: x.word, Class: x.class})
	}
	if n := len(r.Duels) - len(r.Judged); n > 0 {
		p.Tally = append(p.Tally, report.Tally{N: strconv.Itoa(n), Word: "without a time", Class: "bad"})
	}
	speed := report.Chart{Title: "Speedup on every problem", Help: "A's time over B's with its interval: right of 1x B is faster. The colour is the verdict.", Ref: 1, Unit: "x"}
	stream := report.Chart{Title: "Speed against the stream", Help: "100% is a copy of the same tensors in the same rounds. Bars are 95% intervals; the number is B's.",
		Series: []string{"A, " + names[0], "B, " + names[1]}, Ref: 100, Unit: "%"}
	stages := &report.Stages{}
	next := 0
	for _, d := range r.Duels {
		if d.Status != kernels.StatusOK {
			continue
		}
		j := &r.Judged[next]
		next++
		kind, shape := report.KindOf(d.Problem), report.ShapeOf(d.Problem)
		if peer := peerOf(d.Duel); peer != "" {
			shape += " " + peer
		}
		a, b := armTimes(d)
		row := report.ChartRow{Kind: kind, Label: shape}
		for i, us := range [][]float64{a, b} {
			v := []kernels.Variant{d.A, d.B}[i]
			m := stats.Summarize(us)
			if d.StreamUS <= 0 {
				continue
			}
			mark := report.ChartMark{Series: i, At: 100 * d.StreamUS / m.Median, Tip: fmt.Sprintf("%c: %s us, %.1f%% of the stream, %s", 'A'+i, report.Interval(m.Median, m.Lo, m.Hi), 100*d.StreamUS/m.Median, v)}
			if m.Lo > 0 {
				mark.Lo, mark.Hi = 100*d.StreamUS/m.Hi, 100*d.StreamUS/m.Lo
			}
			row.Marks, row.Value = append(row.Marks, mark), fmt.Sprintf("%.1f", mark.At)
		}
		if len(row.Marks) > 0 {
			stream.Rows = append(stream.Rows, row)
		}
		if j.Effect > 0 {
			mark := report.ChartMark{At: 1 / j.Effect, Class: report.VerdictClass(string(j.Verdict)),
				Tip: fmt.Sprintf("%s %s: %s, A %s us, B %s us, %d rounds", shape, j.Verdict, effect(j), report.Micros(stats.Median(a)), report.Micros(stats.Median(b)), j.Rounds)}
			if j.Lo > 0 {
				mark.Lo, mark.Hi = 1/j.Hi, 1/j.Lo
			}
			speed.Rows = append(speed.Rows, report.ChartRow{Kind: kind, Label: shape, Value: fmt.Sprintf("%.3fx", mark.At), Marks: []report.ChartMark{mark}})
		}
		for i, ss := range [][]record.Stage{d.StagesA, d.StagesB} {
			row := report.StageRow{Kind: kind, Label: report.ShapeOf(d.Problem), Side: string(rune('A' + i)), US: stats.Median([][]float64{a, b}[i])}
			for _, s := range ss {
				row.Parts = append(row.Parts, report.StageValue{Stage: s.Stage, US: stats.Median(s.SamplesUS)})
			}
			if len(row.Parts) > 0 {
				stages.Rows, stages.By = append(stages.Rows, row), strings.ToUpper(d.StagesBy)
			}
		}
	}
	for _, c := range []report.Chart{speed, stream} {
		if len(c.Rows) > 0 {
			p.Charts = append(p.Charts, c)
		}
	}
	if len(stages.Rows) > 0 {
		if stages.By == "EVENTS" {
			stages.By = "events"
		}
		p.Stages = stages
	}
	p.Tables = append(p.Tables, t.LedBy("speedup", "verdict"))
	if len(r.Judged) > 0 {
		p.Tables = append(p.Tables, report.StreamTable(r.Stream))
	}
	return p
}

// clocks are the least and the highest clock of the accepted rounds.
func (r *liveRun) clocks() string {
	lo, hi, top := 0, 0, 0
	for _, d := range r.Duels {
		for _, s := range d.States {
			if mhz := s.Reading.ClockMHz; mhz > 0 && s.Rejected == "" {
				if lo == 0 || mhz < lo {
					lo = mhz
				}
				hi, top = max(hi, mhz), max(top, s.Reading.MaxClockMHz)
			}
		}
	}
	if hi == 0 {
		return ""
	}
	return fmt.Sprintf("SM %d to %d MHz, of at most %d", lo, hi, top)
}
