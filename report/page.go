package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/sweep/record"
)

// A Page is a report as one HTML file that needs no other and no network: the
// verdict first, then charts, tables and what it was measured on. It can be read
// without its script, which sorts and filters tables.
type Page struct {
	Title   string
	What    string   // below the title: what is compared with what
	Tally   []Tally  // the verdict in numbers
	Summary []string // and in sentences
	Figures []Figures
	Charts  []Chart
	Tables  []*Table
	Runs    []*record.Run // that it was measured in
	More    []Fact        // beside those of the runs
	stages  *Chart        // of launches, the last chart; nil for none
}

// A Tally is a number with its word. Class is good, bad, same, open or empty.
type Tally struct{ N, Word, Class string }

// A Fact is a line of what the page was measured on.
type Fact struct{ Name, Value string }

// Figures are drawings under a heading.
type Figures struct {
	Title, Help string
	Series      []picture.Series // legend
	Drawings    []*picture.Drawing
}

// A Chart has a row per problem, with marks on one scale, or with bars.
type Chart struct {
	Title, Help string
	Series      []picture.Series // legend; marks count from its first
	Stages      []string         // legend of bars
	Ref         float64          // where a line stands, such as 1; 0 for bars, which have no scale
	Unit        string           // behind each tick
	Rows        []ChartRow
}

// A ChartRow is one problem of a Chart.
type ChartRow struct {
	Kind, Label, Value string // rows of one Kind stand under a heading; Value stands right
	Marks              []ChartMark
	Bars               []Bar
}

// A ChartMark is a value with its interval, 0 and 0 for none. Class is its colour.
type ChartMark struct {
	At, Lo, Hi float64
	Class, Tip string
}

// A Bar is one launch in a row, placed in percent of the chart's width. Stage is its number.
type Bar struct {
	Left, Wide, Tip string
	Stage           int
}

// maxStages is how many launches have a colour of their own.
const maxStages = 5

// overlaps says that a launch begins before the one before it has ended: together they take
// less than one by one, by more than the two passes differ. total is what the bars add up to.
func (v Value) overlaps() (total float64, overlaps bool) {
	longest := 0.0
	for _, s := range v.Stages {
		total, longest = total+s.US, max(longest, s.US)
	}
	if v.US > 0 && total > v.US*1.05 {
		return max(v.US, longest), true
	}
	return total, false
}

