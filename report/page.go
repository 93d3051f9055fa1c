package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// A Page is a report as one HTML file that needs no other and no network: the
// verdict first, then charts, tables and what it was measured on. It can be read
// without its script, which sorts and filters tables.
type Page struct {
	Title   string
	What    string   // below the title: what is compared with what
	Tally   []Tally  // the verdict in numbers
	Summary []string // and in sentences
	Charts  []Chart
	Maps    []Map
	Panels  []Panel
	Stages  *Stages
	Tables  []*Table
	Facts   []Fact
}

// A Tally is a number with its word. Class is good, bad, same, open or empty.
type Tally struct{ N, Word, Class string }

// A Fact is a line of what the page was measured on.
type Fact struct{ Name, Value string }

// A Chart has a row per problem, with marks on one scale.
type Chart struct {
	Title, Help string
	Series      []string // legend; marks count from its first
	Ref         float64  // where a line stands, such as 1
	Unit        string   // behind each tick
	Rows        []ChartRow
}

// A ChartRow is one problem of a Chart.
type ChartRow struct {
	Kind, Label, Value string // rows of one Kind stand under a heading; Value stands right
	Marks              []ChartMark
}

// A ChartMark is a value with its interval, 0 and 0 for none.
type ChartMark struct {
	Series     int
	At, Lo, Hi float64
	Class, Tip string
}

// Stages are the times of each launch, as bars.
type Stages struct {
	By   string // how they were taken
	Rows []StageRow
}

// Names are the launches, in the order of the legend.
func (s *Stages) Names() (names []string) {
	for _, r := range s.Rows {
		for _, p := range r.Parts {
			if !slices.Contains(names, p.Stage) {
				names = append(names, p.Stage)
			}
		}
	}
	return names
}

// Overlap says that launches of some row run beside each other.
func (s *Stages) Overlap() bool { return slices.ContainsFunc(s.Rows, StageRow.Overlaps) }

// A StageRow is the launches of one side on one problem.
type StageRow struct {
	Kind, Label, Side string
	US                float64 // of all launches together
	Parts             []StageValue
}

// sum is what the launches take one by one.
func (r StageRow) sum() (us float64) {
	for _, p := range r.Parts {
		us += p.US
	}
	return us
}

// Overlaps says that a launch begins before the one before it has ended: together they take
// less than one by one, by more than the two passes differ.
func (r StageRow) Overlaps() bool { return r.US > 0 && r.sum() > r.US*1.05 }

// total is the length of the row's bars.
func (r StageRow) total() float64 {
	total := r.sum()
	if !r.Overlaps() {
		return total
	}
	total = r.US
	for _, p := range r.Parts {
		total = max(total, p.US)
	}
	return total
}

// A Map has a dot for each problem, rows over columns, coloured by its value.
type Map struct {
	Title  string
	Unit   string    // behind each number
	Limits []float64 // four, between the colours, from the worst
	Dots   []MapDot
}

// A MapDot is one problem of a Map.
type MapDot struct {
	Rows, Columns int64
	Value         float64
	Square        bool
	Tip           string
}

// A Panel is a line per arm over a side that grows.
type Panel struct {
	Title, Axis string
	Arms        []string
	lines       [][]point
	lo, hi, top float64
}

// Facts are those of runs: the card, the software, the protocol and the time.
func Facts(runs ...*record.Run) []Fact {
	var facts []Fact
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
			facts = append(facts, Fact{name, strings.Join(values, "; ")})
		}
	}
	add("device", func(r *record.Run) string {
		d := r.Device
		s := fmt.Sprintf("%s (%s, %d SMs, L2 %s)", d.Name, d.Arch, d.SMs, kernels.FormatBytes(d.CacheBytes))
		if d.Kind == kernels.KindCPU {
			s = fmt.Sprintf("%s (%s, %d cores)", d.Name, d.Arch, d.SMs)
		}
		return s
	})
	add("driver", func(r *record.Run) string {
		if r.Device.Driver == "" {
			return ""
		}
		return strings.TrimSpace(r.Device.DriverVersion + " (CUDA " + r.Device.Driver + ")")
	})
	add("compiler", func(r *record.Run) string { return r.Device.Compiler })
	add("protocol", func(r *record.Run) string {
		p := r.Protocol
		cache := "warm cache"
		if p.Cold {
			cache = "cold cache"
		}
		return fmt.Sprintf("%s: %d samples, %s", p.Name, p.Samples, cache)
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
	keys := map[string]bool{}
	for _, r := range runs {
		for k := range r.Env {
			keys[k] = true
		}
	}
	var names []string
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		add(k, func(r *record.Run) string { return r.Env[k] })
	}
	add("run", func(r *record.Run) string { return r.ID })
	return facts
}

