package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/report"
)

// A View is what a history says of its last commits.
type View struct {
	DeviceHistory []*DeviceHistory
	Events        []Movement // the newest first
	Since         int        // points looked at, of each device; 0 for all
	Notes         []string
	rule          Thresholds
}

// NewView finds what moved in the last commits of each device; since is how many, 0 for all.
func NewView(f *Log, since int, rule Thresholds) *View {
	v := &View{DeviceHistory: GroupRuns(f.Runs), Since: since, Notes: f.Notes, rule: rule}
	for _, s := range v.DeviceHistory {
		for _, e := range rule.Find(s) {
			if e.Place >= v.first(s) {
				v.Events = append(v.Events, e)
			}
		}
	}
	slices.SortStableFunc(v.Events, func(a, b Movement) int { return b.Time.Compare(a.Time) })
	return v
}

// first returns the place of the first point that is looked at.
func (v *View) first(s *DeviceHistory) int {
	if v.Since == 0 {
		return 0
	}
	return max(len(s.Points)-v.Since, 0)
}

// Commits returns the range in which an event came, as git writes it.
func (e Movement) Commits() string {
	if e.Previous == "" || e.Previous == e.Commit {
		return e.Commit
	}
	return e.Previous + ".." + e.Commit
}

// What returns the cause in words.
func (e Movement) What() string {
	switch e.Cause {
	case Peer:
		return strings.TrimPrefix(e.Arms[0], PeerArm)
	case Kernel:
		return "kernel (" + strings.Join(e.Arms, ", ") + ")"
	}
	return string(e.Cause)
}

// Where returns the part of the problems on which it moved.
func (e Movement) Where() string {
	switch n := len(e.Problems); {
	case math.IsNaN(e.Change):
		return ""
	case n == 1:
		return e.Problems[0].String()
	case n > 1:
		return fmt.Sprintf("%s and %d more", e.Problems[0], n-1)
	case len(e.Kinds) > 0:
		return strings.Join(e.Kinds, ", ")
	}
	return "all"
}

// Table returns a row for each event.
func (v *View) Table() *report.Table {
	text := func(head, name string, of func(Movement) string) report.Column[Movement] {
		return report.Column[Movement]{Head: head, Name: name, Value: func(e Movement) any {
			if s := of(e); s != "" {
				return s
			}
			return nil
		}}
	}
	columns := []report.Column[Movement]{
		text("commits", "commits", Movement.Commits),
		text("date", "date", func(e Movement) string { return e.Time.Format(time.DateOnly) }),
		text("device", "device", func(e Movement) string { return e.Device }),
		text("cause", "", Movement.What),
		text("", "cause", func(e Movement) string { return string(e.Cause) }),
		text("", "arms", func(e Movement) string { return strings.Join(e.Arms, " ") }),
		{Head: "time", Name: "change_percent", Value: func(e Movement) any {
			if math.IsNaN(e.Change) {
				return nil
			}
			return 100 * e.Change
		}, Format: "%+.1f%%", Means: "how much longer it takes; of several problems that which moved most"},
		text("where", "where", Movement.Where),
		text("also", "note", func(e Movement) string { return e.Note }),
	}
	t := report.NewTable(v.title(), v.Events, columns)
	if len(v.Events) == 0 {
		t.Legend = nil // of columns without a row
		t.Notes = append(t.Notes, "nothing moved")
	}
	t.Notes = append(t.Notes, v.notes()...)
	return t
}

func (v *View) title() string {
	var parts []string
	for _, s := range v.DeviceHistory {
		n := len(s.Points) - v.first(s)
		first, last := s.Points[v.first(s)], s.Points[len(s.Points)-1]
		parts = append(parts, fmt.Sprintf("%s: %s, %s to %s", s.Device, console.Count(n, "point"), first.Commit, last.Commit))
	}
	return "What moved, and why\n" + strings.Join(parts, "\n")
}

// notes say what could not be judged.
func (v *View) notes() (notes []string) {
	for _, s := range v.DeviceHistory {
		if n := len(s.Points); n <= v.rule.Settled {
			notes = append(notes, fmt.Sprintf("%s has %s before its last; below %d, only changes above %g%% on %d problems or more are named",
				s.Device, console.Count(n-1, "point"), v.rule.Settled, 100*v.rule.Unproven, v.rule.Cells))
		}
	}
	return notes
}

// Page returns the history as a page: what moved, then the lines of each kind.
func (v *View) Page() *report.Page {
	p := &report.Page{Title: "History of " + v.names(), What: "Each line is an arm's time against its median over the history. " +
		"Bands are two standard errors to either side, by second copies of one kernel."}
	counts := map[Cause]int{}
	for _, e := range v.Events {
		counts[e.Cause]++
	}
	for _, c := range []Cause{Kernel, Peer, Machine, Memory, Noise, Method, Unknown} {
		class := "open"
		if c == Kernel {
			class = "bad"
		}
		if n := counts[c]; n > 0 || c == Kernel {
			p.Tally = append(p.Tally, report.Tally{N: fmt.Sprint(n), Word: string(c), Class: class})
		}
	}
	for _, s := range v.DeviceHistory {
		p.Figures = append(p.Figures, v.figures(s))
	}
	p.More = v.facts()
	t := v.Table()
	t.Title = "What moved, and why"
	p.Tables = []*report.Table{t}
	return p
}

