package picture

import (
	"fmt"
	"math"
)

// A Forest draws ratios with their intervals, one below the other, beside a line at 1.
type Forest struct {
	Title  string
	Label  string // of the axis
	Lo, Hi float64
	Rows   []ForestRow
}

// A ForestRow is a ratio with its interval, which is 0 and 0 where there is none.
type ForestRow struct {
	Series        // of its mark
	Label  string // at its left
	Text   string // at its right
	X      float64
	Lo, Hi float64
	Tip    string
}

// The measures of a forest, in pixels.
const (
	forestWidth = 400
	forestRow   = 17
)

// Draw draws the forest. The axis is logarithmic: twice and half as fast are as far from 1.
func (f *Forest) Draw() *Drawing {
	longest, right := 0.0, 0.0
	for _, r := range f.Rows {
		longest, right = max(longest, textWidth(r.Label, 12)), max(right, textWidth(r.Text, 12))
	}
	d := &Drawing{Title: f.Title, Width: forestWidth, Height: float64(74 + forestRow*len(f.Rows))}
	axis := Axis{Lo: min(f.Lo, 1), Hi: max(f.Hi, 1), Log: true}
	left, end := longest+14, forestWidth-right-14
	x := func(v float64) float64 { return axis.place(v, left, end) }
	top, bottom := 26.0, d.Height-44
	d.Text(4, 16, 14, "start", "fg", f.Title)
	for _, v := range ratioTicks(axis.Lo, axis.Hi, end-left) {
		d.Add(`<line class="grid" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, x(v), top, bottom)
		d.Text(x(v), bottom+16, 12, "middle", "dim", fmt.Sprintf("%.4gx", v))
	}
	d.Text((left+end)/2, d.Height-8, 12, "middle", "dim", f.Label)
	d.Add(`<line class="ref" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, x(1), top, bottom)
	for i, r := range f.Rows {
		y := top + forestRow*(float64(i)+.5)
		d.Text(left-8, y+4, 12, "end", "dim", r.Label)
		d.Text(forestWidth-4, y+4, 12, "end", "fg", r.Text)
		d.Add(`<g class="%s" stroke-width="2">`, r.Class)
		if r.Lo > 0 && r.Hi > 0 {
			d.Add(`<line x1="%s" x2="%s" y1="%s" y2="%[3]s"/>`, x(r.Lo), x(r.Hi), y)
		}
		d.glyph(r.Series, x(r.X), y, r.Tip)
		d.Add(`</g>`)
	}
	return d
}

// ratioTicks lists round ratios from lo to hi for a logarithmic axis of that width, 1 among them, so far
// apart that their labels have room.
func ratioTicks(lo, hi, width float64) (ticks []float64) {
	const room = 38
	roomy := func() bool {
		for i := 1; i < len(ticks); i++ {
			if width*math.Log(ticks[i]/ticks[i-1])/math.Log(hi/lo) < room {
				return false
			}
		}
		return true
	}
	if hi/lo <= 4 {
		for _, step := range []float64{.005, .01, .02, .05, .1, .2, .5, 1} {
			ticks = nil
			for i := math.Ceil((lo-1)/step - 1e-9); 1+i*step <= hi+1e-9; i++ {
				ticks = append(ticks, 1+i*step)
			}
			if roomy() {
				return ticks
			}
		}
	}
	for base := 2.0; ; base *= base {
		ticks = nil
		for i := math.Ceil(math.Log(lo)/math.Log(base) - 1e-9); math.Pow(base, i) <= hi; i++ {
			ticks = append(ticks, math.Pow(base, i))
		}
		if roomy() {
			return ticks
		}
	}
}