// VerdictClass is the class of a verdict's colour.
func VerdictClass(v string) string {
	switch {
	case strings.HasPrefix(v, string(verdict.Faster)) || v == string(Faster):
		return "good"
	case strings.HasPrefix(v, string(verdict.Slower)) || v == string(Slower):
		return "bad"
	case strings.HasPrefix(v, string(verdict.Same)) || v == string(Same) || strings.HasPrefix(v, string(Equal)):
		return "same"
	}
	return "open"
}

// KindOf is the heading that a problem stands under.
func KindOf(p kernels.Problem) string { return kind(p) + " " + dtypes(p) }

// ShapeOf is a problem's label under it.
func ShapeOf(p kernels.Problem) string { return fmt.Sprintf("%dx%d", p.M, p.N) }

// ShortNames are labels in words, or without the folders in them, as far as they still differ.
func ShortNames(labels []string) []string {
	for _, short := range []func(string) string{wordName, shortName} {
		names := make([]string, len(labels))
		seen := map[string]bool{}
		for i, l := range labels {
			names[i] = short(l)
			seen[names[i]] = true
		}
		if len(seen) == len(labels) {
			return names
		}
	}
	return labels
}

// wordName says what the usual arms are.
func wordName(label string) string {
	label = shortName(label)
	_, selector, _ := strings.Cut(label, "#")
	switch {
	case label == "base" || selector == "base":
		return "normbench default"
	case label == "tuned":
		return "normbench tuned"
	case label == "fastest of ours":
		return "normbench, fastest recorded"
	case label == "peer:best" || label == "fastest peer" || selector == "peers":
		return "best other library"
	}
	return label
}

func shortName(label string) string {
	words := strings.Split(label, " ")
	for i, w := range words {
		file, selector, chosen := strings.Cut(w, "#")
		switch file, tuned := strings.CutPrefix(file, "tuned:"); {
		case tuned && path.Base(file) == "tuned.json":
			words[i] = "tuned"
		case tuned:
			words[i] = "tuned:" + path.Base(file)
		case chosen || strings.Contains(file, "results/") || slices.Contains([]string{".json", ".jsonl", ".gz", ".csv"}, path.Ext(file)):
			words[i] = path.Base(file)
		}
		if chosen {
			words[i] += "#" + selector
		}
	}
	return strings.Join(words, " ")
}

