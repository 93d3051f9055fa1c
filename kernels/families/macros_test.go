package families_test

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families"
)

// A macroUse is what a source says of a macro: a default, and the values that it may have.
type macroUse struct {
	from, to int64
	powers   bool // of 2, or zero
	own      bool // of the source itself, not of a header
}

func (m macroUse) holds(v int64) bool {
	return v >= m.from && v <= m.to && (!m.powers || v&(v-1) == 0)
}

// around are both ends of m and values next to them.
func (m macroUse) around() (values []int) {
	for _, v := range []int64{m.from - 1, m.from, m.to, m.to + 1, 2 * m.to} {
		if v >= 0 {
			values = append(values, int(v))
		}
	}
	return values
}

var (
	defaults = regexp.MustCompile(`(?m)^#ifndef (\w+)\n#define .*`)
	block    = regexp.MustCompile(`^#ifndef (\w+)\n#define (\w+) (\w+) ` +
		`// (\d+)(?: (?:to|or) (\d+))?(, powers of 2)?: \w`)
)

// known are the macros of sources that were read, by name.
var known = map[string]map[string]macroUse{}

// macrosOf are the macros of a source and of what it includes, by name.
func macrosOf(t *testing.T, source string) map[string]macroUse {
	t.Helper()
	if macros, ok := known[source]; ok {
		return macros
	}
	src, err := nvrtc.ReadSource(families.File, source)
	assert.NoError(t, err)
	macros := map[string]macroUse{}
	src.Headers[source] = src.Text
	for name, text := range src.Headers {
		for _, lines := range defaults.FindAllString(text, -1) {
			at := block.FindStringSubmatch(lines)
			assert.Must(t, at != nil && at[1] == at[2],
				"%s: the block of a macro is `#define NAME DEFAULT // FROM to TO: what`, not\n%s",
				name, lines)
			m := macroUse{own: name == source, powers: at[6] != ""}
			m.from, _ = strconv.ParseInt(at[4], 10, 64)
			m.to, _ = strconv.ParseInt(cmp.Or(at[5], at[4]), 10, 64)
			value, err := strconv.ParseInt(at[3], 10, 64) // or another macro
			assert.That(t, err != nil || m.holds(value), "%s: the default is out of range:\n%s", name,
				lines)
			if !macros[at[1]].own { // a source's own stands before a header's
				macros[at[1]] = m
			}
		}
	}
	known[source] = macros
	return macros
}

// The ranges at the heads of sources are those of the families' knobs: a config with a value outside
// is refused, whatever the number is, and valid holds what is accepted to them. No hint keeps x in a
// cache that it is as large as. A quarter of the problems each day.
func TestRangesOfMacrosAreThoseOfKnobs(t *testing.T) {
	r, d := families.New(), device("sm_90")
	ps := slices.Concat(options("8192x1024"), options("96x4096"), options("4096x65536"))
	for _, n := range []string{"1", "31", "541", "4096", "131072"} {
		ps = append(ps, problems("24x"+n+"/bf16?", "40000x"+n+"/bf16?")...)
	}
	tried := map[string]bool{}
	for i, p := range ps {
		for _, f := range r.Families {
			if f.CheckServes(p) != nil || !assert.Sampled(i, 4) && tried[f.Name] {
				continue
			}
			tried[f.Name] = true
			base := f.Base(p, d)
			for _, k := range f.Knobs {
				values := append([]int{0, 1, 3, 5, 16, 1 << 20}, k.Values...)
				for _, source := range f.Files {
					if path.Ext(source) != ".cu" {
						continue
					}
					if m, ok := macrosOf(t, source)[k.Knob.Macro]; ok {
						values = append(values, m.around()...)
					}
				}
				small := d // its cache has room for x alone
				small.CacheBytes = p.M * p.N * p.DType.Size()
				for _, v := range values {
					c := base.With(kernels.Setting{Knob: k.Knob, Value: v})
					if f.Refuse(p, c, d) == nil {
						valid(t, p, d, f, c, f.Plan(p, c, d))
					}
					assert.That(t, k.Knob != kernels.CacheHint || v&4 == 0 ||
						f.Refuse(p, c, small) != nil,
						"%s keeps x of %s in a cache that it fills, by hint %d", f.Name, p, v)
				}
			}
		}
	}
	for _, source := range embedded(t, ".cu") {
		macrosOf(t, source) // whose blocks are as they should be
	}
}
