package rule

import (
	"embed"
	"encoding/json"
	"fmt"
	gofmt "go/format"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Formats are what Export writes.
var Formats = []string{"go", "python", "cpp", "json"}

// The code of each format, with @NAME@ for data.
//
//go:embed export.*.txt
var templates embed.FS

// A format is how code says data.
type format struct {
	comment     string // begins a line of the head
	open, close string // of a list
	begin       string // of a line in the function's comment
	prefix      string // format of an op with the short name of its families
}

var formats = map[string]format{
	"go":     {"//", "{", "}", "// ", "%q: %q"},
	"python": {"#", "[", "]", "    ", "%q: %q"},
	"cpp":    {"//", "{", "}", "// ", "{%q, %q}"},
	"json":   {"", "[", "]", "", ""},
}

// A Range is the answer of a cell with the last rows that have its config.
type Range struct {
	Answer
	Last int64
}

// Ranges are the answers for rows of n columns, all rows in order. There are none where the class
// has no such columns.
func (b *Book) Ranges(c Class, n int64) []Range {
	r := b.raster(c, AlignOf(n, c.Bytes))
	line, _ := r.At(1, n, b.Device.SMs)
	return b.ranges(r, line, n, n)
}

// ranges are the answers of a raster's line for its columns from nLo to nHi.
func (b *Book) ranges(r *Raster, line int, nLo, nHi int64) (list []Range) {
	for cell := range r.Rows {
		box := r.Box(line, cell, b.Device.SMs)
		box.NLo, box.NHi = nLo, nHi
		ns := box.columns()
		if len(ns) == 0 {
			return nil // no problem has such columns: whatever answers
		}
		ms := box.rows(ns[0])
		if len(ms) == 0 {
			continue
		}
		a := b.Answer(r.Class.Problem(ms[0], ns[0]))
		if k := len(list) - 1; k >= 0 && list[k].Variant == a.Variant {
			list[k].Last = box.MHi
		} else {
			list = append(list, Range{a, box.MHi})
		}
	}
	if len(list) > 0 {
		list[len(list)-1].Last = MaxM
	}
	return list
}

// A strip is the ranges of columns from some on.
type strip struct {
	from   int64
	ranges []Range
}

// strips are the answers of a class at an alignment, without neighbours that are alike. Where only
// some columns are asked for, strips without ranges are between them.
func (b *Book) strips(c Class, align int64, columns []int64) (list []strip) {
	alike := func(r, o Range) bool { return r.Variant == o.Variant && r.Last == o.Last }
	add := func(s strip) {
		if k := len(list) - 1; k < 0 || !slices.EqualFunc(list[k].ranges, s.ranges, alike) {
			list = append(list, s)
		}
	}
	r := b.raster(c, align)
	for line := range r.Lines {
		if box := r.Box(line, 0, b.Device.SMs); len(columns) == 0 {
			if ranges := b.ranges(r, line, box.NLo, box.NHi); len(ranges) > 0 {
				add(strip{box.NLo, ranges})
			}
		}
	}
	for _, n := range columns {
		if AlignOf(n, c.Bytes) == align {
			add(strip{n, b.Ranges(c, n)})
			if !slices.Contains(columns, n+1) {
				add(strip{n + 1, nil})
			}
		}
	}
	return list
}

// A table is the answers of a book as lists of texts. Numbers of lines and rasters are to the base
// 36. The exported function looks them up in this order, backwards.
type table struct {
	families []string // name, with * for the short name of its op and _, and knobs: name=value where all configs share it
	configs  []string // of each a family and the values of its other knobs
	lines    []string // of each the configs by ranges of rows, as config:last rows
	rasters  []string // of each the lines by ranges of columns, as first columns:line
	index    []string // of each class its key and its rasters by alignment: 16, 8, 4 and 2 bytes
}

// Export writes the answers for some classes and columns, all where that is empty, as data with one
// function. It answers what the book answers.
func (b *Book) Export(classes []Class, columns []int64, name string) ([]byte, error) {
	f, ok := formats[name]
	if !ok {
		return nil, hint.Errorf("use "+strings.Join(Formats, ", "), "unknown export %q", name)
	}
	code, err := templates.ReadFile("export." + name + ".txt")
	if err != nil {
		return nil, err
	}
	columns = slices.Sorted(slices.Values(columns))
	t := b.table(classes, columns)
	var about strings.Builder
	for _, line := range b.about() {
		about.WriteString(strings.TrimSpace(f.comment+" "+line) + "\n")
	}
	var prefixes []string
	for _, s := range kernels.Ops() {
		prefixes = append(prefixes, fmt.Sprintf(f.prefix, s.Op, s.Short+"_"))
	}
	alike, fp8t := 0, 0
	for i := range options {
		if options[i].Alike {
			alike += 1 << i
		}
		if options[i].Name == "fp8t" {
			fp8t = 1 << i
		}
	}
	var pairs []string // the index as JSON
	for _, s := range t.index {
		i := strings.LastIndexByte(s, ' ')
		pairs = append(pairs, fmt.Sprintf("%q: [%s]", s[:i], s[i+1:]))
	}
	text := strings.NewReplacer("@PAIRS@", strings.Join(pairs, ",\n"), "@ABOUT@", about.String(), "@HEAD@", f.list(b.about()),
		"@FAMILIES@", f.list(t.families), "@CONFIGS@", f.list(t.configs), "@LINES@", f.list(t.lines),
		"@RASTERS@", f.list(t.rasters), "@INDEX@", f.list(t.index),
		"@ARGUMENTS@", f.arguments(), "@PREFIXES@", strings.Join(prefixes, ", "),
		"@FP8T@", fmt.Sprint(fp8t), "@UNEVEN@", fmt.Sprint(1<<(len(options)-1)), "@SHARED@", fmt.Sprint(alike),
		"@MAXM@", fmt.Sprint(MaxM), "@MINN@", fmt.Sprint(MinN), "@MAXN@", fmt.Sprint(MaxN),
		"@MAXELEMS@", fmt.Sprint(MaxElems)).Replace(string(code))
	if name == "go" {
		return gofmt.Source([]byte(text))
	}
	return []byte(text), nil
}

// list writes texts in lines of some 120 characters.
func (f format) list(items []string) string {
	var b strings.Builder
	wide := 120
	for i, item := range items {
		text := strconv.Quote(item)
		if i < len(items)-1 {
			text += ","
		}
		if wide += len(text); wide > 120 {
			b.WriteByte('\n')
			wide = len(text) - 1
		}
		b.WriteString(text)
	}
	if f.comment == "//" { // Go must have the last comma
		b.WriteByte(',')
	}
	return f.open + b.String() + "\n" + f.close
}

// arguments explains those of the function.
func (f format) arguments() string {
	var ops, sum []string
	for _, s := range kernels.Ops() {
		ops = append(ops, strconv.Quote(string(s.Op)))
	}
	for i := range options[:len(options)-1] {
		sum = append(sum, fmt.Sprint(1<<i, " ", options[i].Noun))
	}
	return strings.Join([]string{
		"op is " + strings.Join(ops, " or ") + `, pass_ "fwd" or "bwd", `,
		`dtype that of x ("bf16", "fp16" or "fp32"). options are a sum: `,
		strings.Join(sum[:len(sum)/2], ", ") + ",",
		strings.Join(sum[len(sum)/2:], ", ") + "."}, "\n"+f.begin)
}

// table lays the answers out.
func (b *Book) table(classes []Class, columns []int64) *table {
	strips := make([][][]strip, len(classes)) // by class and alignment
	var wait sync.WaitGroup
	for i, c := range classes {
		strips[i] = make([][]strip, len(Aligns(c.Bytes)))
		for j, align := range Aligns(c.Bytes) {
			wait.Go(func() { strips[i][j] = b.strips(c, align, columns) })
		}
	}
	wait.Wait()
	var variants []kernels.Variant
	for i, c := range classes {
		for _, s := range slices.Concat(strips[i]...) {
			for k := range s.ranges {
				v := &s.ranges[k].Variant
				if rest, ok := strings.CutPrefix(v.Family, c.Op.Spec().Short+"_"); ok {
					v.Family = "*" + rest // designs have one name for both ops
				}
				variants = append(variants, *v)
			}
		}
	}
	slices.SortFunc(variants, func(v, w kernels.Variant) int { return strings.Compare(v.String(), w.String()) })
	variants = slices.Compact(variants)
	t := &table{}
	t.addConfigs(variants)
	configs, lines, rasters := map[kernels.Variant]int{}, map[string]int{}, map[string]int{}
	for i, v := range variants {
		configs[v] = i
	}
	pair := func(a, b int64) string { return strconv.FormatInt(a, 36) + ":" + strconv.FormatInt(b, 36) }
	for i, c := range classes {
		var at []string
		for _, strips := range strips[i] {
			var raster []string
			for _, s := range strips {
				var line []string
				for _, r := range s.ranges {
					line = append(line, pair(int64(configs[r.Variant]), r.Last))
				}
				raster = append(raster, pair(s.from, int64(placeIn(&t.lines, lines, line))))
			}
			at = append(at, fmt.Sprint(placeIn(&t.rasters, rasters, raster)))
		}
		t.index = append(t.index, fmt.Sprintf("%s %s %d %d %s", c.Op, c.Pass, c.Bytes, c.With, strings.Join(at, ",")))
	}
	slices.Sort(t.index)
	return t
}

// placeIn is the place of words in a list, which gets them where they are new.
func placeIn(list *[]string, at map[string]int, words []string) int {
	text := strings.Join(words, " ")
	i, ok := at[text]
	if !ok {
		i = len(*list)
		at[text], *list = i, append(*list, text)
	}
	return i
}

// addConfigs lists families with the knobs that some config of theirs has, and configs.
func (t *table) addConfigs(variants []kernels.Variant) { // in order
	for i, k := 0, 0; i < len(variants); i = k {
		for k = i; k < len(variants) && variants[k].Family == variants[i].Family; k++ {
		}
		text, configs := variants[i].Family, slices.Repeat([]string{fmt.Sprint(len(t.families))}, k-i)
		for _, knob := range knobsOf(variants[i:k]) {
			one := variants[i].Config.Get(knob)
			if !slices.ContainsFunc(variants[i:k], func(v kernels.Variant) bool { return v.Config.Get(knob) != one }) {
				text += fmt.Sprintf(" %s=%d", knob.Name, one)
				continue
			}
			text += " " + knob.Name
			for n := range configs {
				configs[n] += fmt.Sprintf(",%d", variants[i+n].Config.Get(knob))
			}
		}
		t.families, t.configs = append(t.families, text), append(t.configs, configs...)
	}
}

// about is the head of the code, by lines.
func (b *Book) about() []string {
	d := b.Device
	lines := []string{"Code generated by normbench rule. DO NOT EDIT.", "",
		fmt.Sprintf("Launch configs for %s (%s, %d SMs, %s of L2), by %s.", d.Name, d.Arch, d.SMs,
			kernels.FormatBytes(d.CacheBytes), b.Step)}
	if m := b.Map; m != nil {
		var protocol struct{ Name string }
		json.Unmarshal(m.Protocol, &protocol)
		facts := []string{"Measured on", m.Device.Name, "Driver", m.Device.DriverVersion,
			"Compiler", m.Device.Compiler, "Protocol", protocol.Name, "Commit of normbench", m.Tool,
			"Last measured", m.Created.UTC().Format("2006-01-02"), "Checksum of the map", m.Checksum()}
		for i := 0; i < len(facts); i += 2 {
			if facts[i+1] != "" {
				lines = append(lines, facts[i]+": "+facts[i+1])
			}
		}
		for _, f := range slices.Sorted(maps.Keys(m.Sources)) {
			lines = append(lines, "Kernel source: "+f+" "+m.Sources[f])
		}
		for _, r := range m.Rasters {
			for _, v := range r.Legend { // users' families may
				f, err := b.analytic.Lookup(v.Family)
				text := v.Family + " does not serve every bias and weight: check before its launch."
				if err == nil && !slices.Contains(lines, text) &&
					slices.ContainsFunc(r.Class.kin(), func(p kernels.Problem) bool { return f.Serves(p) != nil }) {
					lines = append(lines, text)
				}
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
