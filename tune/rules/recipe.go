package rules

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"normbench/kernels"
)

// A Recipe is what a rule runs: a family with a full config, some of whose knobs
// may follow the width of a row. A config that is good at one width is rarely
// good at four times the width; twice the warps for twice the row often is. So a
// recipe says which knobs grow or shrink with the row, and from which row.
//
// The row is counted in bytes, rounded up to a power of two, and no knob that
// shrinks goes below 1.
type Recipe struct {
	Family string         `json:"family"`
	Config kernels.Config `json:"config"` // for rows of RowBytes
	// RowBytes is the width that Config is for; 0 where nothing follows the row.
	RowBytes int64    `json:"row_bytes,omitempty"`
	Grow     []string `json:"grow,omitempty"`   // names of knobs that are proportional to the row
	Shrink   []string `json:"shrink,omitempty"` // and inversely proportional
}

// At is the variant that the recipe runs on rows of n elements.
func (r Recipe) At(n, bytes int64) kernels.Variant {
	c := r.Config
	if r.RowBytes > 0 {
		row := ceilPow2(n * bytes)
		for _, name := range r.Grow {
			if k, err := kernels.ParseKnob(name); err == nil {
				c = c.With(kernels.Setting{Knob: k, Value: scaled(c.Get(k), row, r.RowBytes)})
			}
		}
		for _, name := range r.Shrink {
			if k, err := kernels.ParseKnob(name); err == nil {
				c = c.With(kernels.Setting{Knob: k, Value: scaled(c.Get(k), r.RowBytes, row)})
			}
		}
	}
	return kernels.Variant{Family: r.Family, Config: c}
}

// scaled is v*num/den, at least 1 unless v is 0: zero says "not set" of a knob.
func scaled(v int, num, den int64) int {
	if v == 0 {
		return 0
	}
	return int(max(1, int64(v)*num/den))
}

// ceilPow2 rounds n >= 1 up to a power of two.
func ceilPow2(n int64) int64 { return 1 << bits.Len64(uint64(n-1)) }

// String is the recipe in words: rms_bwd/reg_persist@br2.w8.st2.k2, per 4096-byte
// row: warps up, programs_per_sm down.
func (r Recipe) String() string {
	s := r.Family + "@" + r.Config.String()
	var how []string
	for _, k := range r.Grow {
		how = append(how, key(k)+"+")
	}
	for _, k := range r.Shrink {
		how = append(how, key(k)+"-")
	}
	if len(how) > 0 {
		s += " at " + kernels.FormatBytes(r.RowBytes) + " rows, " + strings.Join(how, " ")
	}
	return s
}

func key(name string) string {
	if k, err := kernels.ParseKnob(name); err == nil {
		return k.Key
	}
	return name
}

// The ways in which a config may follow the row. All keep the bytes per thread,
// or the share of a row in a chunk; they differ in what pays for it.
var ways = []struct{ grow, shrink []*kernels.Knob }{
	{nil, nil},
	{[]*kernels.Knob{kernels.Warps}, nil},
	{[]*kernels.Knob{kernels.Warps}, []*kernels.Knob{kernels.PerSM}},
	{nil, []*kernels.Knob{kernels.BlockRows}},
	{[]*kernels.Knob{kernels.BlockCols}, nil},
	{[]*kernels.Knob{kernels.BlockCols, kernels.Warps}, nil},
}

// recipesOf lists the recipes that run v on rows of n elements.
func recipesOf(v kernels.Variant, n, bytes int64) []Recipe {
	var out []Recipe
	row := ceilPow2(n * bytes)
	for _, w := range ways {
		r := Recipe{Family: v.Family, Config: v.Config}
		ok := true
		for _, k := range slices.Concat(w.grow, w.shrink) {
			ok = ok && v.Config.Get(k) > 0
		}
		if !ok {
			continue
		}
		for _, k := range w.grow {
			r.Grow, r.RowBytes = append(r.Grow, k.Name), row
		}
		for _, k := range w.shrink {
			r.Shrink, r.RowBytes = append(r.Shrink, k.Name), row
		}
		out = append(out, r)
	}
	return out
}

// compareRecipes orders recipes, those that follow nothing first: of equals the
// plainer is taken.
func compareRecipes(a, b Recipe) int {
	return cmp.Or(
		cmp.Compare(len(a.Grow)+len(a.Shrink), len(b.Grow)+len(b.Shrink)),
		cmp.Compare(a.Family, b.Family), cmp.Compare(a.Config.String(), b.Config.String()), cmp.Compare(a.RowBytes, b.RowBytes),
		slices.Compare(a.Grow, b.Grow), slices.Compare(a.Shrink, b.Shrink))
}
