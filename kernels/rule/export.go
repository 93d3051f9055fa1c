package rule

import (
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

// An export is the answers of a book as data that one short function looks up, the same in every language. Numbers of
// lines and rasters are to the base 36.
type export struct {
	About    []string         `json:"about"`
	Families []string         `json:"families"` // name, * for the short name of its op and _, and knobs of each, with the value of those that all its configs share
	Configs  []string         `json:"configs"`  // of each a family and the values of its other knobs
	Lines    []string         `json:"lines"`    // of each the configs by ranges of rows, as config:last rows
	Rasters  []string         `json:"rasters"`  // of each the lines by ranges of columns, as first columns:line
	Index    map[string][]int `json:"index"`    // of a class its rasters by alignment: 16, 8, 4 and 2 bytes
}

// Export writes the answers for some classes and columns, all where that is empty, as data with one function. It answers what
// the book answers.
func (b *Book) Export(classes []Class, columns []int64, format string) ([]byte, error) {
	if !slices.Contains(Formats, format) {
		return nil, hint.Errorf("use "+strings.Join(Formats, ", "), "unknown export %q", format)
	}
	x := b.export(classes, columns)
	switch format {
	case "json":
		text, err := json.Marshal(x)
		return append(text, '\n'), err
	case "go":
		return gofmt.Source([]byte(x.code(languages[format])))
	}
	return []byte(x.code(languages[format])), nil
}

// A Range is a config with the last rows that it is for.
type Range struct {
	Variant kernels.Variant
	Last    int64
}

// A strip is the runs of columns from some on.
type strip struct {
	from int64
	runs []Range
}

// starred is a variant by the name that its family's design has for both ops.
func starred(v kernels.Variant, op kernels.Op) kernels.Variant {
	if rest, ok := strings.CutPrefix(v.Family, op.Spec().Short+"_"); ok {
		v.Family = "*" + rest
	}
	return v
}

// Ranges are the answers for rows of n columns, all rows in order. There are none where the class has no such columns.
func (b *Book) Ranges(c Class, n int64) []Range {
	align := AlignOf(n, c.Bytes)
	_, lasts := b.bounds(c, align)
	return b.runs(c, align, n, n, lasts)
}

// bounds are the first columns and the last rows of the cells that answer for a class: the map's and the standard ones.
func (b *Book) bounds(c Class, align int64) (froms, lasts []int64) {
	for _, r := range []*Raster{standard(c, align, b.Device.SMs), b.Map.Raster(c, align)} {
		if r == nil {
			continue
		}
		for _, l := range r.Lines {
			froms = append(froms, l.From)
		}
		for _, bound := range r.Rows {
			lasts = append(lasts, min(bound.Last(b.Device.SMs), MaxM))
		}
	}
	sortUnique(&froms)
	sortUnique(&lasts)
	return froms, lasts
}

func (b *Book) runs(c Class, align, nLo, nHi int64, lasts []int64) (runs []Range) {
	ns := columnsIn(nLo, nHi, align, c)
	if len(ns) == 0 {
		return nil // no problem has such columns: whatever answers
	}
	least := int64(1)
	for _, last := range lasts {
		ms := rowsIn(least, min(last, MaxElems/ns[0]), c)
		if least = last + 1; len(ms) == 0 {
			continue
		}
		v := b.Answer(c.Problem(ms[0], ns[0])).Variant
		if k := len(runs) - 1; k >= 0 && runs[k].Variant == v {
			runs[k].Last = last
		} else {
			runs = append(runs, Range{v, last})
		}
	}
	if len(runs) > 0 {
		runs[len(runs)-1].Last = MaxM
	}
	return runs
}

// strips are the answers of a class at an alignment, without neighbours that are alike. Of columns, where there are some, others have
// strips without runs between them.
func (b *Book) strips(c Class, align int64, columns []int64) (list []strip) {
	froms, lasts := b.bounds(c, align)
	if len(columns) > 0 {
		froms = nil
		for _, n := range columns {
			if AlignOf(n, c.Bytes) == align {
				froms = append(froms, n, n+1)
			}
		}
		sortUnique(&froms)
	}
	for i, from := range froms {
		end := int64(MaxN)
		if i+1 < len(froms) {
			end = froms[i+1] - 1
		}
		s := strip{from: from}
		if from <= MaxN && (len(columns) == 0 || slices.Contains(columns, from)) {
			s.runs = b.runs(c, align, from, end, lasts)
		}
		for k := range s.runs {
			s.runs[k].Variant = starred(s.runs[k].Variant, c.Op)
		}
		if k := len(list) - 1; len(s.runs) == 0 && len(columns) == 0 || k >= 0 && slices.Equal(list[k].runs, s.runs) {
			continue
		}
		list = append(list, s)
	}
	return list
}

// export lays the answers out.
func (b *Book) export(classes []Class, columns []int64) *export {
	type raster struct {
		class  Class
		align  int64
		strips []strip
	}
	var rasters []raster
	for _, c := range classes {
		for _, align := range Aligns(c.Bytes) {
			rasters = append(rasters, raster{class: c, align: align})
		}
	}
	var wait sync.WaitGroup
	for i := range rasters {
		wait.Go(func() { rasters[i].strips = b.strips(rasters[i].class, rasters[i].align, columns) })
	}
	wait.Wait()
	var variants []kernels.Variant
	for _, r := range rasters {
		for _, s := range r.strips {
			for _, u := range s.runs {
				variants = append(variants, u.Variant)
			}
		}
	}
	slices.SortFunc(variants, func(v, w kernels.Variant) int { return strings.Compare(v.String(), w.String()) })
	variants = slices.Compact(variants)
	x := &export{About: b.about(), Index: map[string][]int{}}
	x.addConfigs(variants)
	numbers, lineAt, rasterAt := map[kernels.Variant]int{}, map[string]int{}, map[string]int{}
	for i, v := range variants {
		numbers[v] = i
	}
	pair := func(a, b int64) string { return strconv.FormatInt(a, 36) + ":" + strconv.FormatInt(b, 36) }
	for _, r := range rasters {
		var text []string
		for _, s := range r.strips {
			var line []string
			for _, u := range s.runs {
				line = append(line, pair(int64(numbers[u.Variant]), u.Last))
			}
			text = append(text, pair(s.from, int64(indexOf(&x.Lines, lineAt, strings.Join(line, " ")))))
		}
		key := indexKey(r.class)
		x.Index[key] = append(x.Index[key], indexOf(&x.Rasters, rasterAt, strings.Join(text, " ")))
	}
	return x
}

func sortUnique(list *[]int64) {
	slices.Sort(*list)
	*list = slices.Compact(*list)
}

// indexOf is where text stands in a list, to which it is added where it is new.
func indexOf(list *[]string, at map[string]int, text string) int {
	i, ok := at[text]
	if !ok {
		i = len(*list)
		at[text], *list = i, append(*list, text)
	}
	return i
}

// indexKey names a class in an export: op, pass, bytes of an element and the sum of its options.
func indexKey(c Class) string {
	sum := 0
	for i := range classOptions {
		if c.With&(1<<i) != 0 {
			sum += bitOf(classOptions[i].Name)
		}
	}
	return fmt.Sprintf("%s %s %d %d", c.Op, c.Pass, c.Bytes, sum)
}

// bitOf is what an option adds to the sum of an exported function's options.
func bitOf(name string) int {
	all := kernels.Options()
	if i := slices.IndexFunc(all, func(o kernels.Option) bool { return o.Name == name }); i >= 0 {
		return 1 << i
	}
	return 1 << len(all) // uneven
}

// addConfigs lists families with the knobs that some config of theirs has, and configs.
func (x *export) addConfigs(variants []kernels.Variant) {
	by := map[string][]kernels.Variant{}
	for _, v := range variants {
		by[v.Family] = append(by[v.Family], v)
	}
	names := slices.Sorted(maps.Keys(by))
	free := map[string][]*kernels.Knob{} // those that differ
	for _, name := range names {
		text := name
		for _, k := range knobsOf(by[name]) {
			one := by[name][0].Config.Get(k)
			if slices.ContainsFunc(by[name], func(v kernels.Variant) bool { return v.Config.Get(k) != one }) {
				free[name] = append(free[name], k)
				text += " " + k.Name
			} else {
				text += fmt.Sprintf(" %s=%d", k.Name, one)
			}
		}
		x.Families = append(x.Families, text)
	}
	for _, v := range variants {
		text := fmt.Sprint(slices.Index(names, v.Family))
		for _, k := range free[v.Family] {
			text += fmt.Sprintf(",%d", v.Config.Get(k))
		}
		x.Configs = append(x.Configs, text)
	}
}

// about is the comment at the head of the code, by lines.
func (b *Book) about() []string {
	d := b.Device
	lines := []string{
		"Code generated by normbench rule. DO NOT EDIT.", "",
		fmt.Sprintf("Launch configs for %s (%s, %d SMs, %s of L2), by %s.", oneLine(d.Name), oneLine(d.Arch), d.SMs, kernels.FormatBytes(d.CacheBytes), b.Step),
	}
	if m := b.Map; m != nil {
		var protocol struct{ Name string }
		json.Unmarshal(m.Protocol, &protocol)
		for _, fact := range [][2]string{{"Measured on", m.Device.Name}, {"Driver", m.Device.DriverVersion},
			{"Compiler", m.Device.Compiler}, {"Protocol", protocol.Name}, {"Commit of normbench", m.Tool},
			{"Last measured", m.Created.UTC().Format("2006-01-02")}, {"Checksum of the map", m.Checksum()}} {
			if text := oneLine(fact[1]); text != "" {
				lines = append(lines, fact[0]+": "+text)
			}
		}
		for _, f := range slices.Sorted(maps.Keys(m.Sources)) {
			lines = append(lines, fmt.Sprintf("Kernel source: %s %s", oneLine(f), oneLine(m.Sources[f])))
		}
		partial := map[string]bool{} // users' families
		for _, r := range m.Rasters {
			for _, v := range r.Legend {
				f, err := b.analytic.Lookup(v.Family)
				if err == nil && slices.ContainsFunc(r.Class.kin(), func(p kernels.Problem) bool { return f.Serves(p) != nil }) {
					partial[v.Family] = true
				}
			}
		}
		for _, f := range slices.Sorted(maps.Keys(partial)) {
			lines = append(lines, f+" does not serve every bias and weight: check before its launch.")
		}
	}
	return append(lines, "", fmt.Sprintf("Outside of M 1 to %d, N %d to %d and M*N up to %d there is no answer: measure there.", MaxM, MinN, MaxN, MaxElems))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
