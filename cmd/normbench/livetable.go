package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/report"
	"normbench/sweep/record"
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
	if err := printLive(e.out, run, c.String("format")); err != nil {
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
	sides := r.sides()
	t := report.LiveTable(&r.Match, sides[0], sides[1])
	if s := r.Summary; s.Cells > 0 {
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
	if !r.Run.Protocol.Cold {
		t.Notes = append(t.Notes, "WARM: the cache was not flushed; real calls may find it cold")
	}
	t.Notes = append(append(t.Notes, r.Peers...), ladderNotes(r.Run.Device)...)
	return t
}
