package launchmap

import (
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
)

// An exportLimit is a family that does not serve all problems of the classes that it answers for, with
// those that it serves. The exported function refuses the others.
type exportLimit struct {
	*kernels.Family
	Served []form
	// What it serves in words; options have other names in Go.
	Words, GoWords string
}

// A form is what a problem is beside its shape and the type of its weight: the type of x, and options with
// those that launch alike.
type form struct {
	Type kernels.DType
	With OptionSet
}

// Bits returns the sum of the bits of the form's options.
func (f form) Bits() int { return int(f.With) }

// forms lists the forms of the class's problems.
func (c Class) forms() (list []form) {
	takes := optionsOf(c.Op.Spec(), c.Pass)
	for i := range options {
		if o := &options[i]; o.Alike && slices.Contains(c.Op.Spec().Options, o.Name) {
			takes |= 1 << i
		}
	}
	for _, d := range kernels.DTypes() {
		for with := range OptionSet(1) << len(options) {
			f := form{d, with}
			if with&^takes == 0 && d.Size() == c.Bytes && with&^alikeBits == c.With &&
				f.problem(c, 16, 128).Validate() == nil {
				list = append(list, f)
			}
		}
	}
	return list
}

// alikeBits are the bits of the options with which problems launch as without.
var alikeBits = func() (set OptionSet) {
	for i := range options {
		if options[i].Alike {
			set |= 1 << i
		}
	}
	return set
}()

// problem makes a problem of the form.
func (f form) problem(c Class, m, n int64) kernels.Problem {
	p := kernels.Problem{Op: c.Op, Pass: c.Pass, M: m, N: n, DType: f.Type, Weight: f.Type}
	for i := range options {
		if f.With&(1<<i) != 0 {
			options[i].Set(&p)
		}
	}
	return p
}

// A size is a number of rows and one of columns.
type size struct{ m, n int64 }

// sizeFrom finds the first problem's size of the class with so many columns and rows, or somewhat more.
func (c Class) sizeFrom(m, n, align int64) (size, bool) {
	box := Box{Class: c, Align: align}
	unitN, unitM := box.units()
	s := size{(m + unitM - 1) / unitM * unitM, (n + unitN - 1) / unitN * unitN}
	for ; s.n < n+32*unitN; s.n += unitN {
		if AlignOf(s.n, c.Bytes) == align && ClassOf(c.Problem(s.m, s.n)) == c {
			return s, CoversShape(s.m, s.n)
		}
	}
	return s, false
}

// serves says whether a family serves a form at a size, with some type of the weight: pick is not asked for
// that.
func (f form) serves(family *kernels.Family, c Class, at size) bool {
	p := f.problem(c, at.m, at.n)
	return slices.ContainsFunc(kernels.DTypes(), func(d kernels.DType) bool {
		p.Weight = d
		return p.Validate() == nil && family.Serves(p) == nil
	})
}

// maxSizes bounds the sizes at which a family is asked what it serves in a class.
const maxSizes = 16

// limits lists the families that do not serve all forms of a class for which they answer. The one family
// of a book is always among them, with all classes of its op and pass.
//
// weights says in words which families take some types of a weight only: pick is not asked for that.
func (b *Book) limits(classes []Class, strips [][]strip) (list []*exportLimit, weights []string) {
	answers := map[string]map[Class][]size{} // where a family answers
	for i, c := range classes {
		for j, align := range Aligns(c.Bytes) {
			for _, s := range strips[4*i+j] {
				for _, r := range s.ranges {
					of := answers[r.Variant.Family]
					if of == nil {
						of = map[Class][]size{}
						answers[r.Variant.Family] = of
					}
					if at, ok := c.sizeFrom(r.First, s.from, align); ok {
						of[c] = append(of[c], at)
					}
				}
			}
		}
	}
	for _, family := range b.analytic.Families {
		alone := family.Name == b.analytic.BaseOf
		if answers[family.Name] == nil && !alone {
			continue
		}
		weights = append(weights, weightLimits(family, answers[family.Name])...)
		limit, limited := &exportLimit{Family: family}, alone
		for _, c := range Classes() {
			if c.Op != family.Op || c.Pass != family.Pass {
				continue
			}
			at := thin(answers[family.Name][c], maxSizes)
			for _, f := range c.forms() {
				served := func(s size) bool { return f.serves(family, c, s) }
				unserved := func(s size) bool { return !served(s) }
				switch {
				case len(at) == 0: // there is no answer to refuse: the one family says what it never serves
					if alone && slices.ContainsFunc(c.usualSizes(), served) {
						limit.Served = append(limit.Served, f)
					}
				case slices.ContainsFunc(at, unserved):
					limited = true
				default:
					limit.Served = append(limit.Served, f)
				}
			}
		}
		if limited {
			list = append(list, limit)
		}
	}
	return list, weights
}

