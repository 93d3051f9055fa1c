package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

// liveFile is where a run is kept, "" for nowhere: a place that can be written.
func liveFile(c *cli.Context, run *liveRun) (durable.Place, error) {
	path, out := c.String("resume"), c.String("out")
	switch {
	case path == "" && out == "":
		return durable.Place{}, nil
	case path == "":
		id := run.Run.Device.ID
		return durable.Place{Root: out, Name: filepath.Join(id, "compare-"+run.Run.ID+".json")}, record.CheckFolder(out, id)
	}
	return durable.Place{Name: path}, record.CheckFolder(filepath.Dir(path), ".")
}

// write writes the run to its file, every sample in it, whole or not at all.
func (r *liveRun) write(p durable.Place) error {
	if p.Name == "" {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(p, append(data, '\n'))
}

// showLive prints the run, and adds it to the summary page of a GitHub job.
func (e *env) showLive(c *cli.Context, run *liveRun) error {
	if err := printLive(e.stdout, run, c.String("format")); err != nil {
		return err
	}
	if err := e.writePage(c.String("html"), run.page); err != nil {
		return err
	}
	if path := os.Getenv("GITHUB_STEP_SUMMARY"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return hint.Errorf("unset GITHUB_STEP_SUMMARY where there is none", "job summary: %w", err)
		}
		defer f.Close()
		return hint.With(liveTables(f, run, report.FormatMarkdown), "unset GITHUB_STEP_SUMMARY to do without the job's summary")
	}
	return nil
}

