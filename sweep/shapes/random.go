package shapes

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Domain is a range of shapes: bounds on rows, columns and elements, which are included.
type Domain struct {
	MMin, MMax, NMin, NMax int64
	Elems                  int64 // most of M times N
}

// DefaultDomain has the shapes that maps are made for where --domain names no others.
var DefaultDomain = Domain{MMin: 1, MMax: 1 << 20, NMin: 64, NMax: 1 << 16, Elems: 1 << 28}

const domainHelp = "write bounds such as M=1:1Mi,N=64:64Ki,MN=256Mi; what is left out is as in that"

// ParseDomain reads bounds on rows, columns and elements, such as M=1:1Mi,N=64:64Ki,MN=256Mi. A single
// number is both bounds. Bounds that are left out are DefaultDomain's.
func ParseDomain(s string) (Domain, error) {
	d := DefaultDomain
	for item := range strings.SplitSeq(s, ",") {
		if !d.setBound(strings.TrimSpace(item)) {
			return d, hint.Errorf(domainHelp, "malformed domain %q", s)
		}
	}
	switch {
	case d.MMin < 1 || d.NMin < 1 || d.MMax > MaxSide || d.NMax > MaxSide:
		return d, hint.Errorf(sideHelp, "domain %q is out of range", s)
	case d.MMin > d.MMax || d.NMin > d.NMax || d.MMin*d.NMin > d.Elems:
		return d, hint.Errorf(domainHelp, "domain %q holds no shape", s)
	}
	return d, nil
}

// setBound reads one bound, such as M=1:4096, into the domain; false if it is malformed.
func (d *Domain) setBound(item string) bool {
	name, bounds, _ := strings.Cut(item, "=")
	lo, hi, two := strings.Cut(bounds, ":")
	if !two {
		hi = lo
	}
	a, errA := kernels.ParseCount(lo)
	b, errB := kernels.ParseCount(hi)
	switch {
	case name == "M":
		d.MMin, d.MMax = a, b
	case name == "N":
		d.NMin, d.NMax = a, b
	case name == "MN" && !two:
		d.Elems = b
	default:
		return false
	}
	return errA == nil && errB == nil && a > 0 && b > 0
}

// Holds says whether the shape of m rows and n columns is in the domain.
func (d Domain) Holds(m, n int64) bool {
	return d.MMin <= m && m <= d.MMax && d.NMin <= n && n <= d.NMax && m*n <= d.Elems
}

// DrawColumns draws a number of columns, evenly by its logarithm. Half are widths that models have (a
// power of two times 1, 9/8 ... 15/8). A quarter are multiples of 8. A quarter are ragged: odd, or twice
// or four times an odd number, so that rows of bf16 begin at 2, 4 and 8 bytes.
func (d Domain) DrawColumns(r *rand.Rand) int64 {
	n := d.drawAnyColumns(r)
	switch r.IntN(4) {
	case 0:
		return d.makeRagged(r, n)
	case 1:
		return clamp((n+4)/8*8, d.NMin, d.NMax)
	}
	return clamp(roundToFourBits(n), d.NMin, d.NMax)
}

// DrawRaggedColumns draws ragged columns only, like the last quarter of DrawColumns.
func (d Domain) DrawRaggedColumns(r *rand.Rand) int64 { return d.makeRagged(r, d.drawAnyColumns(r)) }

// drawAnyColumns draws a number of columns, evenly by its logarithm, and does not round it.
func (d Domain) drawAnyColumns(r *rand.Rand) int64 {
	return drawLogUniform(r, d.NMin, min(d.NMax, d.Elems/d.MMin))
}

// makeRagged moves n to a near number that is odd, or twice or four times an odd number.
func (d Domain) makeRagged(r *rand.Rand, n int64) int64 {
	unit := max(int64(1)<<r.IntN(4)/2, 1)
	return clamp((n/unit|1)*unit, d.NMin, d.NMax)
}

// DrawRows draws a number of rows for n columns, evenly by its logarithm; half are round numbers.
func (d Domain) DrawRows(r *rand.Rand, n int64) int64 {
	most := max(min(d.MMax, d.Elems/n), d.MMin)
	m := drawLogUniform(r, d.MMin, most)
	if r.IntN(2) == 0 {
		m = clamp(roundToFourBits(m), d.MMin, most)
	}
	return m
}

// DrawShapes draws count different shapes of the domain, in the order drawn and the same for one seed.
// Every fourth is hard: odd columns, or at most 64 rows. It returns fewer where the domain is small.
func (d Domain) DrawShapes(count int, seed uint64) []Shape {
	r := rand.New(rand.NewPCG(seed, 0x6e6f726d))
	var list []Shape
	for tries := 0; len(list) < count && tries < 64*(count+1); tries++ {
		n := d.DrawColumns(r)
		m := d.DrawRows(r, n)
		if len(list)%4 == 3 {
			if few := min(64, d.MMax, d.Elems/n); r.IntN(2) == 0 && few >= d.MMin {
				m = drawLogUniform(r, d.MMin, few)
			} else {
				n = clamp(n|1, d.NMin, d.NMax)
			}
		}
		if d.Holds(m, n) {
			list = distinct(append(list, Shape{M: m, N: n}))
		}
	}
	return list
}

// drawLogUniform draws a whole number from lo to hi whose logarithm is uniform.
func drawLogUniform(r *rand.Rand, lo, hi int64) int64 {
	x := math.Exp(math.Log(float64(lo)-0.5) +
		r.Float64()*(math.Log(float64(hi)+0.5)-math.Log(float64(lo)-0.5)))
	return clamp(int64(math.Round(x)), lo, hi)
}

// roundToFourBits rounds n to a number of four significant bits, such as 9/8 of a power of two.
func roundToFourBits(n int64) int64 {
	unit := int64(1) << max(bits.Len64(uint64(n))-4, 0)
	return (n + unit/2) / unit * unit
}

func clamp(x, lo, hi int64) int64 { return min(max(x, lo), hi) }

// drawRandom draws the shapes of random:COUNT[:seed=S][:BOUNDS]; arg is the text behind "random:".
func drawRandom(arg string) ([]Shape, error) {
	const help = "write random:COUNT, with :seed=S and a domain such as :M=1:4096 behind it"
	number, rest, _ := strings.Cut(arg, ":")
	count, err := strconv.ParseUint(number, 10, 16)
	if errors.Is(err, strconv.ErrRange) {
		return nil, hint.Errorf("draw fewer", "random:%s is more than the %d shapes that are drawn",
			number, 1<<16-1)
	}
	if err != nil || count < 1 {
		return nil, hint.Errorf(help, "malformed shapes %q", "random:"+arg)
	}
	seed := uint64(1)
	if text, ok := strings.CutPrefix(rest, "seed="); ok {
		text, rest, _ = strings.Cut(text, ":")
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, hint.Errorf(help, "malformed shapes %q", "random:"+arg)
		}
	}
	d := DefaultDomain
	if rest != "" {
		// Commas part shapes, so bounds have semicolons here.
		if d, err = ParseDomain(strings.ReplaceAll(rest, ";", ",")); err != nil {
			return nil, err
		}
	}
	return d.DrawShapes(int(count), seed), nil
}
