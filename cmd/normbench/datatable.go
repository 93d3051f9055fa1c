package main

import (
	"fmt"
	"slices"
	"strconv"

	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// csv and json have these tables in place of those that are laid out for people: see report.Table.Data.

// newData is an empty table of problems. Columns are aligned as in newTable: to the right are
// numbers.
func newData(headers ...string) *report.Table {
	t := newTable("", headers...)
	t.Header = append(report.ProblemHeader(), t.Header...)
	t.Align = append([]report.Align{report.Left, report.Left, report.Left, report.Right, report.Right, report.Right}, t.Align...)
	return t
}

// A dataRow is cells by their columns; what is not set is empty.
type dataRow map[string]string

// addData adds a row to a table of newData.
func addData(t *report.Table, p kernels.Problem, bytes int64, row dataRow) {
	cells := report.ProblemCells(p, bytes)
	for _, h := range t.Header[len(cells):] {
		cells = append(cells, row[h])
	}
	t.Rows = append(t.Rows, cells)
}

// times are a median with what follows from it; arm stands before each name.
func (row dataRow) times(arm string, us []float64, bytes int64, streamUS float64) {
	s := stats.Summarize(us)
	row[arm+"us"], row[arm+"gbps"] = report.Number(s.Median), report.Number(float64(bytes)/s.Median/1e3)
	if s.Hi > 0 {
		row[arm+"lo_us"], row[arm+"hi_us"] = report.Number(s.Lo), report.Number(s.Hi)
	}
	if streamUS > 0 {
		row[arm+"stream_percent"] = report.Number(100 * streamUS / s.Median)
	}
}

// speedup is B's over A with its interval; before stands before each name.
func (row dataRow) speedup(before string, j *verdict.Judged) {
	if j.Effect > 0 {
		row[before+"speedup"] = report.Number(1 / j.Effect)
	}
	if j.Lo > 0 {
		row[before+"speedup_lo"], row[before+"speedup_hi"] = report.Number(1/j.Hi), report.Number(1/j.Lo)
	}
}

// liveData begins with the columns of a recorded compare.
func liveData(r *liveRun) *report.Table {
	t := newData("a", "b", "a_variant", "b_variant", "a_status", "b_status",
		">a_us", ">a_lo_us", ">a_hi_us", ">b_us", ">b_lo_us", ">b_hi_us", ">a_gbps", ">b_gbps", ">a_stream_percent", ">b_stream_percent",
		">speedup", "mark", ">p", "reason",
		">speedup_lo", ">speedup_hi", "verdict", "gate", ">rounds", ">q", ">p_holm", ">floor_percent", ">band_percent", "moved_stage", ">moved_us",
		">a_regs", ">b_regs", ">a_ctas_per_sm", ">b_ctas_per_sm",
		"gate_confirmed", ">again_speedup", ">again_speedup_lo", ">again_speedup_hi", "again_verdict", "again_reason")
	next := 0
	for _, d := range r.Duels {
		bytes := d.Problem.Bytes()
		row := dataRow{"a": r.A, "b": r.B, "a_variant": d.A.String(), "b_variant": d.B.String(),
			"a_status": string(d.Status), "b_status": string(d.Status), "reason": d.Reason}
		if d.Status != kernels.StatusOK {
			addData(t, d.Problem, bytes, row)
			continue
		}
		j := &r.Judged[next]
		next++
		a, b := armTimes(d)
		row.times("a_", a, bytes, d.StreamUS)
		row.times("b_", b, bytes, d.StreamUS)
		row.speedup("", j)
		row["mark"], row["verdict"], row["gate"], row["reason"] = string(report.MarkOf(j.Verdict)), string(j.Verdict), string(j.Gate), j.Reason
		row["p"], row["q"], row["p_holm"] = report.Number(j.P), report.Number(j.Q), report.Number(j.PHolm)
		row["rounds"], row["floor_percent"], row["band_percent"] = strconv.Itoa(j.Rounds), report.Number(100*j.Floor), report.Number(100*j.Band)
		if stage, _, by := moved(d, j.Effect > 1); stage != "" {
			row["moved_stage"], row["moved_us"] = stage, report.Number(by)
		}
		for arm, c := range map[string]*kernels.Check{"a_": d.CheckA, "b_": d.CheckB} {
			if k := c.Main(); k != nil {
				row[arm+"regs"], row[arm+"ctas_per_sm"] = strconv.Itoa(k.Registers), strconv.Itoa(k.Occupancy)
			}
		}
		if i := slices.IndexFunc(r.Gate, func(g ab.Second) bool { return g.Problem == d.Problem }); i >= 0 {
			g := &r.Gate[i]
			row.speedup("again_", &g.Again)
			row["gate_confirmed"], row["again_verdict"], row["again_reason"] = strconv.FormatBool(g.Confirmed), string(g.Again.Verdict), g.Again.Reason
		}
		addData(t, d.Problem, bytes, row)
	}
	return t
}

// benchData has a column for each stage, behind those that are always there.
func benchData(records []*record.Record) *report.Table {
	headers := []string{"variant", "status", ">us", ">lo_us", ">hi_us", ">gbps", ">stream_percent", ">spread_percent", ">regs", ">spill_bytes", ">ctas_per_sm", "reason", "stages_by", ">gap_us"}
	for _, r := range records {
		for _, s := range r.Stages {
			if h := ">stage_" + s.Stage + "_us"; !slices.Contains(headers, h) {
				headers = append(headers, h)
			}
		}
	}
	if len(records) == 0 { // the stages are not known yet
		headers = append(headers, ">stage_*_us")
	}
	t := newData(headers...)
	for _, r := range records {
		row := dataRow{"variant": r.Variant().String(), "status": string(r.Status), "reason": r.Reason}
		if r.Status == kernels.StatusOK {
			row.times("", r.SamplesUS, r.Bytes, r.StreamUS)
			row["spread_percent"], row["stages_by"] = report.Number(100*stats.Summarize(r.SamplesUS).Spread), r.StagesBy
			if r.StagesBy == kernels.ByCUPTI {
				row["gap_us"] = report.Number(r.GapUS)
			}
			for _, s := range r.Stages {
				row["stage_"+s.Stage+"_us"] = report.Number(stats.Median(s.SamplesUS))
			}
			if k := r.Check.Main(); k != nil {
				row["regs"], row["spill_bytes"], row["ctas_per_sm"] = fmt.Sprint(k.Registers), fmt.Sprint(k.Spill), fmt.Sprint(k.Occupancy)
			}
		}
		addData(t, r.Problem, r.Bytes, row)
	}
	return t
}

// verifyData has the columns of verdicts.data.
func verifyData() *report.Table {
	return newData("ref", "family", "code", ">configs", ">failed", "output", ">error_over_tol", ">rel_l2", ">differing", "stated", "verdict", "reason")
}

// data is a row for each output, or one where nothing was computed.
func (k *verdicts) data(t *report.Table, p kernels.Problem) {
	row := dataRow{"ref": k.refs, "family": k.family.Name, "code": k.code, "configs": strconv.Itoa(k.configs), "failed": strconv.Itoa(k.failed),
		"differing": strconv.FormatInt(k.differing, 10), "stated": k.stated(), "verdict": "ok"}
	if k.failed > 0 {
		row["verdict"], row["reason"] = "FAILED", k.reasons[0]
	} else if k.unrun != "" {
		row["verdict"], row["reason"] = "not run", k.unrun
	}
	for _, name := range k.order {
		o := k.outputs[name]
		row["output"], row["error_over_tol"], row["rel_l2"] = name, report.Number(o.MaxErr), report.Number(o.RelL2)
		addData(t, p, p.Bytes(), row)
	}
	if len(k.order) == 0 {
		addData(t, p, p.Bytes(), row)
	}
}