// Page is g as a page: how near each arm comes to the stream on every problem, and
// over each side that grows.
func (g *Growth) Page(title string, facts []Fact) *Page {
	scores, rows := g.Tables()
	arms := ShortNames(g.Arms)
	p := &Page{Title: title, What: g.legend(), Facts: facts, Summary: slices.Clone(g.Notes)}
	for i := range g.Arms {
		for _, s := range g.Stream {
			if s.Side == letter(i) && s.N > 0 && (s.Kind == "" || !slices.ContainsFunc(g.Stream, func(x StreamScore) bool { return x.Side == s.Side && x.Kind == "" })) {
				p.Tally = append(p.Tally, Tally{fmt.Sprintf("%.1f%%", 100*s.Mean), fmt.Sprintf("of the stream: %s, %s", arms[i], count(s.N, "problem", "problems")), ""})
			}
		}
	}
	c := Chart{Title: "Speed on every problem", Help: "100% is a copy of the same tensors in the same run. Bars are 95% intervals; the number is the last arm's.", Series: arms, Ref: 100, Unit: "%"}
	stages := &Stages{}
	for _, r := range g.Rows {
		row := ChartRow{Kind: KindOf(r.Problem), Label: ShapeOf(r.Problem)}
		for i, v := range r.Arms {
			if v.StreamPercent == 0 {
				continue
			}
			m := ChartMark{Series: i, At: v.StreamPercent, Tip: fmt.Sprintf("%s: %s us, %.1f%% of the stream, %s@%s", arms[i], Interval(v.US, v.LoUS, v.HiUS), v.StreamPercent, v.Family, v.Config)}
			if v.LoUS > 0 {
				m.Lo, m.Hi = v.StreamPercent*v.US/v.HiUS, v.StreamPercent*v.US/v.LoUS
			}
			row.Marks = append(row.Marks, m)
			row.Value = tenth(v.StreamPercent)
			if len(v.Stages) > 1 {
				stages.Rows = append(stages.Rows, StageRow{row.Kind, row.Label, letter(i), v.US, v.Stages})
			}
		}
		if len(row.Marks) > 0 {
			c.Rows = append(c.Rows, row)
		}
	}
	if len(c.Rows) > 0 {
		p.Charts = append(p.Charts, c)
	}
	for _, over := range []*Axis{OverM, OverN} {
		ps := g.panels(over)
		scale := growthScale(ps)
		for _, in := range ps[:min(len(ps), maxPanels)] {
			p.Panels = append(p.Panels, Panel{Title: over.title(in), Axis: over.label, Arms: arms, lines: in.lines, lo: scale.xLo, hi: scale.xHi, top: scale.yHi})
		}
	}
	if len(stages.Rows) > 0 {
		p.Stages = stages
	}
	rows.Title, scores.Title, scores.Notes = "Every problem", "How near to the stream", nil
	p.Tables = []*Table{rows.LedBy("M", "N"), scores}
	return p
}

// lettered are the sides of a comparison as a legend names them.
func lettered(a, b string) []string {
	names := ShortNames([]string{a, b})
	return []string{"A, " + names[0], "B, " + names[1]}
}

// Page is a recorded comparison as a page.
func (c *Comparison) Page(title string, facts []Fact) *Page {
	p := &Page{Title: title, What: fmt.Sprintf("A = %s, B = %s", c.A, c.B), Facts: facts}
	all := c.All
	for _, t := range []struct {
		n           int
		word, class string
	}{{all.Faster, "faster", "good"}, {all.Same, "same", "same"}, {all.Slower, "slower", "bad"}, {all.Unclear, "inconclusive", "open"}, {all.Equal, "equal", "same"}} {
		if t.word == "equal" && t.n == 0 {
			continue
		}
		p.Tally = append(p.Tally, Tally{strconv.Itoa(t.n), t.word, t.class})
	}
	if all.N > 0 {
		p.Tally = append([]Tally{{Ratio(all.Speedup), "mean speedup over " + count(all.N, "problem", "problems"), ""}}, p.Tally...)
	}
	if c.Worst != nil {
		p.Summary = append(p.Summary, fmt.Sprintf("Worst: %s at %s.", name(c.Worst.Problem), Ratio(c.Worst.Speedup)))
	}
	p.Summary = append(p.Summary, c.Notes...)
	chart := Chart{Title: "Speedup on every problem", Help: "A's time over B's, with its interval where both were in the same rounds. Right of 1x B is faster.", Series: nil, Ref: 1, Unit: "x"}
	times := Chart{Title: "Speed against the stream", Help: "100% is a copy of the same tensors in the same run. Bars are 95% intervals; the number is B's.", Series: lettered(c.A, c.B), Ref: 100, Unit: "%"}
	stages := &Stages{}
	for _, r := range c.Rows {
		k, shape := KindOf(r.Problem), ShapeOf(r.Problem)
		if r.Speedup > 0 {
			m := ChartMark{At: r.Speedup, Class: VerdictClass(string(r.Mark)),
				Tip: fmt.Sprintf("%s: A %s us, B %s us, %s", shape, Interval(r.A.US, r.A.LoUS, r.A.HiUS), Interval(r.B.US, r.B.LoUS, r.B.HiUS), Ratio(r.Speedup))}
			if r.Paired != nil && r.Paired.Lo > 0 {
				m.At, m.Lo, m.Hi = r.Paired.Speedup, r.Paired.Lo, r.Paired.Hi
				m.Tip += fmt.Sprintf(", %.3fx (%.3f-%.3f) in %d rounds", m.At, m.Lo, m.Hi, r.Paired.Rounds)
			}
			chart.Rows = append(chart.Rows, ChartRow{k, shape, Ratio(m.At), []ChartMark{m}})
		}
		row := ChartRow{Kind: k, Label: shape}
		for i, v := range []Value{r.A, r.B} {
			if v.StreamPercent > 0 {
				m := ChartMark{Series: i, At: v.StreamPercent, Tip: fmt.Sprintf("%s: %s us, %.1f%% of the stream, %s@%s", letter(i), Interval(v.US, v.LoUS, v.HiUS), v.StreamPercent, v.Family, v.Config)}
				if v.LoUS > 0 {
					m.Lo, m.Hi = v.StreamPercent*v.US/v.HiUS, v.StreamPercent*v.US/v.LoUS
				}
				row.Marks, row.Value = append(row.Marks, m), tenth(v.StreamPercent)
			}
			if len(v.Stages) > 1 {
				stages.Rows = append(stages.Rows, StageRow{k, shape, letter(i), v.US, v.Stages})
			}
		}
		if len(row.Marks) > 0 {
			times.Rows = append(times.Rows, row)
		}
	}
	for _, x := range []Chart{chart, times} {
		if len(x.Rows) > 0 {
			p.Charts = append(p.Charts, x)
		}
	}
	if len(stages.Rows) > 0 {
		p.Stages = stages
	}
	rows, means := rowTable(c), meanTable(c)
	rows.Title, means.Title = "Every problem\n"+strings.Join(strings.Split(rows.Title, "\n")[1:], " "), "Geometric means"
	p.Tables = []*Table{rows.LedBy("M", "N", "speedup", "verdict"), means}
	return p
}

