package report

import (
	"bytes"
	"html/template"
	"io"
	"regexp"
	"strings"
)

// Page writes the tables and a plot per kind over each axis that has something
// to draw, as one HTML file that needs no other.
func (g *Growth) Page(w io.Writer, title string) error {
	scores, rows := g.Tables()
	data := struct {
		Title  string
		Tables []*Table
		Plots  []template.HTML
		Rows   *Table
	}{Title: title, Tables: []*Table{scores}, Rows: rows}
	for _, over := range Axes() {
		for _, part := range g.kinds() {
			if part.CheckPanels(over) != nil {
				continue // other kinds, or another axis, may have enough
			}
			var b bytes.Buffer
			if err := part.Plot(&b, title, over, "svg"); err != nil {
				return err
			}
			svg := b.String()
			// What stands before the element is for files of their own.
			data.Plots = append(data.Plots, template.HTML(fluid.ReplaceAllString(svg[strings.Index(svg, "<svg"):], `<svg $1`)))
		}
	}
	return page.Execute(w, data)
}

// fluid are the sizes of a plot; without them it is as wide as the page lets it.
var fluid = regexp.MustCompile(`^<svg width="[^"]*" height="[^"]*"\s*(viewBox)`)

// kinds are the parts of g with one kind and type each, whose rows stand together.
func (g *Growth) kinds() []*Growth {
	var parts []*Growth
	last := ""
	for _, r := range g.Rows {
		if what := r.Kind + " " + dtypes(r.Problem); what != last || len(parts) == 0 {
			parts, last = append(parts, &Growth{Arms: g.Arms}), what
		}
		p := parts[len(parts)-1]
		p.Rows = append(p.Rows, r)
	}
	return parts
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"right": func(t *Table, column int) bool { return t.align(column) == Right },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body { font: 14px/1.5 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: .15em .7em; border-bottom: 1px solid #ddd; text-align: left; font-variant-numeric: tabular-nums }
.r { text-align: right }
th { border-bottom: 2px solid #888; background: #fff; position: sticky; top: 0 }
svg { max-width: 100%; height: auto; margin: 1em 0 }
</style>
<h1>{{.Title}}</h1>
{{range .Tables}}{{template "table" .}}{{end -}}
{{range .Plots}}{{.}}{{end -}}
{{template "table" .Rows}}
</html>
{{define "table"}}{{$t := .}}{{with .Title}}<p>{{.}}</p>
{{end}}<table>
<tr>{{range $i, $h := .Header}}<th{{if right $t $i}} class="r"{{end}}>{{$h}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range $i, $c := .}}<td{{if right $t $i}} class="r"{{end}}>{{$c}}</td>{{end}}</tr>
{{end}}</table>
{{range .Notes}}<p>{{.}}</p>
{{end}}{{end}}`))
