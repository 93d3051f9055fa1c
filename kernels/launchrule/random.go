package launchrule

import (
	"math/rand/v2"

	"normbench/kernels"
)

// Random draws problems of the classes of a set and of others, by a seed: inside
// hulls, outside, at the borders of rules, with rows of every alignment.
func (s *Set) Random(seed uint64, n int) []kernels.Problem {
	r := rand.New(rand.NewPCG(seed, 2))
	ps := make([]kernels.Problem, 0, n)
	for len(ps) < n {
		l := &s.Lists[r.IntN(len(s.Lists))]
		p := l.Problem(1, 1)
		p.DType = []kernels.DType{kernels.BF16, kernels.BF16, kernels.FP16, kernels.FP32}[r.IntN(4)]
		p.Weight = p.DType
		if r.IntN(10) == 0 || l.Without&biasOption == 0 && r.IntN(2) == 0 {
			p.Bias = !p.Bias
		}
		side := func(bits int) int64 {
			b := r.IntN(bits)
			v := int64(1)<<b + int64(r.Uint64N(1<<b))
			switch r.IntN(4) {
			case 0:
				v = 1 << b
			case 1:
				v = v/16*16 + 16
			}
			return v
		}
		p.M, p.N = side(21), side(18)
		if len(l.Rules) > 0 && r.IntN(2) == 0 {
			b := &l.Rules[r.IntN(len(l.Rules))].Box
			near := func(vs ...int64) (int64, bool) {
				v := vs[r.IntN(len(vs))]
				return max(v+int64(r.IntN(3))-1, 1), v > 0
			}
			bytes := p.DType.Size()
			if v, ok := near(b.NOver, b.NMax, b.RowOver/bytes, b.RowMax/bytes); ok {
				p.N = v
			}
			sms, l2 := int64(max(s.Device.SMs, 1)), s.Device.CacheBytes
			if v, ok := near(b.RowsOver, b.RowsMax, b.MOver.whole(sms), b.MLeast.whole(sms), b.MMax.whole(sms), b.MBelow.whole(sms), b.XOver.whole(l2)/p.N/bytes, b.XMax.whole(l2)/p.N/bytes); ok {
				p.M = v
			}
			if k := b.Multiple; k > 0 && r.IntN(2) == 0 {
				p.M = max(p.M/k, 1) * k
			}
		}
		if p.Validate() == nil {
			ps = append(ps, p)
		}
	}
	return ps
}
