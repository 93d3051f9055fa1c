// Package picture has what all plots share: white canvases as SVG or PNG, and one font.
package picture

import (
	"bytes"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Palette has colours that are told apart on white, by who is colour-blind too: dark shades of the
// colours of Okabe and Ito. Each has a contrast of 3 to 1 at least.
var Palette = []color.RGBA{
	{0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x72, 0xb2, 0xff}, {0x00, 0x93, 0x6c, 0xff}, {0xa6, 0x45, 0x7f, 0xff},
	{0x2a, 0x8f, 0xc4, 0xff}, {0xa8, 0x74, 0x00, 0xff}, {0x77, 0x77, 0x77, 0xff}, {0x33, 0x33, 0x33, 0xff},
}

// Canvas is a white picture, svg or png.
func Canvas(width, height vg.Length, format string) (draw.Canvas, io.WriterTo) {
	var out vg.CanvasSizer
	var write io.WriterTo
	if format == "png" {
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(120))
		out, write = c, vgimg.PngCanvas{Canvas: c}
	} else {
		c := vgsvg.New(width, height)
		out, write = c, svg{c}
	}
	all := draw.New(out)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	return all, write
}

// An svg names further fonts, for a viewer that lacks the first.
type svg struct{ io.WriterTo }

func (s svg) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := s.WriterTo.WriteTo(&b); err != nil {
		return 0, err
	}
	n, err := strings.NewReplacer("font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;").WriteString(w, b.String())
	return int64(n), err
}

// Sans is the text of plots.
func Sans(points float64) draw.TextStyle {
	return draw.TextStyle{Color: color.Black, Handler: plot.DefaultTextHandler,
		Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(points)}}
}
