package launchrule

import (
	"iter"
	"slices"

	"normbench/kernels"
)

// Lattice are the whole numbers in (over, most] at which to ask about a box: the ends,
// powers of two with what is just above them, and some between. What families refuse depends on the width of
// a row, on the bytes that its rows start at a multiple of, and on the rows; between neighbouring powers of two
// it does not change back and forth.
func Lattice(over, most int64) []int64 {
	at := []int64{over + 1, most}
	for p := int64(1); p <= most; p *= 2 {
		for _, v := range []int64{p, p + 1, p + p/4, p + p/2, p + p/2 + 1, p + p*3/4} {
			if over < v && v <= most {
				at = append(at, v)
			}
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// probes are problems in the box of a rule and the hull, where of all conditions its own holds: on a lattice of columns of each alignment and of rows.
func (l *List) probes(n int, d kernels.DeviceInfo) iter.Seq[*Place] {
	return func(yield func(*Place) bool) {
		r, p := &l.Rules[n], l.Problem(1, 1)
		b := &r.Box
		p.Bias = p.Bias || p.Op == kernels.LayerNorm && l.Without&biasOption == 0
		if b.DType != "" {
			p.DType, _ = kernels.ParseDType(b.DType)
			p.Weight = p.DType
		}
		bytes, sms := p.DType.Size(), int64(max(d.SMs, 1))
		nOver, nMost := max(b.NOver, b.RowOver/bytes), int64(1<<20)
		for _, most := range []int64{b.NMax, b.RowMax / bytes, l.Hull.NMax} {
			if most > 0 {
				nMost = min(nMost, most)
			}
		}
		nOver = max(nOver, l.Hull.NMin-1)
		var ns []int64
		if nOver < nMost {
			for _, n := range Lattice(nOver, nMost) {
				for _, e := range []int64{1, 2, 4, 8, 16} {
					ns = append(ns, n/e*e, (n/e|1)*e, ((n-1)/e|1)*e) // the uneven one above, and below
				}
			}
		}
		slices.Sort(ns)
		for _, n := range slices.Compact(ns) {
			if n <= nOver || n > nMost {
				continue
			}
			over, most := max(b.RowsOver, b.MOver.whole(sms)), int64(1<<31)/max(n, 1)
			over = max(over, (l.Hull.MMin-1)*sms, b.MLeast.whole(sms)-1, b.XOver.whole(d.CacheBytes)/(n*bytes)-1, b.ElemsOver/n-1, 0)
			if b.Cluster != 0 {
				over = max(over, b.WaveLeast*int64(d.ClustersAtOnce(int(b.Cluster)))-1)
			}
			for _, m := range []int64{b.RowsMax, b.MMax.whole(sms), b.MBelow.whole(sms), l.Hull.MMax * sms, l.Hull.ElemsMax / n * sms, b.XMax.whole(d.CacheBytes) / (n * bytes), b.ElemsMax / n} {
				if m > 0 {
					most = min(most, m)
				}
			}
			for _, m := range Lattice(over, max(most, over+1)) {
				for _, k := range slices.Compact([]int64{m, max(m/max(b.Multiple, 1), 1) * max(b.Multiple, 1), m/32*32 + 32}) {
					p.M, p.N = k, n
					at := At(p, d)
					at.If = func(_ Place, _ *List, x *Rule) bool { return x == r }
					if k > 0 && b.Holds(&at) && l.Hull.Holds(k, n, int(sms)) && p.Validate() == nil && !yield(&at) {
						return
					}
				}
			}
		}
	}
}

// narrowed is a problem that reaches a rule of one number of columns; never says that there is none. Between two
// neighbouring bounds of the list on rows only multiples count, so it is enough to ask for one period of them
// behind each bound.
func (l *List) narrowed(n int, d kernels.DeviceInfo) (_ *Place, never bool) {
	r, p := &l.Rules[n], l.Problem(1, 1)
	if r.NMax == 0 || r.NMax != r.NOver+1 {
		return nil, false
	}
	const most = 1 << 12
	p.N = r.NMax
	bytes, sms, period, edges := l.Bytes, int64(max(d.SMs, 1)), int64(1), []int64{0, 1 << 31}
	if bytes == 0 {
		bytes = 2
	}
	for _, o := range l.Rules[:n+1] {
		b := &o.Box
		once := int64(0)
		if b.Cluster != 0 {
			once = int64(d.ClustersAtOnce(int(b.Cluster)))
		}
		edges = append(edges, b.RowsOver, b.RowsMax, b.WaveLeast*once, b.WaveMax*once, b.ElemsOver/p.N, b.ElemsMax/p.N)
		for _, x := range []Ratio{b.MOver, b.MLeast, b.MMax, b.MBelow} {
			edges = append(edges, x.Num*sms/max(x.Den, 1))
		}
		for _, x := range []Ratio{b.XOver, b.XMax} {
			edges = append(edges, x.Num*d.CacheBytes/max(x.Den, 1)/(p.N*bytes))
		}
		for _, k := range []int64{b.Multiple, b.Odd} {
			if k > 0 && period%k != 0 {
				period *= k
			}
		}
		if period > most {
			return nil, false
		}
	}
	slices.Sort(edges)
	for _, t := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP32} {
		if t.Size() != bytes {
			continue
		}
		p.DType, p.Weight = t, t
		for _, e := range slices.Compact(edges) {
			for p.M = max(e-1, 1); p.M <= e+period+1; p.M++ {
				if p.Validate() != nil {
					continue
				}
				at := At(p, d)
				at.If = func(_ Place, _ *List, x *Rule) bool { return x == r }
				if i, _ := l.Find(&at); i == n {
					return &at, false
				}
			}
		}
	}
	return nil, true
}