// LedBy is t as a page shows it: a phone has room for a few columns, so those of first come
// first, and what t is grouped by stands above or last.
func (t *Table) LedBy(first ...string) *Table {
	c := *t
	c.Header, c.Align, c.Rows = slices.Clone(t.Header), nil, nil
	for i := range t.Header {
		c.Align = append(c.Align, t.align(i))
	}
	for _, row := range t.Rows {
		c.Rows = append(c.Rows, append(slices.Clone(row), make([]string, max(len(t.Header)-len(row), 0))...))
	}
	drop := []string{""}
	if g := t.Group; g != nil && len(t.Rows) > 0 {
		heads := make([]string, len(c.Rows))
		for i, row := range c.Rows {
			heads[i], row[0] = g.Of(row)
		}
		if drop = append(drop, g.Hide...); len(g.Hide) == 0 {
			c.Header[0], first = "shape", append([]string{"shape"}, first...)
		}
		if heads[0] == slices.Max(heads) && heads[0] == slices.Min(heads) {
			c.Title += "\n" + heads[0]
		} else {
			c.Header, c.Align = append(c.Header, "of"), append(c.Align, Left)
			for i := range c.Rows {
				c.Rows[i] = append(c.Rows[i], heads[i])
			}
		}
	}
	var order []int
	for _, h := range first {
		if i := slices.Index(c.Header, h); i >= 0 {
			order = append(order, i)
		}
	}
	for i, h := range c.Header {
		empty := !slices.ContainsFunc(c.Rows, func(row []string) bool { return row[i] != "" })
		if !slices.Contains(drop, h) && !slices.Contains(first, h) && !empty {
			order = append(order, i)
		}
	}
	led := c.Ordered(order)
	led.Legend = nil
	for _, m := range t.Legend {
		if slices.Contains(led.Header, m.Column) {
			led.Legend = append(led.Legend, m)
		}
	}
	return led
}

// Ordered is t with some of its columns, in an order.
func (t *Table) Ordered(columns []int) *Table {
	c := *t
	c.Header, c.Align, c.Rows = pick(t.Header, columns), nil, nil
	for _, i := range columns {
		c.Align = append(c.Align, t.align(i))
	}
	for _, row := range t.Rows {
		c.Rows = append(c.Rows, pick(row, columns))
	}
	return &c
}

