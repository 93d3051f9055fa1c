package families_test

import (
	"context"
	"testing"

	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/families"
)

// corners are the shapes and options where indexing goes wrong: one row, one
// column, odd and prime columns, more tiles than programs and fewer.
func corners() []kernels.Problem {
	var ps []kernels.Problem
	for _, s := range [][2]int64{{1, 1}, {1, 8192}, {3, 1}, {5, 7}, {33, 541}, {64, 256}, {130, 96}, {17, 4100}} {
		for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
			for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
				ps = append(ps, kernels.Problem{Op: op, Pass: pass, M: s[0], N: s[1], DType: kernels.BF16, Weight: kernels.BF16, Bias: op == kernels.LayerNorm})
			}
		}
	}
	for _, d := range kernels.DTypes() {
		for _, w := range []kernels.DType{d, kernels.FP32} {
			for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
				for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
					ps = append(ps, kernels.Problem{Op: op, Pass: pass, M: 19, N: 130, DType: d, Weight: w, ZeroCentered: true, Bias: w == kernels.FP32})
				}
			}
		}
	}
	return ps
}

// Every config of every family answers right, twice with the same bits.
func TestHostStages(t *testing.T) {
	r := families.New()
	dev := cpu.New(r)
	ctx := context.Background()
	for _, p := range corners() {
		b, err := dev.Open(ctx, p, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Families {
			if f.CheckServes(p) != nil || f.Hidden && !f.Stream { // the ruler's families write nothing
				continue
			}
			s := f.Space(p, dev.Info())
			if len(s.Configs) == 0 {
				t.Logf("%s has no config for %s", f.Name, p)
			}
			for _, c := range s.Configs {
				got, err := b.Check(ctx, kernels.Variant{Family: f.Name, Config: c}, 2)
				if err != nil {
					t.Fatalf("%s@%s on %s: %v", f.Name, c, p, err)
				}
				if !got.OK() || got.Differing != 0 {
					t.Errorf("%s@%s on %s: %s; %d elements differ between runs", f.Name, c, p, got.Reason(), got.Differing)
				}
			}
		}
	}
}