// facts returns what the history was measured on, and when.
func (v *View) facts() (list []report.Fact) {
	add := func(name string, of func(*Snapshot) string) {
		var words []string
		for _, s := range v.DeviceHistory {
			for _, p := range s.Points[v.first(s):] {
				for _, r := range p.Runs {
					if text := of(r); text != "" && !slices.Contains(words, text) {
						words = append(words, text)
					}
				}
			}
		}
		if n := len(words); n > 6 {
			words = []string{words[0], fmt.Sprintf("%d others", n-2), words[n-1]}
		}
		if len(words) > 0 {
			list = append(list, report.Fact{Name: name, Value: strings.Join(words, "; ")})
		}
	}
	add("device", func(r *Snapshot) string { return cmp.Or(r.Card, r.Device) })
	add("driver", func(r *Snapshot) string { return r.Driver })
	add("compiler", func(r *Snapshot) string { return r.Compiler })
	add("protocol", func(r *Snapshot) string { return fmt.Sprintf("%s: %d samples", r.Protocol.Name, r.Protocol.Samples) })
	add("date", func(r *Snapshot) string { return r.Time.Format(time.DateOnly) })
	add("commit", func(r *Snapshot) string { return r.Commit })
	return list
}

func (v *View) names() string {
	var names []string
	for _, s := range v.DeviceHistory {
		names = append(names, s.Device)
	}
	return strings.Join(names, ", ")
}

// figures returns a plot for each kind of a series.
func (v *View) figures(s *DeviceHistory) report.Figures {
	t := newTrace(s)
	f := report.Figures{Title: s.Device, Help: "Lower is faster. A dashed line is an event; the table below names it.", Wide: true}
	for a, arm := range t.arms {
		f.Series = append(f.Series, seriesOf(a, arm))
	}
	byKind := map[string][]int{}
	var kinds []string
	for k, kind := range t.kinds {
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], k)
	}
	for _, kind := range kinds {
		f.Drawings = append(f.Drawings, v.plot(t, kind, byKind[kind]).Draw())
	}
	return f
}

func seriesOf(a int, arm string) picture.Series {
	return picture.Series{Name: strings.TrimPrefix(arm, PeerArm), Class: fmt.Sprintf("s%d", a%picture.Slots), Glyph: a, Width: 1.5, Radius: 3}
}

// plot draws the arms on the problems of a kind over the commits.
func (v *View) plot(t *trace, kind string, of []int) *picture.Plot {
	first, n := v.first(t.DeviceHistory), len(t.Points)
	p := &picture.Plot{Title: kind, Width: 520, Height: 300,
		X: picture.Axis{Label: "commit", Lo: float64(first) - 0.3, Hi: float64(n) - 0.7, Slant: true},
		Y: picture.Axis{Label: "% of the usual time", Lo: 99, Hi: 101}}
	every := max((n-first)/12, 1)
	for i := first; i < n; i += every {
		p.X.Ticks = append(p.X.Ticks, picture.Tick{At: float64(i), Label: short(t.Points[i].Commit)})
	}
	for a, arm := range t.arms {
		c := picture.Curve{Series: seriesOf(a, arm), Band: true}
		if n-first > 60 {
			c.Radius = 1.5 // points would hide the line
		}
		usual := t.usual(a)
		for i := first; i < n; i++ {
			var list []float64
			for _, k := range of {
				if v := t.logs[i][a][k] - usual[k]; !math.IsNaN(v) {
					list = append(list, v)
				}
			}
			if len(list) == 0 {
				continue
			}
			y := 100 * math.Exp(median(list))
			sd := medianError(scale(t.Points[i].again(), 0), len(list))
			if math.IsNaN(sd) {
				sd = 0
			}
			point := picture.PlotPoint{X: float64(i), Y: y, Lo: y * math.Exp(-2*sd), Hi: y * math.Exp(2*sd),
				Tip: fmt.Sprintf("%s at %s: %.2f%%", arm, t.Points[i].Commit, y)}
			p.Y.Lo, p.Y.Hi = min(p.Y.Lo, point.Lo-0.5), max(p.Y.Hi, point.Hi+0.5)
			c.Points = append(c.Points, point)
		}
		if len(c.Points) > 0 {
			p.Lines = append(p.Lines, c)
		}
	}
	for _, e := range v.Events {
		onKind := len(e.Kinds) == 0 && len(e.Problems) == 0 || slices.Contains(e.Kinds, kind) ||
			slices.ContainsFunc(e.Problems, func(p kernels.Problem) bool { return KindOf(p) == kind })
		if e.Device == t.Device && onKind {
			p.Marks = append(p.Marks, picture.Tick{At: float64(e.Place), Label: e.What() + change(e)})
		}
	}
	p.Y.Ticks = picture.EvenTicks(p.Y.Lo, p.Y.Hi, 1, 6)
	return p
}

func change(e Movement) string {
	if math.IsNaN(e.Change) {
		return ""
	}
	return fmt.Sprintf(" %+.1f%%", 100*e.Change)
}

// short returns a commit as git shortens it.
func short(commit string) string {
	if len(commit) > 10 {
		return commit[:10]
	}
	return cmp.Or(commit, "?")
}

// usual is each problem's median of an arm over all points.
func (t *trace) usual(arm int) []float64 {
	list := make([]float64, len(t.problems))
	var all []float64
	for k := range list {
		all = all[:0]
		for j := range t.logs {
			if v := t.logs[j][arm][k]; !math.IsNaN(v) {
				all = append(all, v)
			}
		}
		list[k] = median(all)
	}
	return list
}
