package report

import (
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A benchRow is a record with the summary of its samples.
type benchRow struct {
	*record.Record
	cell Measurement
}

// BenchTable has a row for each record of a run.
func BenchTable(records []*record.Record, run *record.Run) *Table {
	title := fmt.Sprintf("median of %d %s samples; GB/s of compulsory bytes", run.Protocol.Samples,
		run.Protocol.Name)
	stages := []string{}
	var rows []benchRow
	var notes []string
	how := map[string]string{
		kernels.ByExposed: "exposed k2 is the plan's time less that of the plan without its last launch; " +
			"stages add up to the whole",
		kernels.ByCUPTI: "stages of a peer are its kernels alone, by torch's profiler, with the gaps between them",
	}
	for _, r := range records {
		rows = append(rows, benchRow{r, Measurement{Outcome: record.Summarize(r, nil)}})
		if n := how[r.StagesBy]; n != "" && !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
		for _, s := range r.Stages {
			if !slices.Contains(stages, s.Stage) {
				stages = append(stages, s.Stage)
			}
		}
	}
	if len(records) == 0 { // the stages are not known yet
		stages = []string{"*"}
	}
	columns := benchColumns(stages)
	if len(rows) > 0 && !slices.ContainsFunc(rows, func(r benchRow) bool { return r.cell.Lo > 0 }) {
		us := slices.IndexFunc(columns, func(c Column[benchRow]) bool { return c.Head == "us" })
		columns[us].Means = "median, of too few samples for an interval"
	}
	if status := &columns[slices.IndexFunc(columns, func(c Column[benchRow]) bool { return c.Head == "status" })]; len(rows) > 0 &&
		!slices.ContainsFunc(rows, func(r benchRow) bool { return r.Status != kernels.StatusOK }) {
		status.Text = func(benchRow) string { return "" } // an empty column is left out, which makes room for the stages
	}
	t := NewTable(strings.Join(append([]string{title}, Timer([]*record.Run{run})...), "\n"), rows, columns)
	t.Notes, t.Group, t.Device = notes, ByProblem, run.Device.ID
	t.Drop, t.Tight = []string{"spill B", "spread %", "GB/s", "CTAs/SM", "regs", "stages us"}, true
	return t
}

// benchColumns have one for each stage, behind those that are always there.
func benchColumns(stages []string) []Column[benchRow] {
	type column = Column[benchRow]
	kernel := func(head, name string, of func(*kernels.Resource) any) column {
		return column{Head: head, Name: name, Value: func(r benchRow) any {
			if k := r.Check.Main(); k != nil && r.Status == kernels.StatusOK {
				return of(k)
			}
			return nil
		}}
	}
	value := func(names ...string) []column {
		return sideColumns(func(r benchRow) Measurement { return r.cell }, "", "", names...)
	}
	spread := func(r benchRow) any {
		if r.Status != kernels.StatusOK || r.cell.N < 2 { // one sample has none
			return nil
		}
		return 100 * r.cell.Spread
	}
	list := ProblemColumns(func(r benchRow) (kernels.Problem, int64) { return r.Problem, r.Bytes },
		"problem")
	variant, us, speeds := value("variant", "status"), value("us", "lo_us", "hi_us"), value("gbps",
		"stream_percent")
	variant[0].Head = "variant"
	us[0].Head, us[0].Means = "us", "median with its 95% interval"
	us[0].Text = func(r benchRow) string { return r.cell.interval() }
	speeds[0].Head, speeds[0].Text = "GB/s", func(r benchRow) string { return FormatRate(r.cell.gbps()) }
	speeds[1].Head, speeds[1].Means = "%stream", "time of a copy of the same tensors over the kernel's"
	speeds[1].Text = func(r benchRow) string { return FormatRate(r.cell.streamPercent()) }
	list = append(slices.Concat(list, variant, us, []column{{Head: "spread %", Value: spread,
		Format: "%.1f"}}, speeds),
		column{Name: "spread_percent", Value: spread},
		column{Head: "stages us", Text: func(r benchRow) string { return stageText(r.Record) }},
		kernel("regs", "regs", func(k *kernels.Resource) any { return k.Registers }),
		kernel("spill B", "spill_bytes", func(k *kernels.Resource) any { return k.Spill }),
		kernel("CTAs/SM", "ctas_per_sm", func(k *kernels.Resource) any { return k.Occupancy }),
		column{Head: "status", Name: "reason", Value: func(r benchRow) any { return r.Reason },
			Text: func(r benchRow) string {
				if r.Status != kernels.StatusOK {
					return string(r.Status) + ": " + r.Reason
				}
				return "ok"
			}},
		column{Name: "stages_by", Value: func(r benchRow) any { return r.StagesBy }},
		column{Name: "gap_us", Value: func(r benchRow) any {
			if r.StagesBy != kernels.ByCUPTI {
				return nil
			}
			return r.GapUS
		}})
	for _, name := range stages {
		list = append(list, column{Name: "stage_" + name + "_us", Value: func(r benchRow) any {
			if i := slices.IndexFunc(r.Stages,
				func(s record.Stage) bool { return s.Stage == name }); i >= 0 {
				return stats.Median(r.Stages[i].SamplesUS)
			}
			return nil
		}})
	}
	return list
}

// stageName names a stage in texts: the last of several is "exposed k2" where its time was
// taken so.
func stageName(by string, stages []record.Stage, name string) string {
	if n := len(stages); by == kernels.ByExposed && n > 1 && stages[n-1].Stage == name {
		return "exposed " + name
	}
	return name
}

// stageText writes the median of each stage with its share, "k1 56.9 (94%), exposed k2 3.9 (6%)", and of a
// peer the time between its kernels: "gap 0.6".
func stageText(r *record.Record) string {
	var parts []string
	total := r.GapUS
	for _, s := range r.Stages {
		total += stats.Median(s.SamplesUS)
	}
	for _, s := range r.Stages {
		m := stats.Median(s.SamplesUS)
		parts = append(parts, fmt.Sprintf("%s %.1f (%.0f%%)", stageName(r.StagesBy, r.Stages, s.Stage), m,
			100*m/total))
	}
	if r.StagesBy == kernels.ByCUPTI {
		parts = append(parts, fmt.Sprintf("gap %.1f", r.GapUS))
	}
	return strings.Join(parts, ", ")
}
