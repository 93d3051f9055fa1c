package launchrule

import (
	"encoding/json"
	"fmt"
	gofmt "go/format"
	"maps"
	"slices"
	"strings"
	"unicode"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Formats are what Export writes.
var Formats = []string{"go", "python", "cpp", "json", "yaml"}

// Export writes the rules as code or data. The code is one function without
// imports of ours. Where it answers, that is what a program with these rules runs, which TestExports holds it to.
func (s *Set) Export(format string) ([]byte, error) {
	if err := s.CheckValid(); err != nil {
		return nil, err
	}
	switch format {
	case "json":
		return s.JSON()
	case "yaml":
		return s.YAML()
	case "go":
		return gofmt.Source([]byte(s.code(golang)))
	case "python":
		return []byte(s.code(python)), nil
	case "cpp":
		return []byte(s.code(cpp)), nil
	}
	return nil, hint.Errorf("use "+strings.Join(Formats, ", "), "unknown export %q", format)
}

// A language is how one says it.
type language struct {
	comment string
	indent  string
	head    func(knobs []*kernels.Knob) string
	helpers string // for configs whose knobs follow the row
	sign    string // of the function, with what it begins with
	locals  string // that helpers go with
	foot    string
	ifs     func(cond string) string
	end     string // of an if
	once    string // a loop that is left for the next list,
	endOnce string // with what ends it
	and     string
	none    string // leaves without an answer
	text    func(string) string
	answer  func(family string, rule int, values []value) string
	scaled  string // function that grows a knob
}

// A value is a knob with the expression for it.
type value struct {
	knob *kernels.Knob
	expr string
}

// coded are the rules that code has: of a whole file those that were measured. What others launch depends on what
// the families refuse, and on their own arithmetic.
func (s *Set) coded() *Set {
	out := *s
	out.Lists = slices.DeleteFunc(slices.Clone(s.Lists), func(l List) bool { return l.Own || s.Whole && l.Origin != "" })
	out.Sources = map[string]string{}
	for i := range out.Lists {
		for j := range out.Lists[i].Rules {
			if f := out.Lists[i].FamilyOf(&out.Lists[i].Rules[j]); s.Sources[f] != "" {
				out.Sources[f] = s.Sources[f]
			}
		}
	}
	return &out
}

// code is the rules in a language. The conditions are the same in all: whole
// numbers only.
func (s *Set) code(l language) string {
	var b strings.Builder
	c := l.comment
	about := s.about()
	s = s.coded()
	for _, line := range about {
		b.WriteString(strings.TrimSpace(c+" "+line) + "\n")
	}
	b.WriteString("\n" + l.head(s.knobs()))
	if s.follows() {
		b.WriteString(l.helpers + l.sign + l.locals)
	} else {
		b.WriteString(l.sign)
	}
	number := 0 // of a rule among all
	for i := range s.Lists {
		k := &s.Lists[i]
		first := number
		number += len(k.Rules)
		if len(k.Rules) == 0 {
			continue
		}
		in := l.indent
		line := func(format string, args ...any) { b.WriteString(in + fmt.Sprintf(format, args...) + "\n") }
		open := func(what string) {
			b.WriteString(in + what)
			in += l.indent
		}
		shut := func(what string) {
			if in = in[len(l.indent):]; what != "" {
				b.WriteString(in + what)
			}
		}
		line("%s %s", c, oneLine(k.Title()))
		open(l.ifs(strings.Join(k.conditions(l), l.and)))
		next := slices.ContainsFunc(k.Rules, func(r Rule) bool { return r.Then == Next && r.If == "" })
		if next {
			open(l.once)
		}
		for j := range k.Rules {
			r := &k.Rules[j]
			note := ""
			if e := r.Evidence; e.Problems > 0 {
				note = fmt.Sprintf(": %d problems, regret %.3f", e.Problems, e.Regret)
			}
			line("%s rule %d%s", c, first+j+1, note)
			open(l.ifs(strings.Join(r.conditions(k.Bytes, &s.Device), l.and)))
			switch {
			case r.If == "" && r.Then == Next:
				line("break%s", l.endOf())
			case r.If != "" || r.Then == Base || r.Config.String() == "": // code cannot say what
				line("%s", l.none)
			default:
				line("%s", l.answer(k.FamilyOf(r), first+j+1, r.values(l, k.Rest)))
			}
			shut(l.end)
		}
		if next {
			if l.endOnce != "" {
				line("%s", l.endOnce)
			}
			shut(l.end)
		}
		shut(l.end)
	}
	b.WriteString(l.indent + l.none + "\n" + l.foot)
	return b.String()
}

// endOf is what ends a statement.
func (l *language) endOf() string {
	if strings.HasSuffix(l.none, ";") {
		return ";"
	}
	return ""
}

// values are the knobs that a rule sets, as expressions.
func (r *Rule) values(l language, rest kernels.Config) (vs []value) {
	for _, set := range rest.With(r.Config.Settings()...).Settings() {
		expr := fmt.Sprint(set.Value)
		switch {
		case set.Value == 0:
		case slices.Contains(r.Grow, set.Knob.Name):
			expr = fmt.Sprintf("%s(%d, row, %d)", l.scaled, set.Value, r.RowBytes)
		case slices.Contains(r.Shrink, set.Knob.Name):
			expr = fmt.Sprintf("%s(%d, %d, row)", l.scaled, set.Value, r.RowBytes)
		}
		vs = append(vs, value{set.Knob, expr})
	}
	return vs
}

// follows says whether knobs of some rule follow the row.
func (s *Set) follows() bool {
	return slices.ContainsFunc(s.Lists, func(l List) bool {
		return slices.ContainsFunc(l.Rules, func(r Rule) bool { return r.RowBytes > 0 })
	})
}

// about is the comment at the head of the code, by lines.
func (s *Set) about() []string {
	var protocol struct{ Name string }
	json.Unmarshal(s.Protocol, &protocol) // of zeros where there is none
	lines := []string{
		fmt.Sprintf("Code generated by normbench tune %s. DO NOT EDIT.", oneLine(s.Tool)), "",
		fmt.Sprintf("Launch rules for %s (%s, %d SMs, %s of L2),", oneLine(s.Device.Name), oneLine(s.Device.Arch), s.Device.SMs, kernels.FormatBytes(s.Device.CacheBytes)),
	}
	from := fmt.Sprintf("from records of %s (normbench %s, driver %s, %s, protocol %s).", s.Date.UTC().Format("2006-01-02"), oneLine(s.Measured), oneLine(s.Device.Driver), oneLine(s.Device.Compiler), oneLine(protocol.Name))
	for _, l := range s.Lists {
		if _, of, ok := strings.Cut(l.Origin, " of "); ok {
			from = "scaled from rules of " + oneLine(of) + "."
		}
	}
	lines = append(lines, from)
	coded := s.coded()
	for _, f := range slices.Sorted(maps.Keys(coded.Sources)) {
		lines = append(lines, fmt.Sprintf("Kernel source: %s %s", oneLine(f), oneLine(coded.Sources[f])))
	}
	lines = append(lines, "", "No answer means: launch by your default rule.")
	if n := len(s.Lists) - len(coded.Lists); s.Whole && n > 0 {
		lines = append(lines, fmt.Sprintf("That of normbench is %d lists of rules that were not measured here, and arithmetic behind them:", n),
			"`normbench rule tuned:FILE --columns N` says what they launch for some columns.")
	}
	return lines
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// conditions are a list's class and hull as expressions.
func (l *List) conditions(of language) []string {
	cs := []string{"op == " + of.text(string(l.Op)), "pass_ == " + of.text(string(l.Pass))}
	if l.Bytes > 0 {
		cs = append(cs, fmt.Sprintf("dtype_bytes == %d", l.Bytes))
	}
	if mask := l.With | l.Without; mask != 0 {
		cs = append(cs, fmt.Sprintf("(options & %d) == %d", mask, l.With))
	}
	if h := l.Hull; h != (Hull{}) {
		cs = append(cs, fmt.Sprintf("n >= %d", h.NMin), fmt.Sprintf("n <= %d", h.NMax), fmt.Sprintf("rows >= %d", h.MMin), fmt.Sprintf("rows <= %d", h.MMax), fmt.Sprintf("n * rows <= %d", h.ElemsMax))
	}
	return cs
}

// conditions are the box as expressions, for elements of so many bytes or, where that is 0, of any.
func (b *Box) conditions(bytes int64, d *kernels.DeviceInfo) []string {
	var cs []string
	add := func(on bool, format string, args ...any) {
		if on {
			cs = append(cs, fmt.Sprintf(format, args...))
		}
	}
	bounds := func(name string, over, most int64) {
		one := most > 0 && over == most-1
		add(one, "%s == %d", name, most)
		add(over > 0 && !one, "%s > %d", name, over)
		add(most > 0 && !one, "%s <= %d", name, most)
	}
	ratio := func(v, sign string, r Ratio, of func(int64) string) {
		scaled := v
		if r.Den > 1 {
			scaled = fmt.Sprintf("%s * %d", v, r.Den)
		}
		add(r.Den != 0, "%s %s %s", scaled, sign, of(r.Num))
	}
	ofSMs := func(n int64) string { return fmt.Sprintf("%d * sms", n) }
	ofL2 := func(n int64) string { return fmt.Sprint(n * d.CacheBytes) } // a product of literals might not fit C++'s int
	row, x := fmt.Sprintf("n * %d", bytes), fmt.Sprintf("m * n * %d", bytes)
	if bytes == 0 {
		row, x = "n * dtype_bytes", "m * n * dtype_bytes"
	}
	add(b.DType != "", "dtype == %q", b.DType)
	bounds("n", b.NOver, b.NMax)
	add(b.Columns == Pow2, "(n & (n - 1)) == 0")
	add(b.Columns == Other, "(n & (n - 1)) != 0")
	bounds(row, b.RowOver, b.RowMax)
	ratio("m", ">", b.MOver, ofSMs)
	ratio("m", ">=", b.MLeast, ofSMs)
	ratio("m", "<=", b.MMax, ofSMs)
	ratio("m", "<", b.MBelow, ofSMs)
	bounds("m", b.RowsOver, b.RowsMax)
	add(b.Multiple > 0, "m %% %d == 0", b.Multiple)
	add(b.Odd > 0, "m %% %d != 0", b.Odd)
	if b.Cluster > 0 {
		once := "sms"
		if b.Cluster > 1 {
			once = fmt.Sprint(d.ClustersAtOnce(int(b.Cluster)))
		}
		add(b.WaveLeast > 0, "m >= %d * %s", b.WaveLeast, once)
		add(b.WaveMax > 0, "m <= %d * %s", b.WaveMax, once)
	}
	ratio(x, ">", b.XOver, ofL2)
	ratio(x, "<=", b.XMax, ofL2)
	bounds("m * n", b.ElemsOver, b.ElemsMax)
	add(b.RowAlign > 0, "%s %% %d == 0", row, b.RowAlign)
	add(b.RowUneven > 0, "%s %% %d != 0", row, b.RowUneven)
	add(len(cs) == 0, "n >= 1")
	return cs
}

// knobs are those that some rule sets.
func (s *Set) knobs() []*kernels.Knob {
	var ks []*kernels.Knob
	for _, k := range kernels.Knobs() {
		if slices.ContainsFunc(s.Lists, func(l List) bool {
			_, rest := l.Rest.Lookup(k)
			return rest || slices.ContainsFunc(l.Rules, func(r Rule) bool { _, ok := r.Config.Lookup(k); return ok })
		}) {
			ks = append(ks, k)
		}
	}
	return ks
}

// camel is block_rows as BlockRows.
func camel(s string) string {
	var b strings.Builder
	up := true
	for _, r := range s {
		if r == '_' {
			up = true
			continue
		}
		if up {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		up = false
	}
	return b.String()
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }
