package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A MeasuredStage is a stage of a plan with what its launch has of the device.
type MeasuredStage struct {
	Stage      string   `json:"stage"`
	US         *float64 `json:"us"`      // median; nil where stages were not timed
	Exposed    bool     `json:"exposed"` // us is what the plan takes longer with it
	Registers  int      `json:"regs,omitempty"`
	Spill      int      `json:"spill_bytes,omitempty"`
	Shared     int      `json:"shared_bytes,omitempty"`
	Threads    int      `json:"threads,omitempty"`
	CTAsPerSM  int      `json:"ctas_per_sm,omitempty"`
	CTAs       int      `json:"ctas,omitempty"`
	AtOnce     int      `json:"ctas_at_once,omitempty"`
	Waves      int      `json:"waves,omitempty"`
	LastFilled float64  `json:"last_wave_percent,omitempty"` // of the CTAs that run at once
}

// measuredStages returns the stages of a record, those with times and those with resources, in order.
func measuredStages(r *record.Record, plan kernels.Plan, d kernels.DeviceInfo) (list []MeasuredStage) {
	at := func(name string) *MeasuredStage {
		i := slices.IndexFunc(list, func(s MeasuredStage) bool { return s.Stage == name })
		if i < 0 {
			i, list = len(list), append(list, MeasuredStage{Stage: name})
		}
		return &list[i]
	}
	for i, s := range r.Stages {
		x := at(s.Stage)
		x.US, x.Exposed = new(stats.Median(s.SamplesUS)), r.StagesBy == kernels.ByExposed && i > 0 && i == len(r.Stages)-1
	}
	if r.Check == nil {
		return list
	}
	for _, k := range r.Check.Resources {
		x := at(k.Stage)
		x.Registers, x.Spill, x.Shared, x.Threads = k.Registers, k.Spill, k.Shared, k.Threads
		x.CTAsPerSM, x.CTAs = k.Occupancy, k.CTAs
		x.AtOnce = k.Occupancy * d.SMs
		for _, l := range plan.Launches {
			if l.Stage == k.Stage && l.Cluster > 1 {
				x.AtOnce = min(x.AtOnce, d.ClustersAtOnce(l.Cluster)*l.Cluster*max(k.Occupancy, 1))
			}
		}
		if x.AtOnce > 0 && x.CTAs > 0 {
			x.Waves = (x.CTAs + x.AtOnce - 1) / x.AtOnce
			x.LastFilled = 100 * float64(x.CTAs-(x.Waves-1)*x.AtOnce) / float64(x.AtOnce)
		}
	}
	return list
}

// time returns the stage's time with its share of a whole.
func (s *MeasuredStage) time(whole float64) string {
	if s.US == nil {
		return s.Stage + " not timed"
	}
	text := fmt.Sprintf("%s %s us (%.0f%%)", s.Stage, Micros(*s.US), 100**s.US/whole)
	if s.Exposed {
		text += " exposed: what the plan takes longer with it"
	}
	return text
}

// resources says in a line what the stage's launch has of a GPU.
func (s *MeasuredStage) resources() string {
	text := fmt.Sprintf("%d registers, %d threads", s.Registers, s.Threads)
	if s.Shared > 0 {
		text += fmt.Sprintf(", %s shared", kernels.FormatBytes(int64(s.Shared)))
	}
	if s.Spill > 0 {
		text += fmt.Sprintf(", %d bytes spilled", s.Spill)
	}
	text += fmt.Sprintf("; %d CTAs/SM; %d CTAs", s.CTAsPerSM, s.CTAs)
	switch {
	case s.Waves == 1:
		return text + fmt.Sprintf(" in 1 wave of %d, %.0f%% full", s.AtOnce, s.LastFilled)
	case s.Waves > 1:
		return text + fmt.Sprintf(" in %d waves of %d, the last %.0f%% full", s.Waves, s.AtOnce, s.LastFilled)
	}
	return text
}

