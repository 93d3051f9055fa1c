package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/report"
)

var htmlFlag = &cli.StringFlag{Name: "html", Category: catOutput, Usage: "write one page with the verdict, charts and tables to `FILE`"}

// writePage writes a page where one was asked for.
func (e *env) writePage(path string, make func() *report.Page) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	err := make().Write(&console.Plain{Writer: &b})
	if err == nil {
		err = replaceFile(durable.Place{Name: path}, b.Bytes())
	}
	if err != nil {
		return e.late(err)
	}
	e.Notef("wrote %s", path)
	return nil
}

// page is the run as a page: its verdict, then what it rests on.
func (r *liveRun) page() *report.Page {
	t, sides := r.table(), r.sides()
	names := report.Names(sides[:])
	p := report.Judged(sides[0], sides[1], r.Judged).Page(fmt.Sprintf("%s against %s on %s", names[1], names[0], r.Run.Device.Name), r.Runs())
	if clock := r.clocks(); clock != "" {
		p.More = append(p.More, report.Fact{Name: "clocks", Value: clock})
	}
	if p.Stages != nil {
		p.Stages.By = strings.TrimPrefix(strings.ToUpper(r.Duels[0].StagesBy), "EVENTS")
	}
	p.What, p.Summary = t.Title, t.Notes
	if s := r.Summary; s.Cells > 0 { // of all rounds, where the page has medians
		p.Tally[0] = report.Tally{N: fmt.Sprintf("%.3fx", 1/s.Mean), Word: fmt.Sprintf("mean speedup over %s (95%% %.3f-%.3f)", count(s.Cells, "cell"), 1/s.Hi, 1/s.Lo)}
		p.Summary = p.Summary[1:] // the tally says it
	}
	t.Title, t.Notes = "Every problem", nil
	p.Tables = []*report.Table{t.LedBy("speedup", "verdict"), report.StreamTable(r.Stream)}
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
