package sweep

import (
	"context"
	"errors"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// tryout is how many samples each candidate of an autotuning system gets: as
// many as Triton's autotuner takes at least.
const tryout = 5

// Fastest is what a system that times its candidates itself would settle on: the
// one with the lowest median of a few cold samples. Candidates that fail are
// passed over; where all do, the first is the answer, and measuring it will say
// why.
func Fastest(ctx context.Context, dev kernels.Device, p kernels.Problem, vs []kernels.Variant, pr record.Protocol, seed uint64) (kernels.Variant, error) {
	if len(vs) == 1 {
		return vs[0], nil
	}
	dev.Prefetch(p, vs)
	b, err := dev.Open(ctx, p, seed)
	if err != nil {
		return kernels.Variant{}, err
	}
	defer func() {
		if b != nil {
			b.Close()
		}
	}()
	best, at := 0.0, vs[0]
	for _, v := range vs {
		t, err := b.Time(ctx, v, pr.TimeOptions(tryout))
		var f *kernels.Failure
		switch {
		case errors.As(err, &f):
			if f.Broken {
				b.Close()
				if b, err = dev.Open(ctx, p, seed); err != nil {
					return kernels.Variant{}, err
				}
			}
			continue
		case err != nil:
			return kernels.Variant{}, err
		}
		if m := stats.Median(t.Seconds); best == 0 || m < best {
			best, at = m, v
		}
	}
	return at, nil
}
