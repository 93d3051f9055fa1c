package kernels

import "fmt"

// Inputs say which input tensors of a problem are drawn. Every device draws the same bits for them.
type Inputs struct {
	Seed uint64 `json:"seed"`
	Draw Draw   `json:"draw,omitempty"`
	// From is the row of the draw that is the problem's first: row r of a problem is row 0 of one From r.
	// A draw whose rows depend on their number alone gives both the same bits.
	From int64 `json:"from,omitempty"`
}

func (in Inputs) String() string { return fmt.Sprintf("%s, seed %d", in.Draw.About(), in.Seed) }

// InputsVersion counts the ways in which DrawUnit was ever drawn. Before version 2 all of its rows were
// of unit scale. It is part of a protocol: what was checked on other inputs is checked again.
const InputsVersion = 2

// A Draw says how rows of the inputs are drawn; package reference has the numbers.
type Draw string

// The draws. Only DrawUnit is ever timed.
const (
	DrawUnit      Draw = ""          // rows of unit scale, among them at most eight of zeros, tiny and large numbers
	DrawPlain     Draw = "plain"     // rows of unit scale, which depend on their number alone: to compare bits
	DrawMean      Draw = "mean"      // rows of sigma 1 around a mean of 37 to 100
	DrawZeros     Draw = "zeros"     // rows of zeros
	DrawTiny      Draw = "tiny"      // rows whose squares are far below eps
	DrawLarge     Draw = "large"     // rows whose squares leave fp16
	DrawExtreme   Draw = "extreme"   // an eighth of the rows each of zeros, huge, tiny and vanishing numbers
	DrawNonFinite Draw = "nonfinite" // an eighth of the rows each with an infinity in x, a NaN in x, an infinity in dy
)

// About describes the rows of a draw in words.
func (d Draw) About() string {
	switch d {
	case DrawUnit:
		return "unit rows"
	case DrawPlain:
		return "plain rows"
	case DrawMean:
		return "rows with a mean"
	case DrawZeros:
		return "rows of zeros"
	case DrawTiny, DrawLarge:
		return string(d) + " rows"
	case DrawExtreme:
		return "rows of extreme scale"
	case DrawNonFinite:
		return "rows with infinities and NaN"
	}
	return fmt.Sprintf("unknown draw %q", string(d))
}

// CheckDraws lists the draws on which a variant of p is checked: DrawUnit first, which is timed too,
// then rows with a mean. Where p has too few rows for special ones among its unit rows, draws of those
// follow. hostile adds extreme and non-finite rows.
func CheckDraws(p Problem, hostile bool) []Draw {
	draws := []Draw{DrawUnit, DrawMean}
	if SpecialRows(p.M) < specialKinds {
		// The gradient of a row of zeros may be g/eps, beyond fp16, but where eps is added to squares.
		if !(p.Op.Spec().Statistics() != 0 && p.Pass == Bwd) {
			draws = append(draws, DrawZeros)
		}
		draws = append(draws, DrawTiny, DrawLarge)
	}
	if hostile {
		draws = append(draws, DrawExtreme, DrawNonFinite)
	}
	return draws
}

// specialKinds counts the kinds of special rows: zeros, tiny and large numbers.
const specialKinds = 3

// SpecialRows computes how many of m unit rows are special: at most eight, so that the time of a kernel
// stays that of unit rows, and at most every second one.
func SpecialRows(m int64) int64 {
	n := min(m/2, 8)
	if n < specialKinds {
		return 0
	}
	return n
}
