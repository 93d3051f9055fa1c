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
	Tables  []*Table
	Runs    []*record.Run // that it was measured in
	More    []Fact        // beside those of the runs
}

// A Tally is a number with its word. Class is good, bad, same, open or empty.
type Tally struct{ N, Word, Class string }

// A Fact is a line of what the page was measured on.
type Fact struct{ Name, Value string }

// Figures are drawings under a heading: several in a line, or each as wide as it is.
type Figures struct {
	Title, Help string
	Wide        bool
	Series      []picture.Series // legend
	Drawings    []*picture.Drawing
}

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
	add("floor", floorText)
	add("selftest", (*record.Run).Failures)
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

// class is the class of the mark's colour on a page.
func (m Mark) class() string {
	return cmp.Or(map[Mark]string{Faster: "good", Slower: "bad", Same: "same", Equal: "same"}[m],
		"open")
}

// KindOf is the heading that a problem stands under.
func KindOf(p kernels.Problem) string { return kind(p) + " " + dtypes(p) }

// ShapeOf is a problem's label under it.
func ShapeOf(p kernels.Problem) string { return fmt.Sprintf("%dx%d", p.M, p.N) }

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

// speeds are drawings of the speed against the stream on every problem.
func (c *Comparison) speeds() Figures {
	return Figures{Title: "Speed against the stream", Wide: true, Series: c.series,
		Help:     "100% is a copy of the same tensors in the same run. Bars are 95% intervals.",
		Drawings: c.draw(c.panels())}
}

// launches are a table of the sides that take several on a problem, none where no side does.
func (c *Comparison) launches() []*Table {
	type row struct {
		problem kernels.Problem
		side    string
		Value
	}
	var rows []row
	for _, r := range c.inOrder() {
		for i, v := range []Value{r.A, r.B} {
			if len(v.Stages) > 1 {
				rows = append(rows, row{r.Problem, letter(i), v})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	t := NewTable("Launch by launch\nMedian time of each launch, from a pass of its own, and of all "+
		"together, which is less where launches overlap.", rows,
		append(ProblemColumns(func(r row) (kernels.Problem, int64) { return r.problem, 0 },
			"", "kind", "dtype", "M", "N"),
			Column[row]{Head: "side", Value: func(r row) any { return r.side }},
			Column[row]{Head: "launches us", Text: func(r row) string {
				var parts []string
				for _, s := range r.Stages {
					parts = append(parts, s.Stage+" "+Micros(s.US))
				}
				return strings.Join(parts, ", ")
			}},
			Column[row]{Head: "all us", Value: func(r row) any { return r.US },
				Text: func(r row) string { return r.us() }}))
	t.Group = kindGroup
	return []*Table{t.LedBy("M", "N", "side")}
}

// inOrder are the rows as tables have them.
func (c *Comparison) inOrder() []Row {
	return slices.SortedStableFunc(slices.Values(c.Rows),
		func(x, y Row) int { return record.CompareProblems(x.Problem, y.Problem) })
}

// speedups are drawings of the speedup on every problem, coloured by its verdict.
func (c *Comparison) speedups() Figures {
	f := Figures{Title: "Speedup on every problem", Wide: true,
		Help: "A's time over B's, with its interval where both were in the same rounds. Above 1x B " +
			"is faster."}
	for i, v := range []Mark{Faster, Same, Slower, Unclear} {
		f.Series = append(f.Series, picture.Series{Name: strings.ToLower((&Row{Mark: v}).Verdict()),
			Class: v.class(), Glyph: i, Radius: 3, Width: 1.2})
	}
	for what, rows := range byKind(c.inOrder(), func(r Row) string { return KindOf(r.Problem) }) {
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Speedup == 0 })
		if len(rows) > 0 {
			f.Drawings = append(f.Drawings, drawSpeedups(what, rows, f.Series))
		}
	}
	return f
}

// drawSpeedups draws those of one kind, a series for each verdict.
func drawSpeedups(what string, rows []Row, series []picture.Series) *picture.Drawing {
	var shapes []string
	lines := make([]picture.Line, len(series))
	lo, hi := 1.0, 1.0
	for i, r := range rows {
		shapes = append(shapes, ShapeOf(r.Problem))
		at := picture.Point{X: float64(i), Y: r.Speedup, Apart: true,
			Tip: fmt.Sprintf("%s: A %s us, B %s us, %s", ShapeOf(r.Problem),
				Interval(r.A.US, r.A.LoUS, r.A.HiUS), Interval(r.B.US, r.B.LoUS, r.B.HiUS),
				r.Verdict())}
		if r.Paired != nil {
			at.Lo, at.Hi = r.Paired.Lo, r.Paired.Hi
			at.Tip += fmt.Sprintf(", %s in %d rounds", r.speedup(), r.Paired.Rounds)
		}
		of := max(slices.IndexFunc(series,
			func(s picture.Series) bool { return s.Class == r.Mark.class() }), 0)
		lines[of].Series = series[of]
		lines[of].Points = append(lines[of].Points, at)
		lo, hi = min(lo, at.Y, cmp.Or(at.Lo, at.Y)), max(hi, at.Y, at.Hi)
	}
	room := max(0.05*(hi-lo), 0.02)
	lo, hi = max(lo-room, 0), hi+room
	p := picture.Plot{Title: what, Target: 1, Y: picture.Axis{Label: "speedup", Lo: lo, Hi: hi,
		Ticks: picture.Even(lo, hi, math.Pow(10, math.Floor(math.Log10((hi-lo)/3))), 6)}}
	overShapes(&p, shapes, len(shapes))
	for _, l := range lines {
		if len(l.Points) > 0 {
			p.Lines = append(p.Lines, l)
		}
	}
	return p.Draw()
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
	p.Figures = []Figures{c.speedups(), c.speeds()}
	rows, means := c.Table(), meanTable(c)
	_, how, _ := strings.Cut(rows.Title, "\n")
	rows.Title = "Every problem\n" + strings.ReplaceAll(how, "\n", " ")
	means.Title = "Geometric means"
	p.Tables = append([]*Table{rows.LedBy("M", "N", "speedup", "verdict"), means}, c.launches()...)
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

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return page.Execute(w, p) }

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"right": func(t *Table, column int) bool { return t.align(column) == Right },
	"class": cellClass,
	"lines": func(s string) []string { return strings.Split(s, "\n") },
	"style": func() template.CSS {
		return template.CSS(picture.Style(func(name string) string {
			return "var(--" + name + ")"
		}))
	},
}).Parse(pageText))