// MeasuredTable says in about ten lines why a problem takes its time: beside a copy of the same tensors (the
// stream), the card's peak and an empty launch, by stages, and by what each launch has of the device. why says
// what picked the variant.
func MeasuredTable(r *record.Record, run *record.Run, plan kernels.Plan, why string) *Table {
	d, m := run.Device, Measurement{Outcome: record.Summarize(r, run)}
	stages := measuredStages(r, plan, d)
	gpu := d.Kind == kernels.KindCUDA
	us, beyond := m.Median, m.Median-m.StreamUS
	peak := 0.0
	if d.PeakRate > 0 {
		peak = 100 * m.gbps() * 1e9 / float64(d.PeakRate)
	}
	var lines [][2]string
	add := func(name, format string, args ...any) {
		lines = append(lines, [2]string{name, fmt.Sprintf(format, args...)})
	}
	match, _, _ := strings.Cut(why, ":")
	add("variant", "%s (%s)", r.Variant(), match)
	interval := ""
	if m.Lo > 0 {
		interval = fmt.Sprintf(" (95%%: %s-%s)", Micros(m.Lo), Micros(m.Hi))
	}
	add("time", "%s us%s, median of %d %s samples; the answer was checked", Micros(us), interval, m.N, run.Protocol.Name)
	if m.StreamUS > 0 {
		add("stream", "%s us for a copy of the same tensors: the kernel runs at %.0f%% of stream", Micros(m.StreamUS), m.streamPercent())
	} else {
		add("stream", "not measured")
	}
	rate := fmt.Sprintf("%s GB/s for %s, each tensor moved once", FormatRate(m.gbps()), kernels.FormatBytes(r.Bytes))
	switch {
	case peak > 0:
		rate += fmt.Sprintf("; %.0f%% of the card's peak of %s GB/s", peak, FormatRate(float64(d.PeakRate)/1e9))
	case gpu:
		rate += "; the card's peak is not known"
	default:
		rate += "; no peak is known of a CPU"
	}
	add("traffic", "%s", rate)
	switch {
	case !gpu:
		add("floor", "not measured on a CPU: a launch is a function call")
	case run.FloorUS > 0:
		add("floor", "%.2f us for an empty launch, which time and stream both contain", run.FloorUS)
	default:
		add("floor", "not known")
	}
	if m.StreamUS > 0 {
		add("beyond", "%s", beyondText(beyond, us, stages))
	}
	var times []string
	for i := range stages {
		times = append(times, stages[i].time(stageSum(stages)))
	}
	switch {
	case len(r.Stages) == 0:
		times = []string{"one launch, the whole time"}
		if len(plan.Launches) > 1 {
			times = []string{"not timed one by one"}
		}
	}
	add("stages", "%s", strings.Join(times, "; "))
	for i := range stages {
		if gpu && stages[i].Registers > 0 {
			add(stages[i].Stage, "%s", stages[i].resources())
		}
	}
	if !gpu {
		add("launches", "registers, CTAs per SM and waves have no meaning on a CPU: %d cores share the rows", d.SMs)
	}

	t := New("", "problem")
	row := []string{fmt.Sprintf("%s on %s", r.Problem, cmp.Or(d.Name, d.ID))}
	for _, l := range lines {
		t.Header, t.alias, row = append(t.Header, l[0]), append(t.alias, l[0]), append(row, l[1])
	}
	t.Align = make([]Align, len(t.Header))
	t.Rows, t.Below = [][]string{row}, [][]string{nil}
	t.Device = d.ID
	t.Data = measuredData(r, m, stages, beyond, peak, why)
	return t
}

func stageSum(stages []MeasuredStage) (sum float64) {
	for i := range stages {
		if stages[i].US != nil {
			sum += *stages[i].US
		}
	}
	return cmp.Or(sum, 1)
}

// beyondText says what of a time is beyond the stream, and how much of that later stages are.
func beyondText(beyond, us float64, stages []MeasuredStage) string {
	if beyond <= 0 {
		return fmt.Sprintf("nothing: it is %s us faster than the copy, which is another kernel with its own grid", Micros(-beyond))
	}
	text := fmt.Sprintf("%s us more than the copy (%.0f%% of the time)", Micros(beyond), 100*beyond/us)
	var later float64
	var names []string
	for i := range stages {
		if i > 0 && stages[i].US != nil {
			later += *stages[i].US
			names = append(names, stages[i].Stage)
		}
	}
	if later > 0 && later < beyond {
		text += fmt.Sprintf(": %s in %s, the other %s in %s", Micros(later), strings.Join(names, " and "),
			Micros(beyond-later), stages[0].Stage)
	} else if later > 0 {
		text += fmt.Sprintf(": %s alone adds %s", strings.Join(names, " and "), Micros(later))
	}
	return text
}

// measuredData returns the one row of csv and json; what is not known is empty.
func measuredData(r *record.Record, m Measurement, stages []MeasuredStage, beyond, peak float64, why string) *Table {
	run := m.run()
	number := func(f float64, known bool) string {
		if !known {
			return ""
		}
		return fmt.Sprintf("%g", math.Round(f*1e4)/1e4)
	}
	list, _ := json.Marshal(append([]MeasuredStage{}, stages...))
	t := New("", "problem", "device", "variant", "why", "us", "lo_us", "hi_us", "samples", "stream_us",
		"stream_percent", "bytes", "gbps", "peak_percent", "floor_us", "beyond_stream_us", "stages")
	t.Align[15] = JSON
	for i := 4; i < 15; i++ {
		t.Align[i] = Right
	}
	t.Rows = [][]string{{r.Problem.String(), run.Device.ID, r.Variant().String(), why, number(m.Median, true),
		number(m.Lo, m.Lo > 0), number(m.Hi, m.Lo > 0), fmt.Sprint(m.N), number(m.StreamUS, m.StreamUS > 0),
		number(m.streamPercent(), m.StreamUS > 0), fmt.Sprint(r.Bytes), number(m.gbps(), true), number(peak, peak > 0),
		number(run.FloorUS, run.FloorUS > 0), number(beyond, m.StreamUS > 0), string(list)}}
	return t
}
