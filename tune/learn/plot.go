package learn

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep/stats"
)

// The measures of a picture, in pixels.
const (
	side                = 16 // of a square
	panelLeft, panelTop = 56, 28
)

// shades are the ranges of regret that a colour stands for, each from its percent on. The last is of a
// cell with no measured problem.
var shades = []struct {
	from float64
	name string
}{{10, "regret from 10%"}, {5, "from 5%"}, {2, "from 2%"}, {1, "from 1%"}, {math.Inf(-1), "below 1%"},
	{math.Inf(1), "not measured in the cell"}}

// A MapPicture has the drawings of a map's rasters, with cells coloured by family, and in a second view
// by regret.
type MapPicture struct {
	Drawings          []*picture.Drawing
	Families, Regrets []picture.Series // legends of the views
}

// design cuts op and pass off a family's name: rms_bwd/smem_pipe becomes smem_pipe.
func design(family string) string {
	_, name, more := strings.Cut(family, "/")
	if !more {
		return family
	}
	return name
}

// areas gives each design of a map a colour, by its CSS class; the rarest designs share one.
func areas(m *launchmap.Map) (class map[string]string, legend []picture.Series) {
	cells := map[string]int{}
	for i := range m.Rasters {
		r := &m.Rasters[i]
		for line := range r.Lines {
			for cell := range r.Lines[line].Cells {
				if v, ok := r.Pick(line, cell); ok {
					cells[design(v.Family)]++
				}
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(cells), func(a, b string) int {
		return cmp.Or(cells[b]-cells[a], strings.Compare(a, b))
	})
	class = map[string]string{}
	for i, name := range names {
		area := min(i, picture.Areas)
		class[name] = fmt.Sprint("a", area)
		if i <= picture.Areas {
			legend = append(legend, picture.Series{Name: name, Class: class[name], Width: 12})
		} else {
			legend[area].Name += ", " + name
		}
	}
	return class, legend
}

// Pictures draws each raster of a map: a square for each cell with the letter of its config, in the
// colour of its family. The second view shades it by the regret of the problems measured in it. The tip
// of a square has its % of a copy's speed, and below each raster are the configs of its letters.
func Pictures(m *launchmap.Map, points []*Point, d kernels.DeviceInfo) (all MapPicture) {
	class, legend := areas(m)
	all.Families = legend
	for i, s := range shades {
		all.Regrets = append(all.Regrets, picture.Series{Name: s.name, Class: fmt.Sprint("q", i)})
	}
	for i := range m.Rasters {
		r := &m.Rasters[i]
		regrets, speeds := map[[2]int][]float64{}, map[[2]int][]float64{} // of each cell
		for p, a := range answersAt(r, points, d.SMs) {
			if at := [2]int{a.Line, a.Cell}; p.OK(a.Variant) {
				us := p.US[a.Variant]
				regrets[at] = append(regrets[at], us/p.BestUS)
				if p.Stream > 0 {
					speeds[at] = append(speeds[at], p.Stream/us)
				}
			}
		}
		x := drawing(r, d)
		for b, a := range r.Cells(d.SMs) {
			at := [2]int{a.Line, a.Cell}
			tip, shade := fmt.Sprintf("%d to %d rows of %d to %d: %s, %d problems", b.MLo, b.MHi, b.NLo,
				b.NHi, a.Variant, len(regrets[at])), len(shades)-1
			if len(regrets[at]) > 0 {
				regret := 100 * (stats.GeoMean(regrets[at]) - 1)
				tip += fmt.Sprintf(", regret %.1f%%", regret)
				for shade = 0; regret < shades[shade].from; {
					shade++
				}
			}
			if len(speeds[at]) > 0 {
				tip += fmt.Sprintf(", %.0f%% of a copy's speed", 100*stats.GeoMean(speeds[at]))
			}
			x.Square(panelLeft+side*float64(a.Cell), panelTop+side*float64(a.Line), side-1,
				fmt.Sprintf("%s q%d", class[design(a.Variant.Family)], shade), r.Lines[a.Line].Cells[a.Cell:a.Cell+1], tip)
		}
		for k, v := range r.Legend {
			x.Details = append(x.Details, launchmap.Letters[k:k+1]+"  "+v.String())
		}
		all.Drawings = append(all.Drawings, x)
	}
	return all
}

// Plot draws a map as an SVG file, four rasters side by side. The high ones, with a line for each width of models,
// come first: beside lower ones they would leave most of the picture empty.
func Plot(m *launchmap.Map, points []*Point, d kernels.DeviceInfo) []byte {
	all := Pictures(m, points, d)
	slices.SortStableFunc(all.Drawings, func(a, b *picture.Drawing) int { return cmp.Compare(b.Height, a.Height) })
	return picture.File("", all.Families, slices.Collect(slices.Chunk(all.Drawings, 4)))
}

// drawing makes the empty drawing of a raster with its axes: every other line has its first columns,
// every fourth cell its first rows.
func drawing(r *launchmap.Raster, d kernels.DeviceInfo) *picture.Drawing {
	x := &picture.Drawing{Title: r.Title(), Width: max(330, panelLeft+side*float64(len(r.Rows))+20),
		Height: panelTop + side*float64(len(r.Lines)) + 40}
	x.Text(panelLeft, 16, 14, "start", "fg", r.Title())
	for line := 0; line < len(r.Lines); line += 2 {
		x.Text(panelLeft-4, panelTop+side*float64(line)+12, 11, "end", "dim", fmt.Sprint(r.Lines[line].From))
	}
	for cell := 0; cell < len(r.Rows); cell += 4 {
		x.Text(panelLeft+side*float64(cell), x.Height-26, 11, "start", "dim",
			fmt.Sprint(r.Box(0, cell, d.SMs).MLo))
	}
	x.Text(panelLeft, x.Height-10, 11, "start", "dim", "rows from; down: columns from")
	return x
}
