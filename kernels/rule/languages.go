package rule

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"normbench/kernels"
)

// A language is how code says data, and the function that looks it up.
type language struct {
	comment     string
	open, close string // of a list
	pair        string // format of a key with its value
	begin       string // of a line in the function's comment
	code        string // with @NAME@ for data
}

var (
	//go:embed export.go.txt
	goCode string
	//go:embed export.py.txt
	pythonCode string
	//go:embed export.hpp.txt
	cppCode string

	languages = map[string]language{
		"go":     {"//", "{", "}", "%q: %q", "// ", goCode},
		"python": {"#", "[", "]", "%q: %q", "    ", pythonCode},
		"cpp":    {"//", "{", "}", "{%q, %q}", "// ", cppCode},
	}
)

// code is the data with the function.
func (x *export) code(l language) string {
	var about strings.Builder
	for _, line := range x.About {
		about.WriteString(strings.TrimSpace(l.comment+" "+line) + "\n")
	}
	var index, prefixes []string
	for _, key := range slices.Sorted(maps.Keys(x.Index)) {
		index = append(index, key+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Index[key]), " ", ","), "[]"))
	}
	for _, s := range kernels.Ops() {
		prefixes = append(prefixes, fmt.Sprintf(l.pair, s.Op, s.Short+"_"))
	}
	return strings.NewReplacer(
		"@ARGUMENTS@", arguments(l.begin), "@PREFIXES@", strings.Join(prefixes, ", "),
		"@FP8T@", fmt.Sprint(bitOf("fp8t")), "@UNEVEN@", fmt.Sprint(bitOf(uneven)), "@SHARED@", fmt.Sprint(shared()),
		"@ABOUT@", about.String(),
		"@FAMILIES@", list(l, x.Families), "@CONFIGS@", list(l, x.Configs),
		"@LINES@", list(l, x.Lines), "@RASTERS@", list(l, x.Rasters), "@INDEX@", list(l, index),
		"@MAXM@", fmt.Sprint(MaxM), "@MINN@", fmt.Sprint(MinN), "@MAXN@", fmt.Sprint(MaxN), "@MAXELEMS@", fmt.Sprint(MaxElems),
	).Replace(l.code)
}

// list writes texts in lines of some 120 characters.
func list(l language, items []string) string {
	var b strings.Builder
	b.WriteString(l.open)
	wide := 120
	for _, item := range items {
		text := fmt.Sprintf("%q,", item)
		if wide += len(text); wide > 120 {
			b.WriteByte('\n')
			wide = len(text) - 1
		}
		b.WriteString(text)
	}
	return b.String() + "\n" + l.close
}

// arguments explains those of the function, in lines that begin with a text.
func arguments(begin string) string {
	var ops, sum []string
	for _, s := range kernels.Ops() {
		ops = append(ops, fmt.Sprintf("%q", s.Op))
	}
	for _, o := range kernels.Options() {
		sum = append(sum, fmt.Sprint(bitOf(o.Name), " ", o.Noun))
	}
	return "op is " + strings.Join(ops, " or ") + `, pass_ "fwd" or "bwd", ` + "\n" + begin +
		`dtype that of x ("bf16", "fp16" or "fp32"). options are a sum: ` + "\n" + begin +
		strings.Join(sum[:len(sum)/2], ", ") + ",\n" + begin + strings.Join(sum[len(sum)/2:], ", ") + "."
}

// shared is the sum of the options with and without which problems share a raster.
func shared() (sum int) {
	for _, o := range kernels.Options() {
		if o.Alike {
			sum += bitOf(o.Name)
		}
	}
	return sum
}
