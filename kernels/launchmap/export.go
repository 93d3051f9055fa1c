package launchmap

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	gofmt "go/format"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Formats are what Export writes.
var Formats = []string{"go", "python", "cpp", "json"}

// The code of each format around a table.
//
//go:embed export.*.txt
var codeFiles embed.FS

var codes = template.Must(template.New("").Funcs(template.FuncMap{"join": strings.Join}).
	ParseFS(codeFiles, "export.*.txt"))

// A RowRange is the answer of a cell with the first and the last rows that have its config.
type RowRange struct {
	Answer
	First, Last int64
}

// Ranges are the answers for rows of n columns, all rows in order. There are none where the class
// has no such columns.
func (b *Book) Ranges(c Class, n int64) []RowRange {
	s := b.sheets[keyOf(c, AlignOf(n, c.Bytes))]
	line, _ := s.At(1, n, b.Device.SMs)
	return b.ranges(s, line, n, n)
}

// ranges are the answers of a sheet's line for its columns from nLo to nHi.
func (b *Book) ranges(s *sheet, line int, nLo, nHi int64) (list []RowRange) {
	for cell := range s.Rows {
		box := s.Box(line, cell, b.Device.SMs)
		box.NLo, box.NHi = nLo, nHi
		ns := box.columns()
		if len(ns) == 0 {
			return nil // no problem has such columns: whatever answers
		}
		if len(box.rows(ns[0])) > 0 {
			a := b.cell(s, line, cell).Answer
			switch k := len(list) - 1; {
			case k < 0:
				list = append(list, RowRange{a, 1, MaxM})
			case list[k].Variant != a.Variant:
				list[k].Last = box.MLo - 1
				list = append(list, RowRange{a, box.MLo, MaxM})
			}
		}
	}
	return list
}

// An exportData is the answers of a book as data, in which the exported function looks an answer up:
// from the index to a raster, a line, a config and a family.
type exportData struct {
	About    []string          `json:"about"`
	Families []string          `json:"families"` // name, with * for the short name of its op and _, and knobs: name=value where all configs share it
	Configs  []string          `json:"configs"`  // of each the number of its family, and the values of the other knobs
	Rows     []int64           `json:"rows"`     // where ranges of rows begin, in no order
	Columns  []int64           `json:"columns"`  // where lines begin, in no order
	Lines    []string          `json:"lines"`    // of each the number of its first config, -1 for none, then where the next begins, and its number
	Rasters  []string          `json:"rasters"`  // of each the same of its lines, where they differ
	Index    map[string]string `json:"index"`    // of each class its rasters by alignment: 16, 8, 4 and 2 bytes
}

// Export writes the answers for some classes and columns, all where that is empty, as data with one
// function. It answers what the book answers.
func (b *Book) Export(classes []Class, columns []int64, format string) ([]byte, error) {
	if !slices.Contains(Formats, format) {
		return nil, hint.Errorf("use "+strings.Join(Formats, ", "), "unknown export %q", format)
	}
	t := b.layOutExport(classes, slices.Sorted(slices.Values(columns)))
	if format == "json" {
		text, err := json.MarshalIndent(t, "", "")
		return append(text, '\n'), err
	}
	var ops, sum []string
	for _, s := range kernels.Ops() {
		ops = append(ops, strconv.Quote(string(s.Op)))
	}
	shared, fp8t, last := 0, 0, len(options)-1
	for i, o := range options[:last] {
		sum = append(sum, fmt.Sprint(1<<i, " ", o.Noun))
		if o.Alike {
			shared |= 1 << i
		}
		if o.Name == "fp8t" {
			fp8t = 1 << i
		}
	}
	var text bytes.Buffer
	err := codes.ExecuteTemplate(&text, "export."+format+".txt", struct {
		*exportData
		Usage                                            []string // comment of the function
		Ops                                              []kernels.OpSpec
		MaxM, MinN, MaxN, MaxElems, FP8T, Uneven, Shared int
	}{t, []string{
		"op is " + strings.Join(ops, " or ") + `, pass_ "fwd" or "bwd",`,
		`dtype that of x ("bf16", "fp16" or "fp32"). options are a sum:`,
		strings.Join(sum[:last/2], ", ") + ",",
		strings.Join(sum[last/2:], ", ") + "."},
		kernels.Ops(), MaxM, MinN, MaxN, MaxElems, fp8t, 1 << last, shared})
	if err == nil && format == "go" {
		return gofmt.Source(text.Bytes())
	}
	return text.Bytes(), err
}

