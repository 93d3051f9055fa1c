package launchrule

import (
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
	Family string         `json:"family,omitempty"`
	Config kernels.Config `json:"config,omitzero"` // for rows of RowBytes
	// RowBytes is the width that Config is for; 0 where nothing follows the row.
	RowBytes int64    `json:"row_bytes,omitempty"`
	Grow     []string `json:"grow,omitempty"`   // names of knobs that are proportional to the row
	Shrink   []string `json:"shrink,omitempty"` // and inversely proportional
	// SliceBytes, where it is not 0, has as few CTAs share a row through memory as have slices
	// of no more bytes, in whole vectors of 16 bytes for all lanes of a warp.
	SliceBytes int64 `json:"slice_bytes,omitempty"`
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
	if r.SliceBytes > 0 {
		c = c.With(kernels.Setting{Knob: kernels.CTAsPerRow, Value: int(rowSlices(n, bytes, r.SliceBytes))})
	}
	return kernels.Variant{Family: r.Family, Config: c}
}

// rowSlices is the fewest slices of whole vectors for all lanes that have no more than most bytes;
// n where no number of them divides a row so.
func rowSlices(n, bytes, most int64) int64 {
	wide := max(512/bytes, 128)
	if n%wide != 0 {
		return n
	}
	s := (n*bytes + most - 1) / most
	for s < n && n%(s*wide) != 0 {
		s++
	}
	return s
}

// scaled is v*num/den, at least 1 unless v is 0: zero says "not set" of a knob.
func scaled(v int, num, den int64) int {
	if v == 0 {
		return 0
	}
	return int(max(1, int64(v)*num/den))
}

// String is the recipe in words: rms_bwd/reg_persist@br2.w8.st2.k2, per 4096-byte
// row: warps up, ctas_per_sm down.
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