// Stamp is the card and the day, for the top of the page.
func (p *Page) Stamp() string {
	var parts []string
	for _, f := range p.Facts {
		values := strings.Split(f.Value, "; ")
		switch f.Name {
		case "device":
			for _, v := range values {
				if card, _, _ := strings.Cut(v, " ("); !strings.Contains(p.Title, card) {
					parts = append(parts, card)
				}
			}
		case "date":
			first, _, _ := strings.Cut(values[0], " ")
			last := first
			for _, v := range values[1:] {
				if day, _, ok := strings.Cut(v, " "); ok && day[0] >= '0' && day[0] <= '9' {
					last = day
				}
			}
			if last != first {
				first += " to " + last
			}
			parts = append(parts, first)
		}
	}
	return strings.Join(parts, ", ")
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return page.Execute(w, p) }

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
	return fmt.Sprintf("%.2f%%", 100*(v-lo)/(hi-lo))
}

// Ticks are round values on the scale, five or so.
func (c *Chart) Ticks() []float64 {
	lo, hi := c.span()
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/3)))
	for i := 0; (hi-lo)/step > 6; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	var ts []float64
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		ts = append(ts, i*step)
	}
	return ts
}

// A bar is one launch in a StageRow, placed in percent of the chart's width.
type bar struct {
	Left, Wide, Tip, Stage string
	N                      int
}

// Bars are a row's, to the scale of its problem. Of a launch that overlaps those before it,
// the bar is the part beyond them.
func (s *Stages) Bars(r StageRow) []bar {
	longest, at, end := 0.0, 0.0, r.total()
	for _, x := range s.Rows {
		if x.Kind == r.Kind && x.Label == r.Label {
			longest = max(longest, x.total())
		}
	}
	names := s.Names()
	var bars []bar
	for i, v := range r.Parts {
		wide, tip := min(v.US, end-at), fmt.Sprintf("%s %s us", v.Stage, Micros(v.US))
		if i > 0 && r.Overlaps() {
			tip += fmt.Sprintf(", overlaps %s: %s us beyond it", r.Parts[i-1].Stage, cmp.Or(Micros(wide), "0"))
		}
		bars = append(bars, bar{fmt.Sprintf("%.2f%%", 100*at/longest), fmt.Sprintf("%.2f%%", 100*wide/longest), tip, v.Stage, slices.Index(names, v.Stage) % MaxStages})
		at += wide
	}
	return bars
}

// MaxStages is how many launches have a colour of their own.
const MaxStages = 5

// Colour is a value's among those of a Map, from 0, the worst.
func (m *Map) Colour(v float64) int {
	for i, limit := range m.Limits {
		if worse := v < limit; worse != m.falls() {
			return i
		}
	}
	return len(m.Limits)
}

// falls says that less is better.
func (m *Map) falls() bool { return len(m.Limits) > 1 && m.Limits[0] > m.Limits[1] }

// Colours are the legend, from the worst.
func (m *Map) Colours() (words []string) {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) + m.Unit }
	first, last := "below ", "above "
	if m.falls() {
		first, last = last, first
	}
	for i, limit := range m.Limits {
		if i == 0 {
			words = append(words, first+number(limit))
		} else {
			words = append(words, number(min(limit, m.Limits[i-1]))+" to "+number(max(limit, m.Limits[i-1])))
		}
	}
	return append(words, last+number(m.Limits[len(m.Limits)-1]))
}

// A mark is a dot of a Map where it is drawn.
type mark struct {
	X, Y, Tip string
	Colour    int
	Square    bool
}

// frame is the scale of a map.
func (m *Map) frame() (x, y func(float64) float64, lo, hi [2]float64) {
	lo, hi = [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{1, 1}
	for _, d := range m.Dots {
		for i, v := range []int64{d.Columns, d.Rows} {
			lo[i], hi[i] = min(lo[i], float64(v)), max(hi[i], float64(v))
		}
	}
	share := func(v float64, i int) float64 { return math.Log(v/lo[i]) / math.Log(max(hi[i]/lo[i], 1.01)) }
	x = func(v float64) float64 { return paneLeft + 6 + (paneRight-paneLeft-12)*share(v, 0) }
	y = func(v float64) float64 { return paneBottom - 6 - (paneBottom-paneTop-12)*share(v, 1) }
	return x, y, lo, hi
}

// Marks are the dots, the worst on top.
func (m *Map) Marks() (marks []mark) {
	x, y, _, _ := m.frame()
	for _, d := range m.Dots {
		marks = append(marks, mark{fmt.Sprintf("%.1f", x(float64(d.Columns))), fmt.Sprintf("%.1f", y(float64(d.Rows))), d.Tip, m.Colour(d.Value), d.Square})
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return b.Colour - a.Colour })
	return marks
}