// A strip is the ranges of columns from some on, in families whose names are those of all ops.
type strip struct {
	from   int64
	ranges []RowRange
}

// strips are the answers of a class at an alignment. Where only some columns are asked for, strips
// without ranges are between them.
func (b *Book) strips(c Class, align int64, columns []int64) (list []*strip) {
	s := b.sheets[keyOf(c, align)]
	for line := range s.Lines {
		if box := s.Box(line, 0, b.Device.SMs); len(columns) == 0 {
			if ranges := b.ranges(s, line, box.NLo, box.NHi); len(ranges) > 0 {
				list = append(list, &strip{from: box.NLo, ranges: ranges})
			}
		}
	}
	for _, n := range columns {
		if AlignOf(n, c.Bytes) == align {
			list = append(list, &strip{from: n, ranges: b.Ranges(c, n)}, &strip{from: n + 1})
		}
	}
	for _, s := range list {
		for i := range s.ranges {
			name := &s.ranges[i].Variant.Family
			if rest, ok := strings.CutPrefix(*name, c.Op.Spec().Short+"_"); ok {
				*name = "*" + rest
			}
		}
	}
	return list
}

// layOutExport lays the answers out.
func (b *Book) layOutExport(classes []Class, columns []int64) *exportData {
	rasters := make([][]*strip, 4*len(classes)) // class by class, of each by alignment
	var wait sync.WaitGroup
	for i, c := range classes {
		for j, align := range Aligns(c.Bytes) {
			wait.Go(func() { rasters[4*i+j] = b.strips(c, align, columns) })
		}
	}
	wait.Wait()
	t := &exportData{Index: map[string]string{}}
	variants, families := map[kernels.Variant]int{}, map[string]bool{}
	for i, list := range rasters {
		for _, s := range list {
			for _, r := range s.ranges {
				variants[r.Variant]++
				families[strings.Replace(r.Variant.Family, "*", classes[i/4].Op.Spec().Short+"_", 1)] = true
			}
		}
	}
	t.About = b.exportHead(families)
	texts := t.addFamilies(variants)
	for _, v := range slices.SortedFunc(maps.Keys(variants), func(v, w kernels.Variant) int {
		return cmp.Or(variants[w]-variants[v], strings.Compare(texts[v], texts[w]))
	}) { // the most frequent have short numbers
		t.Configs = append(t.Configs, texts[v])
	}
	for i, c := range classes {
		var at []any
		for j := range Aligns(c.Bytes) {
			raster, last := []any{-1}, ""
			for _, s := range rasters[4*i+j] {
				line := []any{-1}
				for _, r := range s.ranges {
					if config := slices.Index(t.Configs, texts[r.Variant]); r.First == 1 {
						line[0] = config
					} else {
						line = append(line, place(&t.Rows, r.First), config)
					}
				}
				text := fmt.Sprint(line...)
				if s.from == MinN {
					raster[0] = place(&t.Lines, text)
				} else if text != last {
					raster = append(raster, place(&t.Columns, s.from), place(&t.Lines, text))
				}
				last = text
			}
			at = append(at, place(&t.Rasters, fmt.Sprint(raster...)))
		}
		t.Index[fmt.Sprintf("%s %s %d %d", c.Op, c.Pass, c.Bytes, c.With)] = fmt.Sprint(at...)
	}
	return t
}

// place is where x stands in a list, which gets it where it is new.
func place[T comparable](list *[]T, x T) int {
	i := slices.Index(*list, x)
	if i < 0 {
		i = len(*list)
		*list = append(*list, x)
	}
	return i
}

