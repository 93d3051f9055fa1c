// Package presets holds the launch rules of published systems: for a problem,
// the variant of our families that does what the system would do. The kernels
// are ours; which design, tile, warps and CTAs run is theirs.
//
// One file per system. Sources are named with each rule; where a system leaves
// something to a compiler (Triton's layouts, Inductor's final sum), the preset
// takes our family's own default and says so.
package presets

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Preset picks variants the way one published system does.
type Preset struct {
	Name   string // "te-593"
	System string // "TransformerEngine (ROCm) PR 593"
	Lacks  limits
	Doc    string // one line: the rule
	// Times says that the system times what Pick returns and takes the fastest.
	// Otherwise the first that our families accept counts: a rule's own answer,
	// then what is nearest to it.
	Times bool
	// Pick returns the variants that the system has for p on d. The error says why
	// it has none.
	Pick func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error)
}

// All lists the presets, those of one system together.
func All() []*Preset {
	return []*Preset{teDev, te593, fastLLMBefore, fastLLM546, quack, quack101, quack101v1, triRMSNorm,
		inductor, inductorFixed64, liger, apexFast, apexFused, llmc}
}

// Lookup finds a preset by name.
func Lookup(name string) (*Preset, error) {
	var names []string
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, hint.Errorf(hint.DidYouMean(name, names, "`normbench list presets` names them"),
		"unknown preset %q", name)
}

// Variants is Pick, with every config completed and accepted by its family. An
// error says what the preset, or our family of its design, cannot do.
func (s *Preset) Variants(r *kernels.Registry, p kernels.Problem, d kernels.DeviceInfo) (
	[]kernels.Variant, error) {
	err := s.Lacks.refuse(p)
	var picks []kernels.Variant
	if err == nil {
		picks, err = s.Pick(p, d)
	}
	if err != nil {
		return nil, hint.Errorf("`normbench list presets` says what each does", "preset %s: %v", s.Name, err)
	}
	var vs []kernels.Variant
	for _, v := range picks {
		_, full, _, e := r.Resolve(p, v, d)
		if e != nil {
			if err == nil {
				err = e
			}
			continue // as a system's autotuner drops what does not run
		}
		vs = append(vs, full)
		if !s.Times {
			break
		}
	}
	if len(vs) == 0 {
		return nil, fmt.Errorf("preset %s: %w", s.Name, err)
	}
	return vs, nil
}

// label reads a config of this package's own.
func label(format string, args ...any) kernels.Config {
	c, err := kernels.ParseConfig(fmt.Sprintf(format, args...))
	if err != nil {
		panic(err) // the labels are this package's own
	}
	return c
}

// variant makes a variant of a design for p, with a config as a label.
func variant(p kernels.Problem, design, format string, args ...any) kernels.Variant {
	return kernels.Variant{Family: kernels.FamilyName(p.Op, p.Pass, design), Config: label(format, args...)}
}

// with returns v with the knobs of a label.
func with(v kernels.Variant, format string, args ...any) kernels.Variant {
	v.Config = v.Config.With(label(format, args...).Settings()...)
	return v
}

// oneVariant returns the answer of a rule that does not time.
func oneVariant(v kernels.Variant) ([]kernels.Variant, error) { return []kernels.Variant{v}, nil }

// A limits names a system's kernel, then the ops and options that it lacks. All lack ops beside rmsnorm
// and layernorm.
type limits []string

// refuse makes an error of p's op and options that the system lacks; nil if there are none.
func (l limits) refuse(p kernels.Problem) error {
	var found []string
	ours := p.Op == kernels.RMSNorm || p.Op == kernels.LayerNorm
	if op := string(p.Op); !ours || slices.Contains(l[1:], op) {
		found = append(found, op)
	}
	for _, o := range kernels.Options() {
		if o.Has(p) && slices.Contains(l[1:], o.Name) {
			found = append(found, o.Noun)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no %s", l[0], strings.Join(found, " and no "))
}

// vector computes the vector_bytes with which none of so many threads on a row is idle: a compiler that
// lays a row out over them loads that much at once.
func vector(p kernels.Problem, threads int64) int64 {
	row := p.N * p.DType.Size()
	v := min(16, row&-row)
	for v > p.DType.Size() && row/v < threads {
		v /= 2
	}
	return v
}

// doubleWarps lists a rule's variant for a number of warps, then with twice as many and
// so on to 32: where rows start at odd places, ours hold fewer elements per
// thread.
func doubleWarps(warps int64, of func(warps int64) kernels.Variant) []kernels.Variant {
	var vs []kernels.Variant
	for ; warps <= 32; warps *= 2 {
		vs = append(vs, of(warps))
	}
	return vs
}

// lastPow2 returns the largest power of two up to n, 1 for less.
func lastPow2(n int64) int64 { return 1 << (bits.Len64(uint64(max(n, 1))) - 1) }

func clamp(v, lo, hi int64) int64 { return max(lo, min(v, hi)) }

// step looks n up in a table: the value of the first limit that n does not exceed, or otherwise.
func step(n int64, table [][2]int64, otherwise int64) int64 {
	for _, t := range table {
		if n <= t[0] {
			return t[1]
		}
	}
	return otherwise
}
