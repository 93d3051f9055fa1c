package rule

import (
	"bytes"
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

var codes = template.Must(template.New("").Funcs(template.FuncMap{"list": list}).
	ParseFS(codeFiles, "export.*.txt"))

// list writes texts, each in a line.
func list(items []string) string {
	var b strings.Builder
	for _, item := range items {
		fmt.Fprintf(&b, "\n%q,", item)
	}
	return b.String()
}

// A Range is the answer of a cell with the last rows that have its config.
type Range struct {
	Answer
	Last int64
}

// Ranges are the answers for rows of n columns, all rows in order. There are none where the class
// has no such columns.
func (b *Book) Ranges(c Class, n int64) []Range {
	s := b.sheets[keyOf(c, AlignOf(n, c.Bytes))]
	line, _ := s.At(1, n, b.Device.SMs)
	return b.ranges(s, line, n, n)
}

// ranges are the answers of a sheet's line for its columns from nLo to nHi.
func (b *Book) ranges(s *sheet, line int, nLo, nHi int64) (list []Range) {
	for cell := range s.Rows {
		box := s.Box(line, cell, b.Device.SMs)
		box.NLo, box.NHi = nLo, nHi
		ns := box.columns()
		if len(ns) == 0 {
			return nil // no problem has such columns: whatever answers
		}
		if len(box.rows(ns[0])) > 0 {
			a := b.cell(s, line, cell).Answer
			if k := len(list) - 1; k < 0 || list[k].Variant != a.Variant {
				list = append(list, Range{Answer: a})
			}
			list[len(list)-1].Last = box.MHi
		}
	}
	if k := len(list) - 1; k >= 0 {
		list[k].Last = MaxM
	}
	return list
}

// A table is the answers of a book as data, in which the exported function looks an answer up:
// from the index to a raster, a line, a config and a family.
type table struct {
	About    []string          `json:"about"`
	Families []string          `json:"families"` // name, with * for the short name of its op and _, and knobs: name=value where all configs share it
	Configs  []string          `json:"configs"`  // of each the number of its family, and the values of the other knobs
	Rows     []int64           `json:"rows"`     // where ranges of rows end
	Lines    []string          `json:"lines"`    // of each the number of a config and that of its last rows, then of the next
	Rasters  []string          `json:"rasters"`  // of each the first columns of a line and its number, then of the next
	Index    map[string]string `json:"index"`    // of each class its rasters by alignment: 16, 8, 4 and 2 bytes
}

// Export writes the answers for some classes and columns, all where that is empty, as data with one
// function. It answers what the book answers.
func (b *Book) Export(classes []Class, columns []int64, format string) ([]byte, error) {
	if !slices.Contains(Formats, format) {
		return nil, hint.Errorf("use "+strings.Join(Formats, ", "), "unknown export %q", format)
	}
	t := b.table(classes, slices.Sorted(slices.Values(columns)))
	if format == "json" {
		text, err := json.MarshalIndent(t, "", " ")
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
		*table
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

// A strip is the ranges of columns from some on.
type strip struct {
	from   int64
	ranges []Range
}

// strips are the answers of a class at an alignment. Where only some columns are asked for, strips
// without ranges are between them.
func (b *Book) strips(c Class, align int64, columns []int64) (list []strip) {
	s := b.sheets[keyOf(c, align)]
	for line := range s.Lines {
		if box := s.Box(line, 0, b.Device.SMs); len(columns) == 0 {
			if ranges := b.ranges(s, line, box.NLo, box.NHi); len(ranges) > 0 {
				list = append(list, strip{box.NLo, ranges})
			}
		}
	}
	for _, n := range columns {
		if AlignOf(n, c.Bytes) == align {
			list = append(list, strip{n, b.Ranges(c, n)}, strip{n + 1, nil})
		}
	}
	return list
}

// table lays the answers out.
func (b *Book) table(classes []Class, columns []int64) *table {
	strips := make([][4][]strip, len(classes)) // by class and alignment
	var wait sync.WaitGroup
	for i, c := range classes {
		for j, align := range Aligns(c.Bytes) {
			wait.Go(func() { strips[i][j] = b.strips(c, align, columns) })
		}
	}
	wait.Wait()
	t := &table{About: b.about(), Index: map[string]string{}}
	configs, rows := map[kernels.Variant]int{}, map[int64]int{} // their places
	for i, c := range classes {
		for _, s := range slices.Concat(strips[i][:]...) {
			for k := range s.ranges {
				r := &s.ranges[k]
				if rest, ok := strings.CutPrefix(r.Variant.Family, c.Op.Spec().Short+"_"); ok {
					r.Variant.Family = "*" + rest // designs have one name for all ops
				}
				configs[r.Variant], rows[r.Last] = 0, 0
			}
		}
	}
	t.addConfigs(configs)
	for i, last := range slices.Sorted(maps.Keys(rows)) {
		rows[last], t.Rows = i, append(t.Rows, last)
	}
	lines, rasters := map[string]int{}, map[string]int{}
	for i, c := range classes {
		var at []any
		for j := range Aligns(c.Bytes) {
			var raster []any
			for _, s := range strips[i][j] {
				var line []any
				for _, r := range s.ranges {
					line = append(line, configs[r.Variant], rows[r.Last])
				}
				raster = append(raster, s.from, place(&t.Lines, lines, line))
			}
			at = append(at, place(&t.Rasters, rasters, raster))
		}
		t.Index[fmt.Sprintf("%s %s %d %d", c.Op, c.Pass, c.Bytes, c.With)] = fmt.Sprint(at...)
	}
	return t
}

// place is the place of numbers in a list of texts, which gets them where they are new.
func place(list *[]string, places map[string]int, numbers []any) int {
	text := fmt.Sprint(numbers...)
	if _, ok := places[text]; !ok {
		places[text], *list = len(*list), append(*list, text)
	}
	return places[text]
}

// addConfigs lists families with the knobs that some config of theirs has, and numbers configs.
func (t *table) addConfigs(configs map[kernels.Variant]int) {
	variants := slices.SortedFunc(maps.Keys(configs),
		func(v, w kernels.Variant) int { return strings.Compare(v.String(), w.String()) })
	for i, v := range variants {
		configs[v] = i
	}
	for len(variants) > 0 {
		family := variants[0].Family
		n := slices.IndexFunc(variants, func(v kernels.Variant) bool { return v.Family != family })
		if n < 0 {
			n = len(variants)
		}
		texts := slices.Repeat([]string{fmt.Sprint(len(t.Families))}, n)
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
			for i, v := range variants[:n] {
				texts[i] += fmt.Sprint(" ", v.Config.Get(knob))
			}
		}
		t.Families, t.Configs, variants = append(t.Families, family), append(t.Configs, texts...), variants[n:]
	}
}

// aboutMap says where a map comes from.
func (b *Book) aboutMap(m *Map) (lines []string) {
	var protocol struct{ Name string }
	json.Unmarshal(m.Protocol, &protocol)
	for _, fact := range [][2]string{{"Measured on", m.Device.Name}, {"Driver", m.Device.DriverVersion},
		{"Compiler", m.Device.Compiler}, {"Protocol", protocol.Name}, {"Commit of normbench", m.Tool},
		{"Last measured", m.Created.UTC().Format("2006-01-02")}, {"Checksum of the map", m.Checksum()}} {
		if fact[1] != "" {
			lines = append(lines, fact[0]+": "+fact[1])
		}
	}
	for _, f := range slices.Sorted(maps.Keys(m.Sources)) {
		lines = append(lines, "Kernel source: "+f+" "+m.Sources[f])
	}
	for _, r := range m.Rasters {
		for _, v := range r.Legend { // users' families may
			if f, err := b.analytic.Lookup(v.Family); err == nil &&
				slices.ContainsFunc(r.Class.kin(), func(p kernels.Problem) bool { return f.Serves(p) != nil }) {
				lines = append(lines, v.Family+" does not serve every bias and weight: check before its launch.")
			}
		}
	}
	return lines
}

// about is the head of the code, by lines.
func (b *Book) about() []string {
	d := b.Device
	lines := []string{"Code generated by normbench rule. DO NOT EDIT.", "",
		fmt.Sprintf("Launch configs for %s (%s, %d SMs, %s of L2), by %s.", d.Name, d.Arch, d.SMs,
			kernels.FormatBytes(d.CacheBytes), b.Step)}
	for _, step := range append([]Step{b.Step}, b.Behind...) {
		for _, line := range b.aboutMap(step.Map) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	lines = append(lines, "", fmt.Sprintf("Outside of M 1 to %d, N %d to %d and M*N up to %d there is no answer: measure there.",
		MaxM, MinN, MaxN, MaxElems))
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ") // a map's texts may have line breaks
	}
	return lines
}