// addFamilies lists families with the knobs that some variant of theirs has. It returns the text
// of each variant in Configs.
func (t *exportData) addFamilies(all map[kernels.Variant]int) map[kernels.Variant]string {
	texts := map[kernels.Variant]string{}
	variants := slices.SortedFunc(maps.Keys(all),
		func(v, w kernels.Variant) int { return strings.Compare(v.String(), w.String()) })
	for len(variants) > 0 {
		family := variants[0].Family
		n := slices.IndexFunc(variants, func(v kernels.Variant) bool { return v.Family != family })
		if n < 0 {
			n = len(variants)
		}
		for _, v := range variants[:n] {
			texts[v] = fmt.Sprint(len(t.Families))
		}
		for _, knob := range knobsOf(variants[:n]) {
			values := map[int]bool{}
			for _, v := range variants[:n] {
				values[v.Config.Get(knob)] = true
			}
			family += " " + knob.Name
			if len(values) == 1 {
				family += fmt.Sprint("=", variants[0].Config.Get(knob))
				continue
			}
			for _, v := range variants[:n] {
				texts[v] += fmt.Sprint(" ", v.Config.Get(knob))
			}
		}
		t.Families, variants = append(t.Families, family), variants[n:]
	}
	return texts
}

// aboutMap says where the answers of a map in some families come from.
func (b *Book) aboutMap(m *Map, families map[string]bool) (lines []string) {
	var protocol struct{ Name string }
	json.Unmarshal(m.Protocol, &protocol)
	for _, fact := range [][2]string{{"Measured on", m.Device.Name}, {"Driver", m.Device.DriverVersion},
		{"Compiler", m.Device.Compiler}, {"Protocol", protocol.Name}, {"Commit of normbench", m.Tool},
		{"Last measured", m.Created.UTC().Format("2006-01-02")}, {"Checksum of the map", m.Checksum()}} {
		if fact[1] != "" {
			lines = append(lines, fact[0]+": "+fact[1])
		}
	}
	of := map[string][]string{} // a design has one source for all ops
	for _, f := range slices.Sorted(maps.Keys(m.Sources)) {
		if families[f] {
			of[m.Sources[f]] = append(of[m.Sources[f]], f)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, "Kernel source: "+source+" of "+strings.Join(of[source], ", "))
	}
	for _, r := range m.Rasters {
		for _, v := range r.Legend { // users' families may
			if f, err := b.analytic.Lookup(v.Family); err == nil && families[v.Family] &&
				slices.ContainsFunc(r.Class.sampleProblems(), func(p kernels.Problem) bool { return f.Serves(p) != nil }) {
				lines = append(lines, v.Family+" does not serve every bias and weight: check before its launch.")
			}
		}
	}
	return lines
}

// maxAbout is how many bytes a line of the head may have: it names all families of a source.
const maxAbout = 16 << 10

// exportHead writes the head of the code with answers in some families, by lines.
func (b *Book) exportHead(families map[string]bool) []string {
	d := b.Device
	lines := []string{"Code generated by normbench map export. DO NOT EDIT.", "",
		fmt.Sprintf("Launch configs for %s (%s, %d SMs, %s of L2), by %s.", d.Name, d.Arch, d.SMs,
			kernels.FormatBytes(d.CacheBytes), b.Rung)}
	for _, step := range append([]Rung{b.Rung}, b.Behind...) {
		for _, line := range b.aboutMap(step.Map, families) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	lines = append(lines, "", fmt.Sprintf("Outside of M 1 to %d, N %d to %d and M*N up to %d there is no answer: measure there.",
		MaxM, MinN, MaxN, MaxElems))
	for i := range lines {
		// A map's texts may have line breaks, and what a terminal or an editor acts on.
		lines[i] = kernels.MakePrintable(strings.Join(strings.Fields(lines[i]), " "), maxAbout)
		lines[i] = strings.TrimRight(lines[i], `\ `) // which would go on with a comment in C++
	}
	return lines
}