// weightLimits says with which types of x a family takes some types of a weight only, where it answers.
func weightLimits(family *kernels.Family, answers map[Class][]size) (lines []string) {
	for _, x := range kernels.DTypes() {
		var takes, refuses []string
		for _, w := range kernels.DTypes() {
			known, served := false, true
			for c, sizes := range answers {
				for _, at := range thin(sizes, maxSizes) {
					p := c.Problem(at.m, at.n)
					if p.DType, p.Weight = x, w; x.Size() == c.Bytes && p.Validate() == nil {
						p.Weight = x
						own := family.Serves(p) == nil
						p.Weight = w
						known, served = known || own, served && (!own || family.Serves(p) == nil)
					}
				}
			}
			switch {
			case known && served:
				takes = append(takes, w.String())
			case known:
				refuses = append(refuses, w.String())
			}
		}
		if len(refuses) > 0 {
			lines = append(lines, fmt.Sprintf("%s with x of %s takes a weight of %s, not of %s.", family.Name, x,
				strings.Join(takes, " or "), strings.Join(refuses, " or ")))
		}
	}
	return lines
}

// thin leaves at most so many items of a list, evenly.
func thin[T any](list []T, most int) (out []T) {
	for i := range min(len(list), most) {
		out = append(out, list[i*len(list)/min(len(list), most)])
	}
	return out
}

// usualSizes lists a few sizes of the class's problems, small and large.
func (c Class) usualSizes() []size {
	s := c.sample()
	return []size{{s.M, s.N}, {s.M, s.N + 896}, {s.M + 4080, s.N + 3968}}
}

// maxServed is how many types with options the message of a refusal names.
const maxServed = 12

// words says what the family serves, with the names that options have in a language's code:
// rmsnorm fwd of bf16, bf16 + RESIDUAL.
func (l *exportLimit) words(opts []exportOption, label func(exportOption) string) string {
	var items []string
	for _, f := range l.Served {
		item := f.Type.String()
		for _, o := range opts {
			if f.With&OptionSet(o.Bit) != 0 {
				item += " + " + label(o)
			}
		}
		if !slices.Contains(items, item) { // uneven problems are written as even ones
			items = append(items, item)
		}
	}
	if more := len(items) - maxServed; more > 0 {
		items = append(items[:maxServed], fmt.Sprintf("%d more", more))
	}
	if len(items) == 0 {
		items = []string{"none of these types and options"}
	}
	return fmt.Sprintf("%s %s of %s", l.Op, l.Pass, strings.Join(items, ", "))
}

// addLimits adds to the layout the families that do not serve all, see limits.
func (x *layout) addLimits(b *Book, classes []Class, strips [][]strip) {
	label := func(o exportOption) string { return o.Label }
	limits, weights := b.limits(classes, strips)
	x.weights = weights
	for _, l := range limits {
		l.Words, l.GoWords = l.words(x.Options, label), l.words(x.Options, exportOption.Go)
		x.Limits = append(x.Limits, l)
		if l.Name == b.analytic.BaseOf {
			x.Alone = l
		}
	}
}
