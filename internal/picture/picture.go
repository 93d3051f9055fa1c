// Package picture draws SVG: small pictures that a file lays out in a grid, or that a page has
// inline. Lengths are CSS pixels, from the upper left corner.
package picture

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Slots is how many series have a colour of their own, and Areas how many areas: one more stands for all others.
const (
	// Slots is the number of series that have a colour of their own, Areas that of areas; one more
	// colour stands for all others.
	Slots = 8
	Areas = 7
)

// colours are those of a file, which is white; a page has variables of the same names. c0 to c7 are
// told apart by who is colour-blind too: dark shades of the colours of Okabe and Ito, each with a
// contrast of 3 to 1 on white at least. a0 to a6 are Okabe and Ito's own, for areas with black letters on them, and a7 is
// what is left.
var colours = map[string]string{"fg": "#1c2024", "dim": "#444a50", "line": "#e4e4e4",
	"c0": "#d55e00", "c1": "#0072b2", "c2": "#00936c", "c3": "#a6457f",
	"c4": "#2a8fc4", "c5": "#a87400", "c6": "#777777", "c7": "#333333",
	"a0": "#56b4e9", "a1": "#e69f00", "a2": "#009e73", "a3": "#f0e442",
	"a4": "#cc79a7", "a5": "#d55e00", "a6": "#0072b2", "a7": "#bbbbbb",
	"good": "#0a7a3d", "bad": "#c4320a", "same": "#5b6570", "open": "#8a5a00"}

// Style writes the CSS of drawings. Class sN has the colour of slot N; good, bad, same and open are
// those of verdicts. colour returns the colour of a name, such as c0.
func Style(colour func(name string) string) string {
	var b strings.Builder
	b.WriteString("polyline,svg path.hollow{fill:none} .solid{stroke:none}\n")
	for _, name := range slices.Sorted(maps.Keys(colours)) {
		c := colour(name)
		switch {
		case name == "fg" || name == "dim":
			fmt.Fprintf(&b, "svg text.%s{fill:%s;stroke:none} ", name, c)
		case name == "line":
			fmt.Fprintf(&b, ".grid{stroke:%s} ", c)
		case name[0] == 'a':
			fmt.Fprintf(&b, "svg .%s{fill:%s;stroke:%[2]s} ", name, c)
		case len(name) > 2:
			fmt.Fprintf(&b, "svg .%s{stroke:%s;fill:%[2]s} ", name, c)
		default:
			fmt.Fprintf(&b, "svg .s%s{stroke:%s;fill:%[2]s} ", name[1:], c)
		}
	}
	fmt.Fprintf(&b, ".ref{stroke:%s;stroke-dasharray:5 4}", colour("dim"))
	return b.String()
}

// A Drawing is an SVG picture to which elements are added.
type Drawing struct {
	Title         string
	Width, Height float64
	Details       []string // lines that a page can open below it
	body          strings.Builder
}

// Add adds an element. Numbers are written to a tenth, and texts escaped.
func (d *Drawing) Add(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case float64:
			args[i] = number(a)
		case string:
			args[i] = template.HTMLEscapeString(strings.Map(visibleRune, a))
		}
	}
	fmt.Fprintf(&d.body, format+"\n", args...)
}

// visibleRune replaces a character that XML forbids, or that reverses the direction of a line.
func visibleRune(r rune) rune {
	if unicode.In(r, unicode.Cc, unicode.Cf) {
		return '?'
	}
	return r
}

func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// Text writes one line; anchor is start, middle or end.
func (d *Drawing) Text(x, y, size float64, anchor, class, text string) {
	d.Add(`<text class="%s" x="%s" y="%s" font-size="%s" text-anchor="%s">%s</text>`,
		class, x, y, size, anchor, text)
}

// Square fills a square with the colours of its classes, and writes a letter in it.
func (d *Drawing) Square(x, y, side float64, classes, letter, tip string) {
	d.Add(`<g><rect class="%s" x="%s" y="%s" width="%s" height="%[4]s" stroke-width="0"/>`+
		`<text x="%s" y="%s" font-size="11" text-anchor="middle" style="fill:#000">%s</text>`+title(tip)+`</g>`, classes,
		x, y, side, x+side/2, y+side*.75, letter, tip)
}

// Inline returns the drawing as an element of a page.
func (d *Drawing) Inline() template.HTML {
	return template.HTML(fmt.Sprintf("<svg viewBox=\"0 0 %s %s\" role=\"img\" "+
		"aria-label=\"%s\">\n%s</svg>",
		number(d.Width), number(d.Height),
		template.HTMLEscapeString(strings.Map(visibleRune, d.Title)), d.body.String()))
}

// title makes the format of an element's tip, which shows when it is pointed at.
func title(tip string) string {
	if tip == "" {
		return "%s"
	}
	return "<title>%s</title>"
}

// textWidth estimates the most that a line takes: a viewer has a font of its own, and digits of a
// system's are wider than those of Arial.
func textWidth(text string, size float64) float64 {
	return 0.64 * size * float64(utf8.RuneCountInString(text))
}

// headerLine is the height of a line of the header.
const headerLine = 22

// File makes an SVG file: a title, the series by their colours and glyphs, and drawings in rows.
func File(title string, series []Series, rows [][]*Drawing) []byte {
	all := &Drawing{Width: 500, Height: 12}
	if title != "" {
		all.Height += headerLine
		all.Text(12, all.Height-4, 17, "start", "fg", title)
		all.Width = max(all.Width, 24+textWidth(title, 17))
	}
	for _, s := range series {
		all.Height += headerLine
		y := all.Height - 8
		all.Add(`<g class="%s" stroke-width="%s"><line x1="12" x2="44" y1="%s" y2="%[3]s"/>`,
			s.Class, s.Width, y)
		if s.Radius > 0 {
			all.glyph(s, 28, y, "")
		}
		all.Add(`</g>`)
		all.Text(52, y+4, 14, "start", "fg", s.Name)
		all.Width = max(all.Width, 64+textWidth(s.Name, 14))
	}
	all.Height += 8
	for _, row := range rows {
		x, high := 8.0, 0.0
		for _, d := range row {
			all.Add(`<g transform="translate(%s %s)">`, x, all.Height)
			all.body.WriteString(d.body.String())
			all.Add(`</g>`)
			x, high = x+d.Width+10, max(high, d.Height)
		}
		all.Width, all.Height = max(all.Width, x), all.Height+high+8
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\" "+
		"viewBox=\"0 0 %[1]s %[2]s\"", number(all.Width), number(all.Height))
	b.WriteString(" font-family=\"Liberation Sans,Arial,Helvetica,sans-serif\">\n<style>\n")
	b.WriteString(Style(func(name string) string { return colours[name] }))
	b.WriteString("\n</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
		all.body.String() + "</svg>\n")
	return []byte(b.String())
}
