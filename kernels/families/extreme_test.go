package families_test

import (
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
)

// A config that a user writes may have any number: it is refused or planned, and divides
// nothing by zero.
func TestExtremeConfigs(t *testing.T) {
	r := families.New()
	planned, refused := 0, 0
	try := func(f *kernels.Family, p kernels.Problem, c kernels.Config) {
		defer func() {
			e := recover()
			assert.That(t, e == nil, "%s@%s for %s: %v", f.Name, c, p, e)
		}()
		if f.Refuse(p, c, h200) != nil {
			refused++
			return
		}
		f.Plan(p, c, h200)
		planned++
	}
	eachOpPass(func(op kernels.Op, pass kernels.Pass) {
		for _, n := range []int64{64, 4095} {
			p := kernels.Problem{Op: op, Pass: pass, M: 4096, N: n, DType: kernels.BF16,
				Weight: kernels.BF16}
			for _, f := range r.Families {
				if f.CheckServes(p) != nil {
					continue
				}
				for _, s := range f.Base(p, h200).Settings() {
					for _, v := range []int{0, 1, 3, 16, 1 << 20} {
						try(f, p, f.Base(p, h200).With(kernels.Setting{Knob: s.Knob, Value: v}))
					}
				}
			}
		}
	})
	assert.That(t, planned >= 100 && refused >= 100,
		"%d configs planned, %d refused", planned, refused)
}
