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

// A Domain is a part of all shapes. Bounds are included.
type Domain struct {
	MMin, MMax, NMin, NMax int64
	Elems                  int64 // most of M times N
}

// Everything is the domain that launch rules are for unless asked otherwise.
var Everything = Domain{MMin: 1, MMax: 1 << 20, NMin: 64, NMax: 1 << 16, Elems: 1 << 28}

const domainHelp = "write bounds such as M=1:1Mi,N=64:64Ki,MN=256Mi; what is left out is as in that"

// ParseDomain reads bounds on rows, columns and elements, M=1:1Mi,N=64:64Ki,MN=256Mi. One
// number in place of two is both. What is not given is Everything's.
func ParseDomain(s string) (Domain, error) {
	d := Everything
	for item := range strings.SplitSeq(s, ",") {
		if !d.set(strings.TrimSpace(item)) {
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

// set reads one of the bounds.
func (d *Domain) set(item string) bool {
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

// Holds says whether a shape is in the domain.
func (d Domain) Holds(m, n int64) bool {
	return d.MMin <= m && m <= d.MMax && d.NMin <= n && n <= d.NMax && m*n <= d.Elems
}

// Columns draws columns, their logarithm evenly: half are numbers that models have (a power of two
// times 1, 9/8 to 15/8), a quarter multiples of 8, and a quarter any: half of those are odd, the
// others twice or four times an odd number, so that rows of bf16 begin at 2, 4 and 8 bytes.
func (d Domain) Columns(r *rand.Rand) int64 {
	n := d.columns(r)
	switch r.IntN(4) {
	case 0:
		return d.raggedSize(r, n)
	case 1:
		return clamp((n+4)/8*8, d.NMin, d.NMax)
	}
	return clamp(eighths(n), d.NMin, d.NMax)
}

// RaggedColumns draws columns like the last quarter of Columns.
func (d Domain) RaggedColumns(r *rand.Rand) int64 { return d.raggedSize(r, d.columns(r)) }

func (d Domain) columns(r *rand.Rand) int64 {
	return drawLogUniform(r, d.NMin, min(d.NMax, d.Elems/d.MMin))
}

func (d Domain) raggedSize(r *rand.Rand, n int64) int64 {
	unit := max(int64(1)<<r.IntN(4)/2, 1)
	return clamp((n/unit|1)*unit, d.NMin, d.NMax)
}

// Rows draws rows for n columns, their logarithm evenly; half are round numbers.
func (d Domain) Rows(r *rand.Rand, n int64) int64 {
	most := max(min(d.MMax, d.Elems/n), d.MMin)
	m := drawLogUniform(r, d.MMin, most)
	if r.IntN(2) == 0 {
		m = clamp(eighths(m), d.MMin, most)
	}
	return m
}

// Draw is so many different shapes of the domain, the same for one seed, in the order drawn.
// Every fourth is hard: odd columns, or at most 64 rows. A small domain may hold fewer.
func (d Domain) Draw(count int, seed uint64) []Shape {
	r := rand.New(rand.NewPCG(seed, 0x6e6f726d))
	var list []Shape
	for tries := 0; len(list) < count && tries < 64*(count+1); tries++ {
		n := d.Columns(r)
		m := d.Rows(r, n)
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

// drawLogUniform draws a whole number whose logarithm is even.
func drawLogUniform(r *rand.Rand, lo, hi int64) int64 {
	x := math.Exp(math.Log(float64(lo)-0.5) +
		r.Float64()*(math.Log(float64(hi)+0.5)-math.Log(float64(lo)-0.5)))
	return clamp(int64(math.Round(x)), lo, hi)
}

// eighths is n with its four highest bits only.
func eighths(n int64) int64 {
	unit := int64(1) << max(bits.Len64(uint64(n))-4, 0)
	return (n + unit/2) / unit * unit
}

func clamp(x, lo, hi int64) int64 { return min(max(x, lo), hi) }

// random reads the rest of random:COUNT[:seed=S][:BOUNDS].
func random(arg string) ([]Shape, error) {
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
	d := Everything
	if rest != "" {
		// Commas part shapes, so bounds have semicolons here.
		if d, err = ParseDomain(strings.ReplaceAll(rest, ";", ",")); err != nil {
			return nil, err
		}
	}
	return d.Draw(int(count), seed), nil
}