// printLive is liveTables, or all of the run as JSON.
func printLive(w io.Writer, run *liveRun, format string) error {
	if format != report.FormatJSON {
		return liveTables(w, run, format)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(run)
}

// liveTables are the run's table and, but for csv, how near its arms come to the
// stream.
func liveTables(w io.Writer, run *liveRun, format string) error {
	if err := report.RenderTable(w, run.table(), format); err != nil || format == report.FormatCSV || len(run.Judged) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return report.RenderTable(w, report.StreamTable(run.Stream), format)
}

func (r *liveRun) table() *report.Table {
	pr := r.Run.Protocol
	how := fmt.Sprintf("rounds of %d %s launches per arm", pr.Samples, pr.Name)
	title := fmt.Sprintf("A = %s, B = %s, live on %s\n%s; speedup is A's time over B's, with its %.1f%% interval",
		r.A, r.B, r.Run.Device.Name, how, 100*(1-r.Rule.Plan.Looks[0].Alpha))
	for _, line := range report.Timer(r.Runs()...) {
		title += "\n" + line
	}
	t := newTable(title,
		"problem", ">A us", ">B us", ">A %stream", ">B %stream", ">rounds", ">speedup", "verdict", ">q", ">A/A' %", "what moved")
	best := r.A == "peer:"+ref.Best || r.B == "peer:"+ref.Best
	if best {
		t.Header, t.Align = append(t.Header, "peer"), append(t.Align, report.Left)
	}
	plain := len(t.Header)
	if len(r.Duels) == 0 || slices.ContainsFunc(r.Duels, func(d *ab.Result) bool { return d.CheckA.Main() != nil }) {
		for _, name := range []string{"A regs", "B regs", "A CTAs/SM", "B CTAs/SM"} { // of each arm's main kernel
			t.Header, t.Align = append(t.Header, name), append(t.Align, report.Right)
		}
	}
	t.Group = report.ByProblem
	t.Drop = []string{"A/A' %", "rounds", "A CTAs/SM,B CTAs/SM", "A regs,B regs", "q", "A %stream", "peer", "what moved"}
	t.Legend = []report.Meaning{
		{Column: "A us", Text: "median over the rounds; B us likewise"},
		{Column: "B %stream", Text: "time of a copy of the same tensors over B's time; A %stream likewise"},
		{Column: "q", Text: "p-value of the cell, corrected for the number of cells"},
		{Column: "A/A' %", Text: "difference of two copies of A in the same rounds"},
		{Column: "what moved", Text: "the launch that changed most, or why there is no verdict"},
	}
	next := 0
	for _, d := range r.Duels {
		row := make([]string, len(t.Header))
		row[0] = d.Problem.String()
		if best {
			row[plain-1] = peerOf(d.Duel)
		}
		if d.Status != kernels.StatusOK {
			row[7] = strings.ToUpper(string(d.Status)) + ": " + d.Reason
			t.Rows = append(t.Rows, row)
			continue
		}
		j := &r.Judged[next]
		next++
		a, b := armTimes(d)
		ma, mb := stats.Median(a), stats.Median(b)
		row[1], row[2] = report.Micros(ma), report.Micros(mb)
		row[3], row[4] = fmt.Sprintf("%.1f", 100*d.StreamUS/ma), fmt.Sprintf("%.1f", 100*d.StreamUS/mb)
		row[5], row[6] = strconv.Itoa(j.Rounds), j.Speedup()
		row[7] = string(j.Verdict)
		if j.Gate != j.Verdict {
			row[7] += " (not beyond doubt among so many cells)"
		}
		row[8], row[9] = fmt.Sprintf("%.4f", j.Q), fmt.Sprintf("%.2f", 100*j.Floor)
		if j.Verdict == verdict.Inconclusive {
			row[10] = j.Reason
		} else if j.Verdict != verdict.Same {
			if stage, was, by := moved(d, j.Effect > 1); stage != "" {
				row[10] = fmt.Sprintf("%s %+.1f us of %.1f", stage, by, was)
			}
		}
		if a, b := d.CheckA.Main(), d.CheckB.Main(); len(row) > plain && a != nil && b != nil {
			for i, n := range []int{a.Registers, b.Registers, a.Occupancy, b.Occupancy} {
				row[plain+i] = strconv.Itoa(n)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	s := r.Summary
	if s.Cells > 0 {
		cells := count(s.Cells, "cell")
		if s.Shapes > 0 && s.Shapes < s.Cells {
			cells += " of " + count(s.Shapes, "shape")
		}
		t.Notes = append(t.Notes, fmt.Sprintf("geometric mean %.3fx (95%% %.3f-%.3f) over %s: %d faster, %d same, %d slower, %d inconclusive",
			1/s.Mean, 1/s.Hi, 1/s.Lo, cells, s.Faster, s.Same, s.Slower, s.Inconclusive))
		t.Notes = append(t.Notes, fmt.Sprintf("worst: %s at %.3fx", s.Worst.Problem, 1/s.Worst.Effect))
	}
	for _, g := range r.Gate {
		t.Notes = append(t.Notes, fmt.Sprintf("gate: %s slower, %s", g.Problem, &g))
	}
	if !pr.Cold {
		t.Notes = append(t.Notes, "WARM: the cache was not flushed; real calls may find it cold")
	}
	t.Notes = append(append(t.Notes, r.Peers...), ladderNotes(r.Run.Device)...)
	t.Data = liveData(r)
	return t
}

// peerOf names the peer of a duel, the one of B only where A is none.
func peerOf(d ab.Duel) string {
	for _, v := range []kernels.Variant{d.A, d.B} {
		if name, ok := kernels.PeerName(v.Family); ok {
			return name
		}
	}
	return ""
}

// armTimes are the times of A and of B, round by round.
func armTimes(d *ab.Result) (a, b []float64) {
	for _, round := range d.Rounds {
		a, b = append(a, round.A), append(b, round.B)
	}
	return a, b
}

// moved is the stage that changed most, what it took of A, and by how much more it takes of B;
// "" where none is known to have changed. Stages are timed in a pass of their own, so they are no
// evidence against the rounds: they are told only where all together moved as B did, slower or not.
func moved(d *ab.Result, slower bool) (stage string, was, by float64) {
	sum := 0.0
	agrees := func(diff float64) bool { return diff != 0 && (diff > 0) == slower }
	for _, a := range d.StagesA {
		for _, b := range d.StagesB {
			if a.Stage != b.Stage {
				continue
			}
			ma, mb := stats.Median(a.SamplesUS), stats.Median(b.SamplesUS)
			diff := mb - ma
			if sum += diff; agrees(diff) && math.Abs(diff) > math.Abs(by) {
				stage, was, by = a.Stage, ma, diff
			}
		}
	}
	if !agrees(sum) {
		return "", 0, 0
	}
	return stage, was, by
}
