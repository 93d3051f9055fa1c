package families_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/common"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// A macro is what a source says of one: a default, and the values that it may have.
type macro struct {
	value    string
	from, to int64
	powers   bool // of 2, or zero
	own      bool // of the source itself, not of a header
}

func (m macro) holds(v int64) bool {
	return v >= m.from && v <= m.to && (!m.powers || v&(v-1) == 0)
}

// around are both ends of m and values next to them.
func (m macro) around() (values []int) {
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

// macrosOf are the macros of a source and of what it includes, by name.
func macrosOf(t *testing.T, source string) map[string]macro {
	t.Helper()
	text, err := families.File(source)
	assert.NoError(t, err)
	headers := map[string]string{source: text}
	_, err = nvrtc.AddHeaders(headers, text, families.File)
	assert.NoError(t, err)
	macros := map[string]macro{}
	for name, text := range headers {
		for _, lines := range defaults.FindAllString(text, -1) {
			at := block.FindStringSubmatch(lines)
			assert.Must(t, at != nil && at[1] == at[2],
				"%s: the block of a macro is `#define NAME DEFAULT // FROM to TO: what`, not\n%s",
				name, lines)
			m := macro{value: at[3], own: name == source, powers: at[6] != ""}
			m.from, _ = strconv.ParseInt(at[4], 10, 64)
			m.to, _ = strconv.ParseInt(cmp.Or(at[5], at[4]), 10, 64)
			value, err := strconv.ParseInt(at[3], 10, 64) // or another macro
			assert.That(t, err != nil || m.holds(value), "%s: the default is out of range:\n%s", name, lines)
			if !macros[at[1]].own { // a source's own stands before a header's
				macros[at[1]] = m
			}
		}
	}
	return macros
}

// A scope is what the test of macros has seen.
type scope struct {
	t      *testing.T
	device kernels.DeviceInfo
	macros map[string]map[string]macro // by source and name
	seen   map[string]bool             // a source, a macro and a value that some family compiles
}

// compile takes the macros of a config that f accepts.
func (s *scope) compile(f *kernels.Family, p kernels.Problem, c kernels.Config) {
	if f.Refuse(p, c, s.device) != nil {
		return
	}
	for _, l := range f.Plan(p, c, s.device).Launches {
		absent := maps.Clone(s.macros[l.Source])
		for _, d := range l.Defines {
			m, ok := absent[d.Name]
			assert.Must(s.t, ok, "%s has no block of %s", l.Source, d.Name)
			assert.That(s.t, m.holds(d.Value), "%s: %s=%d of %s@%s for %s is out of range",
				l.Source, d.Name, d.Value, f.Name, c, p)
			s.seen[fmt.Sprint(l.Source, " ", d.Name, " ", d.Value)] = true
			delete(absent, d.Name)
		}
		for name, m := range absent {
			s.seen[fmt.Sprint(l.Source, " ", name, " ", m.value)] = true
		}
	}
}

// knobs are the values of f's knobs to try, those next to a range and extreme ones too, and by what
// the test calls them the ends of the ranges of its own sources.
func (s *scope) knobs(f *kernels.Family) (values []kernels.Setting,
	ends map[string]kernels.Setting) {
	ends = map[string]kernels.Setting{}
	for _, k := range f.Knobs {
		all := append([]int{0, 1, 3, 16, 1 << 20}, k.Values...)
		for _, source := range f.Files {
			m, ok := s.macros[source][k.Knob.Macro]
			if !ok {
				continue
			}
			all = append(all, m.around()...)
			if m.own && source != common.ReduceSource { // k2's tile takes three knobs at once
				for _, v := range []int64{m.from, m.to} {
					end := fmt.Sprint(source, " ", k.Knob.Macro, " ", v)
					ends[end] = kernels.Setting{Knob: k.Knob, Value: int(v)}
				}
			}
		}
		for _, v := range all {
			values = append(values, kernels.Setting{Knob: k.Knob, Value: v})
		}
	}
	return values, ends
}

// try compiles f's base for p, where all is asked for with each value of a knob, and the ends that
// no config has had yet beside each value of another knob and with one CTA per SM.
func (s *scope) try(f *kernels.Family, p kernels.Problem, all bool) {
	values, ends := s.knobs(f)
	base, few := f.Base(p, s.device), kernels.Setting{Knob: kernels.PerSM, Value: 1}
	s.compile(f, p, base)
	for _, v := range values {
		if all {
			s.compile(f, p, base.With(v))
		}
	}
	persistent := f.CheckKnobs(kernels.NewConfig(few)) == nil
	for name, end := range ends {
		for _, v := range values {
			if v.Knob == end.Knob || s.seen[name] {
				continue
			}
			s.compile(f, p, base.With(end, v))
			if persistent {
				s.compile(f, p, base.With(end, v, few))
			}
		}
	}
}

// The ranges at the heads of sources are those of the families' knobs. A config with a value
// outside is refused, whatever the number is, and both ends of a range are accepted for some
// problem, beside some value of another knob. A quarter of the problems each day has all values.
func TestMacros(t *testing.T) {
	s := &scope{t, device("sm_90"), map[string]map[string]macro{}, map[string]bool{}}
	for _, source := range embedded(t, ".cu") {
		s.macros[source] = macrosOf(t, source)
	}
	ps := append(options(8192, 1024), append(options(96, 4096), options(4096, 65536)...)...)
	eachOpPass(func(op kernels.Op, pass kernels.Pass) {
		for _, n := range []int64{1, 31, 541, 4096, 1 << 17} {
			for _, m := range []int64{24, 40000} {
				ps = append(ps, kernels.Problem{Op: op, Pass: pass, M: m, N: n, DType: kernels.BF16,
					Weight: kernels.BF16, Bias: op.Spec().Bias})
			}
		}
	})
	ends := map[string]bool{}
	for _, f := range families.New().Families {
		_, of := s.knobs(f)
		for name := range of {
			ends[name] = true
		}
		for i, p := range ps {
			if f.CheckServes(p) == nil {
				s.try(f, p, sampled(i, 4))
			}
		}
	}
	for _, end := range slices.Sorted(maps.Keys(ends)) {
		assert.That(t, s.seen[end], "no family accepts %s, an end of the range", end)
	}
}
