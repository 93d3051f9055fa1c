package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
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
	What    string       // below the title: what is compared with what
	Outcome *GateOutcome // of a gate, above the numbers; nil without one
	Tally   []Tally      // the verdict in numbers
	Summary []string     // and in sentences
	Figures []Figures
	Tables  []*Table
	Runs    []*record.Run // that it was measured in
	More    []Fact        // beside those of the runs
}

// A Tally is a number with its word. Class is good, bad, same, open or empty.
type Tally struct{ N, Word, Class string }

// Class returns the style of an outcome.
func (o *GateOutcome) Class() string {
	return map[string]string{"PASS": "good", "FAIL": "bad", "UNDECIDED": "open"}[o.Kind.Word()]
}

// A Fact is a line of what the page was measured on.
type Fact struct{ Name, Value string }

// Figures are drawings under a heading: several in a line, or each as wide as it is.
type Figures struct {
	Title, Help string
	Wide        bool
	Series      []picture.Series // legend
	Drawings    []*picture.Drawing
	// Views, where set, name two colourings of the drawings to choose from; Second is the legend of the other.
	Views  [2]string
	Second []picture.Series
}

// Facts are what the page was measured on: the card, the software, the protocol and the time.
func (p *Page) Facts() (list []Fact) {
	add := func(name string, of func(*record.Run) string) {
		var values []string
		for _, r := range p.Runs {
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
	variables := map[string]string{}
	for _, r := range p.Runs {
		maps.Copy(variables, r.Env)
	}
	for _, k := range slices.Sorted(maps.Keys(variables)) {
		add(k, func(r *record.Run) string { return r.Env[k] })
	}
	add("run", func(r *record.Run) string { return r.ID })
	return append(list, p.More...)
}

// tooltip tells a side's time on a problem in full.
func (c Measurement) tooltip(side string) string {
	return fmt.Sprintf("%s: %s us, %.1f%% of the stream, %s", side, c.interval(), c.streamPercent(),
		c.Variant)
}

// Page is a comparison as a page. That of a live compare has a title of its own.
func (c *Comparison) Page(name string) *Page {
	p := &Page{Title: name, What: c.sides(), Runs: c.Runs}
	all := c.All
	if all.N > 0 {
		mean := ""
		if all.Lo > 0 {
			mean = fmt.Sprintf(" (95%% %.3f-%.3f)", all.Lo, all.Hi)
		}
		p.Tally = append(p.Tally, Tally{Ratio(all.Speedup), "geometric mean of the speedups of " +
			console.Count(all.N, "problem") + mean, ""})
	}
	for _, t := range []struct {
		n           int
		word, class string
		always      bool
	}{{all.Faster, "faster", "good", true}, {all.Same, "same", "same", true},
		{all.Slower, "slower", "bad", true}, {all.Unclear, "inconclusive", "open", true},
		{all.Unpaired, "not paired", "open", false}, {all.Equal, "equal", "same", false}, {all.Without, "without a time", "bad", false}} {
		if t.n > 0 || t.always {
			p.Tally = append(p.Tally, Tally{strconv.Itoa(t.n), t.word, t.class})
		}
	}
	if c.Worst != nil {
		p.Summary = append(p.Summary, fmt.Sprintf("Worst: %s at %s.", c.Worst.Problem.String(),
			Ratio(c.Worst.Speedup)))
	}
	if found := c.Found(); found != "" {
		p.Summary = slices.Insert(p.Summary, 0, strings.ToUpper(found[:1])+found[1:])
	}
	p.Summary = append(p.Summary, c.Notes...)
	speeds := Figures{Title: "Speed against the stream", Wide: true, Series: c.series,
		Help: "100% is a copy of the same tensors in the same run. Bars are 95% intervals."}
	for _, plot := range c.plots() {
		speeds.Drawings = append(speeds.Drawings, plot.Draw())
	}
	p.Figures = []Figures{c.forest(), speeds}
	rows, title := c.Table().verdictFirst()
	means := meanTable(c)
	var steps []*Table
	if len(c.steps) > 0 {
		t := c.stepTable()
		t.Title = "What it is worth in a step"
		steps = []*Table{t}
	}
	if c.live != nil {
		p = c.live.page(p, rows, StreamTable(c.Stream))
		rows.Title = title
		p.Tables = append(steps, p.Tables...)
		return p
	}
	_, how, _ := strings.Cut(rows.Title, "\n")
	rows.Title = title + "\n" + strings.ReplaceAll(how, "\n", " ")
	means.Title = "Geometric means"
	stream := StreamTable(c.Stream)
	stream.Title = "Time against the stream's"
	p.Tables = append(steps, rows, means)
	if len(c.Stream) > 0 {
		p.Tables = append(p.Tables, stream)
	}
	if c.beside != nil {
		p.Tables = append(p.Tables, c.besideTable())
	}
	return p
}

// verdictFirst returns a table of rows as a page shows it: the problem, the verdict and the speedup first, which is
// what a phone has room for. Problems of one kind are told by their shapes.
func (t *Table) verdictFirst() (table *Table, title string) {
	c := *t.pick(t.allColumns()) // find adds columns
	var first, rest []int
	for _, name := range []string{"problem", "verdict", "speedup"} {
		if i := c.find(name); i >= 0 {
			first = append(first, i)
		}
	}
	for i, h := range c.Header {
		if !slices.Contains(first, i) && h != "kind" && h != "dtype" {
			rest = append(rest, i)
		}
	}
	c = *c.pick(append(first, rest...))
	heads, shapes := ByProblem.headings(c.Rows)
	if len(heads) == 0 || len(slices.Compact(heads)) > 1 || heads[0] == "" {
		return &c, "Every problem"
	}
	c.Rows = shapes
	return &c, "Every shape of " + heads[0]
}

// Append adds the drawings and tables of another page, and what it measured them on, below p's.
func (p *Page) Append(o *Page) {
	for _, f := range o.Figures {
		f.Title += ": " + o.What
		p.Figures = append(p.Figures, f)
	}
	for _, t := range o.Tables {
		c := *t
		c.Title += "\n" + o.What
		p.Tables = append(p.Tables, &c)
	}
	p.Runs = distinct(append(p.Runs, o.Runs...))
}

// interval is a median time with its interval, "51.6 (51.4-51.9)": a digit after the point,
// two below 10 us. The median alone where there is no interval.
func (c Measurement) interval() string {
	if !(c.Lo > 0) || !(c.Hi > 0) {
		return Micros(c.medianUS())
	}
	digits := 1
	if c.Median < 10 {
		digits = 2
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", digits, c.Median, digits, c.Lo, digits, c.Hi)
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return page.Execute(w, p) }

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"right": func(t *Table, column int) bool { return t.align(column) == Right },
	"class": cellClass,
	// A long problem may go on in another line behind each of its parts.
	"breakable": func(s string) template.HTML {
		return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(s), "/", "/<wbr>"))
	},
	"lines": func(s string) []string { return strings.Split(s, "\n") },
	"style": func() template.CSS {
		return template.CSS(picture.Style(func(name string) string {
			return "var(--" + name + ")"
		}))
	},
}).Parse(pageText))
