package picture

import (
	"fmt"
	"math"
	"strings"
)

// A Plot draws lines over two axes.
type Plot struct {
	Title         string
	Width, Height float64
	X, Y          Axis
	Target        float64 // where a dashed line stands on the y axis; 0 for none
	Lines         []Curve
	Marks         []Tick // values on the x axis at which something happened
}

// An Axis goes from Lo to Hi.
type Axis struct {
	Label  string
	Lo, Hi float64
	Log    bool
	Slant  bool // its labels are long
	Ticks  []Tick
}

// A Tick is a value that an axis names.
type Tick struct {
	At    float64
	Label string
}

// A Series says how a line looks.
type Series struct {
	Name   string
	Class  string  // of Style
	Glyph  int     // tells series apart without colours
	Width  float64 // of the line
	Radius float64 // of the glyphs; 0 for none
}

// A Curve joins points from left to right.
type Curve struct {
	Series
	Points []PlotPoint
	Band   bool // intervals are an area around the line, and not bars
}

// A PlotPoint is a value with its interval, which is 0 and 0 where there is none.
type PlotPoint struct {
	X, Y, Lo, Hi float64
	Apart        bool // no line comes to it from the point before
	Tip          string
}

// glyphs are SVG paths of radius 1; those from the fourth on are outlines.
var glyphs = []string{"M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z", "M-.9-.9h1.8v1.8h-1.8z",
	"M0-1.2L1.1.8H-1.1z",
	"M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z", "M-.9-.9h1.8v1.8h-1.8z", "M0-1.2L1.1.8H-1.1z", "M-1-1L1 " +
		"1M-1 1L1-1", "M-1.2 0H1.2M0-1.2V1.2"}

func (d *Drawing) glyph(s Series, x, y float64, tip string) {
	at := s.Glyph % len(glyphs)
	class := "solid"
	if at > 2 {
		class = "hollow"
	}
	d.Add(`<path class="%s" stroke-width=".5" transform="translate(%s %s) scale(%s)" d="%s">`+
		title(tip)+`</path>`, class, x, y, s.Radius, glyphs[at], tip)
}

// place computes where a value lies between the two ends of a picture.
func (a *Axis) place(v, from, to float64) float64 {
	lo, hi := a.Lo, a.Hi
	if a.Log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return (from + to) / 2
	}
	return from + (to-from)*(v-lo)/(hi-lo)
}

// textAt writes one line at an angle.
func (d *Drawing) textAt(x, y, degrees float64, anchor, text string) {
	d.Add(`<text class="dim" transform="translate(%s %s) rotate(%s)" font-size="12" `+
		`text-anchor="%s">%s</text>`, x, y, degrees, anchor, text)
}

// Draw draws the plot.
func (p *Plot) Draw() *Drawing {
	d := &Drawing{Title: p.Title, Width: p.Width, Height: p.Height}
	left, right, top, bottom := 48.0, p.Width-8, 26.0, p.Height-38
	if p.X.Slant {
		longest := 0.0
		for _, t := range p.X.Ticks {
			longest = max(longest, textWidth(t.Label, 12))
		}
		// From the axis down: a gap, the slanted labels, and a line for the axis' own.
		bottom = p.Height - 42 - longest*math.Sin(math.Pi/3)
	}
	x := func(v float64) float64 { return p.X.place(v, left, right) }
	y := func(v float64) float64 { return p.Y.place(v, bottom, top) }
	d.Text((left+right)/2, 16, 14, "middle", "fg", p.Title)
	for _, t := range p.Y.Ticks {
		d.Add(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%[3]s"/>`, left, right, y(t.At))
		d.Text(left-5, y(t.At)+4, 12, "end", "dim", t.Label)
	}
	for _, t := range p.X.Ticks {
		d.Add(`<line class="grid" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, x(t.At), top, bottom)
		if p.X.Slant {
			d.textAt(x(t.At)+4, bottom+12, -60, "end", t.Label)
		} else {
			d.Text(x(t.At), bottom+16, 12, "middle", "dim", t.Label)
		}
	}
	d.Text((left+right)/2, p.Height-5, 12, "middle", "dim", p.X.Label)
	d.textAt(12, (top+bottom)/2, -90, "middle", p.Y.Label)
	if p.Target != 0 {
		d.Add(`<line class="ref" x1="%s" x2="%s" y1="%s" y2="%[3]s"/>`, left, right, y(p.Target))
	}
	for _, l := range p.Lines {
		if l.Band {
			d.band(l, x, y)
		}
	}
	for i, m := range p.Marks {
		d.Add(`<line class="ref" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, x(m.At), top, bottom)
		anchor, at := "start", x(m.At)+3
		if m.At > (p.X.Lo+p.X.Hi)/2 {
			anchor, at = "end", x(m.At)-3
		}
		d.Text(at, top+12+13*float64(i%6), 11, anchor, "fg", m.Label)
	}
	for _, l := range p.Lines {
		d.Add(`<g class="%s" stroke-width="%s">`, l.Class, l.Width)
		piece := ""
		for i, pt := range l.Points {
			piece += number(x(pt.X)) + "," + number(y(pt.Y)) + " "
			if next := i + 1; next == len(l.Points) || l.Points[next].Apart {
				d.Add(`<polyline points="%s"/>`, strings.TrimSpace(piece))
				piece = ""
			}
		}
		for _, pt := range l.Points {
			if pt.Lo > 0 && pt.Hi > 0 && !l.Band {
				d.Add(`<line stroke-width="1" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, x(pt.X),
					y(pt.Lo), y(pt.Hi))
			}
			d.glyph(l.Series, x(pt.X), y(pt.Y), pt.Tip)
		}
		d.Add(`</g>`)
	}
	return d
}

// band fills the area between the intervals of a curve.
func (d *Drawing) band(l Curve, x, y func(float64) float64) {
	upper, lower := "", ""
	for _, pt := range l.Points {
		upper += number(x(pt.X)) + "," + number(y(pt.Hi)) + " "
		lower = number(x(pt.X)) + "," + number(y(pt.Lo)) + " " + lower
	}
	d.Add(`<polygon class="%s" stroke-width="0" fill-opacity=".15" points="%s"/>`, l.Class, strings.TrimSpace(upper+lower))
}

// EvenTicks lists the multiples of a round step between lo and hi: unit or 2, 5, 10, ... times as much, so
// that there are at most as many steps as most.
func EvenTicks(lo, hi, unit float64, most int) (ticks []Tick) {
	step := unit
	for i := 0; (hi-lo)/step > float64(most); i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		ticks = append(ticks, Tick{i * step, fmt.Sprintf("%.6g", i*step)})
	}
	return ticks
}