// addStages adds the launches of a problem's sides, as bars to the scale of the problem. Of a
// launch that overlaps those before it, the bar is the part beyond them.
func (p *Page) addStages(problem kernels.Problem, sides []Value) {
	if p.stages == nil {
		p.stages = &Chart{Title: "Launch by launch",
			Help: "Median time of each launch, us, from a pass of its own."}
	}
	longest := 0.0
	for _, v := range sides {
		if total, _ := v.overlaps(); len(v.Stages) > 1 {
			longest = max(longest, total)
		}
	}
	for i, v := range sides {
		if len(v.Stages) < 2 {
			continue
		}
		row := ChartRow{Kind: KindOf(problem), Label: ShapeOf(problem) + " " + letter(i)}
		end, overlaps := v.overlaps()
		at := 0.0
		var times []string
		for k, s := range v.Stages {
			if !slices.Contains(p.stages.Stages, s.Stage) {
				p.stages.Stages = append(p.stages.Stages, s.Stage)
			}
			wide, tip := min(s.US, end-at), fmt.Sprintf("%s %s us", s.Stage, Micros(s.US))
			if k > 0 && overlaps {
				tip += fmt.Sprintf(", overlaps %s: %s us beyond it", v.Stages[k-1].Stage,
					cmp.Or(Micros(wide), "0"))
			}
			row.Bars = append(row.Bars, Bar{percent(at / longest), percent(wide / longest), tip,
				slices.Index(p.stages.Stages, s.Stage) % maxStages})
			times, at = append(times, Micros(s.US)), at+wide
		}
		if row.Value = strings.Join(times, " + "); overlaps {
			const note = " * The launches overlap and take less together: the bar of each is its part " +
				"beyond those before it."
			row.Value += " *"
			p.stages.Help = strings.TrimSuffix(p.stages.Help, note) + note
		}
		p.stages.Rows = append(p.stages.Rows, row)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

// facts are those of runs: the card, the software, the protocol and the time.
func facts(runs []*record.Run) (list []Fact) {
	add := func(name string, of func(*record.Run) string) {
		var values []string
		for _, r := range runs {
			if v := of(r); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if more := len(values) - 6; more > 0 {
			values = append(values[:6:6], fmt.Sprintf("and %d more", more))
		}
		if len(values) > 0 {
			list = append(list, Fact{name, strings.Join(values, "; ")})
		}
	}
	add("device", func(r *record.Run) string {
		d := r.Device
		if d.Kind == kernels.KindCPU {
			return fmt.Sprintf("%s (%s, %d cores)", d.Name, d.Arch, d.SMs)
		}
		return fmt.Sprintf("%s (%s, %d SMs, L2 %s)", d.Name, d.Arch, d.SMs,
			kernels.FormatBytes(d.CacheBytes))
	})
	add("driver", func(r *record.Run) string {
		if r.Device.Driver == "" {
			return ""
		}
		return strings.TrimSpace(r.Device.DriverVersion + " (CUDA " + r.Device.Driver + ")")
	})
	add("compiler", func(r *record.Run) string { return r.Device.Compiler })
	add("protocol", func(r *record.Run) string {
		cache := "warm cache"
		if r.Protocol.Cold {
			cache = "cold cache"
		}
		return fmt.Sprintf("%s: %d samples, %s", r.Protocol.Name, r.Protocol.Samples, cache)
	})
	add("floor", func(r *record.Run) string {
		return floorText(Cell{Kind: r.Device.Kind, FloorUS: r.FloorUS})
	})
	add("selftest", (*record.Run).Failed)
	add("date", func(r *record.Run) string {
		if r.Time.IsZero() {
			return ""
		}
		return r.Time.UTC().Format(time.DateTime) + " UTC"
	})
	add("normbench", func(r *record.Run) string { return r.Tool })
	add("command", func(r *record.Run) string { return strings.Join(r.Command, " ") })
	for _, k := range variables(runs) {
		add(k, func(r *record.Run) string { return r.Env[k] })
	}
	add("run", func(r *record.Run) string { return r.ID })
	return list
}

// variables are those of the environments of runs, sorted.
func variables(runs []*record.Run) []string {
	names := map[string]bool{}
	for _, r := range runs {
		for k := range r.Env {
			names[k] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Facts are what the page was measured on.
func (p *Page) Facts() []Fact { return append(facts(p.Runs), p.More...) }

// Stamp is the card and the days, for the top of the page.
func (p *Page) Stamp() string {
	var parts, days []string
	for _, r := range p.Runs {
		if card := r.Device.Name; !strings.Contains(p.Title, card) &&
			!slices.Contains(parts, card) {
			parts = append(parts, card)
		}
		if !r.Time.IsZero() {
			days = append(days, r.Time.UTC().Format(time.DateOnly))
		}
	}
	if len(days) > 0 {
		slices.Sort(days)
		days = slices.Compact([]string{days[0], days[len(days)-1]})
		parts = append(parts, strings.Join(days, " to "))
	}
	return strings.Join(parts, ", ")
}

// class is the class of the mark's colour on a page.
func (m Mark) class() string {
	return cmp.Or(map[Mark]string{Faster: "good", Slower: "bad", Same: "same", Equal: "same"}[m],
		"open")
}

// KindOf is the heading that a problem stands under.
func KindOf(p kernels.Problem) string { return kind(p) + " " + dtypes(p) }

// ShapeOf is a problem's label under it.
func ShapeOf(p kernels.Problem) string { return fmt.Sprintf("%dx%d", p.M, p.N) }

// label is a row's on a chart of two sides: its shape, and the peer that one of them is.
func (r *Row) label() string {
	return strings.TrimSpace(ShapeOf(r.Problem) + " " + r.peer())
}

// streamInterval is the interval of a side's share of the stream's speed in percent, 0 and 0 for
// none.
func (v Value) streamInterval() (lo, hi float64) {
	if !(v.LoUS > 0) || !(v.HiUS > 0) {
		return 0, 0
	}
	return v.StreamPercent * v.US / v.HiUS, v.StreamPercent * v.US / v.LoUS
}

// tip says all of a side's time on a problem.
func (v Value) tip(side string) string {
	return fmt.Sprintf("%s: %s us, %.1f%% of the stream, %s@%s", side,
		Interval(v.US, v.LoUS, v.HiUS), v.StreamPercent, v.Family, v.Config)
}

// addProblem adds a problem's speeds to a chart of them, and its launches to the stages.
func (p *Page) addProblem(c *Chart, problem kernels.Problem, label string, sides []Value) {
	row := ChartRow{Kind: KindOf(problem), Label: label}
	for i, v := range sides {
		if v.StreamPercent > 0 {
			m := ChartMark{At: v.StreamPercent, Class: c.Series[i].Class,
				Tip: v.tip(c.Series[i].Name)}
			m.Lo, m.Hi = v.streamInterval()
			row.Marks, row.Value = append(row.Marks, m), tenth(m.At)
		}
	}
	p.addStages(problem, sides)
	if len(row.Marks) > 0 {
		c.Rows = append(c.Rows, row)
	}
}

// speeds is an empty chart of speed against the stream.
func speeds(series []picture.Series) *Chart {
	last := series[len(series)-1].Name
	return &Chart{Title: "Speed against the stream", Series: series, Ref: 100, Unit: "%",
		Help: "100% is a copy of the same tensors in the same run. Bars are 95% intervals; the number " +
			"is of " + last + "."}
}

// Page is g as a page: how near each arm comes to the stream on every problem, and
// over each side that grows.
func (g *Growth) Page(title string, runs []*record.Run) *Page {
	scores, rows := g.Tables()
	p := &Page{Title: title, What: g.legend(), Runs: runs, Summary: slices.Clone(g.Notes)}
	for i, x := range g.series {
		own := slices.DeleteFunc(slices.Clone(g.Stream),
			func(s StreamScore) bool { return s.Side != letter(i) })
		for _, s := range own {
			if s.N > 0 && (s.Kind == "" || len(own) == 1) {
				p.Tally = append(p.Tally, Tally{fmt.Sprintf("%.1f%%", 100*s.Mean),
					fmt.Sprintf("of the stream: %s, %s", x.Name,
						console.Count(s.N, "problem")), ""})
			}
		}
	}
	if len(g.Rows) > 0 {
		c := speeds(g.series)
		for _, r := range g.Rows {
			p.addProblem(c, r.Problem, ShapeOf(r.Problem), r.Arms)
		}
		p.Charts = []Chart{*c}
	}
	figures := Figures{Title: "Over rows and columns", Series: g.series,
		Help: "% of the stream's speed: 100% is a copy of the same tensors. Bars are 95% intervals."}
	for _, over := range []*Axis{OverM, OverN} {
		ps := g.panels(over)
		figures.Drawings = append(figures.Drawings, g.draw(ps[:min(len(ps), maxPanels)], over)...)
	}
	p.Figures = []Figures{figures}
	rows.Title, scores.Title, scores.Notes = "Every problem", "How near to the stream", nil
	p.Tables = []*Table{rows.LedBy("M", "N"), scores}
	return p
}

// Page is a comparison as a page.
func (c *Comparison) Page(title string, runs []*record.Run) *Page {
	p := &Page{Title: title, What: fmt.Sprintf("A = %s, B = %s", c.A, c.B), Runs: runs}
	all := c.All
	if all.N > 0 {
		mean := ""
		if all.Lo > 0 {
			mean = fmt.Sprintf(" (95%% %.3f-%.3f)", all.Lo, all.Hi)
		}
		p.Tally = append(p.Tally, Tally{Ratio(all.Speedup), "mean speedup over " +
			console.Count(all.N, "problem") + mean, ""})
	}
	for _, t := range []struct {
		n    int
		word string
		mark Mark
	}{{all.Faster, "faster", Faster}, {all.Same, "same", Same}, {all.Slower, "slower", Slower},
		{all.Unclear, "inconclusive", Unclear},
		{all.Equal, "equal", Equal}, {all.Without, "without a time", Slower}} {
		if t.n > 0 || t.mark != Equal && t.word != "without a time" {
			p.Tally = append(p.Tally, Tally{strconv.Itoa(t.n), t.word, t.mark.class()})
		}
	}
	if c.Worst != nil {
		p.Summary = append(p.Summary, fmt.Sprintf("Worst: %s at %s.", name(c.Worst.Problem),
			Ratio(c.Worst.Speedup)))
	}
	p.Summary = append(p.Summary, c.Notes...)
	chart := Chart{Title: "Speedup on every problem", Ref: 1, Unit: "x",
		Help: "A's time over B's, with its interval where both were in the same rounds. Right of 1x B " +
			"is faster. The colour is the verdict."}
	times := speeds(c.series)
	byKind := slices.SortedStableFunc(slices.Values(c.Rows),
		func(x, y Row) int { return record.CompareProblems(x.Problem, y.Problem) })
	for _, r := range byKind {
		if r.Speedup > 0 {
			m := ChartMark{At: r.Speedup, Class: r.Mark.class(),
				Tip: fmt.Sprintf("%s: A %s us, B %s us, %s", ShapeOf(r.Problem),
					Interval(r.A.US, r.A.LoUS, r.A.HiUS), Interval(r.B.US, r.B.LoUS, r.B.HiUS),
					r.Verdict())}
			if r.Paired != nil && r.Paired.Lo > 0 {
				m.At, m.Lo, m.Hi = r.Paired.Speedup, r.Paired.Lo, r.Paired.Hi
				m.Tip += fmt.Sprintf(", %s in %d rounds", ratioIn(m.At, m.Lo, m.Hi),
					r.Paired.Rounds)
			}
			chart.Rows = append(chart.Rows, ChartRow{Kind: KindOf(r.Problem), Label: r.label(),
				Value: fmt.Sprintf("%.3fx", m.At), Marks: []ChartMark{m}})
		}
		p.addProblem(times, r.Problem, r.label(), []Value{r.A, r.B})
	}
	p.Charts = []Chart{chart, *times}
	rows, means := c.Table(), meanTable(c)
	_, how, _ := strings.Cut(rows.Title, "\n")
	rows.Title = "Every problem\n" + strings.ReplaceAll(how, "\n", " ")
	means.Title = "Geometric means"
	p.Tables = []*Table{rows.LedBy("M", "N", "speedup", "verdict"), means}
	return p
}

// Interval is a median time with its interval, "51.6 (51.4-51.9)": a digit after the point,
// two below 10 us. The median alone where there is no interval.
func Interval(us, lo, hi float64) string {
	if !(lo > 0) || !(hi > 0) {
		return Micros(us)
	}
	digits := 1
	if us < 10 {
		digits = 2
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", digits, us, digits, lo, digits, hi)
}

// span is the scale of a chart, with all that is in it.
func (c *Chart) span() (lo, hi float64) {
	lo, hi = c.Ref, c.Ref
	for _, r := range c.Rows {
		for _, m := range r.Marks {
			lo, hi = min(lo, m.At), max(hi, m.At, m.Hi)
			if m.Lo > 0 {
				lo = min(lo, m.Lo)
			}
		}
	}
	if room := (hi - lo) * 0.04; room > 0 {
		return max(lo-room, 0), hi + room
	}
	return lo * 0.9, max(hi*1.1, 1e-9)
}

// Long says that a chart can be closed by who has seen it.
func (c *Chart) Long() bool { return len(c.Rows) > 120 }

// X is where a value stands, in percent of the chart's width.
func (c *Chart) X(v float64) string {
	lo, hi := c.span()
	return percent((v - lo) / (hi - lo))
}

// Ticks are round values on the scale, five or so.
func (c *Chart) Ticks() []picture.Tick {
	lo, hi := c.span()
	return picture.Even(lo, hi, math.Pow(10, math.Floor(math.Log10((hi-lo)/3))), 6)
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	whole := *p
	if p.stages != nil {
		whole.Charts = append(slices.Clip(p.Charts), *p.stages)
	}
	return page.Execute(w, &whole)
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"right": func(t *Table, column int) bool { return t.align(column) == Right },
	"class": cellClass,
	"stage": func(i int) int { return i % maxStages },
	"lines": func(s string) []string { return strings.Split(s, "\n") },
	"style": func() template.CSS {
		return template.CSS(picture.Style(func(name string) string {
			return "var(--" + name + ")"
		}))
	},
}).Parse(pageText))