// XTicks are those of columns.
func (m *Map) XTicks() (ts []tick) {
	x, _, lo, hi := m.frame()
	for _, t := range (binaryTicks{}).Ticks(lo[0], hi[0]) {
		ts = append(ts, tick{fmt.Sprintf("%.1f", x(t.Value)), t.Label})
	}
	return ts
}

// YTicks are those of rows.
func (m *Map) YTicks() (ts []tick) {
	_, y, lo, hi := m.frame()
	for _, t := range (binaryTicks{}).Ticks(lo[1], hi[1]) {
		ts = append(ts, tick{fmt.Sprintf("%.1f", y(t.Value)), t.Label})
	}
	return ts
}

// The measures of a Panel in its own units.
const (
	paneLeft, paneRight   = 34, 292
	paneTop, paneBottom   = 8, 158
	paneWidth, paneHeight = 300, 190
)

// A dot is a point of a Panel.
type dot struct{ X, Y, Lo, Hi, Tip string }

// A drawn is an arm's lines and dots.
type drawn struct {
	N     int
	Lines []string
	Dots  []dot
}

func (p *Panel) x(v float64) float64 {
	return paneLeft + 6 + (paneRight-paneLeft-12)*math.Log(v/p.lo)/math.Log(max(p.hi/p.lo, 1.01))
}

func (p *Panel) y(share float64) float64 {
	return paneBottom - (paneBottom-paneTop)*share/p.top
}

// Drawn are the arms with their points.
func (p *Panel) Drawn() []drawn {
	var all []drawn
	for i, l := range p.lines {
		d := drawn{N: i}
		line := ""
		for _, pt := range l {
			x, y := p.x(float64(pt.x)), p.y(pt.share)
			if pt.apart && line != "" {
				d.Lines, line = append(d.Lines, line), ""
			}
			line += fmt.Sprintf("%.1f,%.1f ", x, y)
			one := dot{X: fmt.Sprintf("%.1f", x), Y: fmt.Sprintf("%.1f", y), Tip: fmt.Sprintf("%s, %s: %.1f%% of the stream", p.Arms[i], pt.label, pt.share)}
			if pt.lo > 0 {
				one.Lo, one.Hi = fmt.Sprintf("%.1f", p.y(pt.lo)), fmt.Sprintf("%.1f", p.y(pt.hi))
			}
			d.Dots = append(d.Dots, one)
		}
		if line != "" {
			d.Lines = append(d.Lines, line)
		}
		all = append(all, d)
	}
	return all
}

// A tick of a Panel's axis.
type tick struct{ At, Label string }

// XTicks and YTicks are those of its axes.
func (p *Panel) XTicks() (ts []tick) {
	for _, t := range (binaryTicks{}).Ticks(p.lo, p.hi) {
		ts = append(ts, tick{fmt.Sprintf("%.1f", p.x(t.Value)), t.Label})
	}
	return ts
}

// YTicks are those of the share of the stream.
func (p *Panel) YTicks() (ts []tick) {
	for _, t := range (evenTicks(20)).Ticks(0, p.top) {
		ts = append(ts, tick{fmt.Sprintf("%.1f", p.y(t.Value)), t.Label})
	}
	return ts
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"right":  func(t *Table, column int) bool { return t.align(column) == Right },
	"class":  func(cell string) string { return cellClass(cell) },
	"us":     Micros,
	"number": func(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) },
	"slots":  slots,
	"stage":  func(i int) int { return i % MaxStages },
	"lines":  func(s string) []string { return strings.Split(s, "\n") },
	"letter": letter,
}).Parse(pageText))

// cellClass colours verdicts in tables.
func cellClass(cell string) string {
	word, _, _ := strings.Cut(cell, " ")
	switch verdict.Verdict(word) {
	case verdict.Faster, verdict.Slower, verdict.Same, verdict.Inconclusive, verdict.Verdict(Equal):
		return VerdictClass(word)
	}
	if len(word) > 3 && strings.HasSuffix(word, ":") && strings.ToUpper(word) == word {
		return "bad"
	}
	return ""
}
