package sweep

import (
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// HashCode identifies the code that a variant with a complete config runs for p on d. A peer has no plan
// of ours, so its source alone identifies it. It fails for an unknown family, or a source file that
// cannot be read.
func HashCode(r *kernels.Registry, id *families.Identity, p kernels.Problem, v kernels.Variant,
	d kernels.DeviceInfo) (c record.CodeHash, err error) {
	f, err := r.Lookup(v.Family)
	if err != nil {
		return c, err
	}
	if c.Source, err = id.Source(f); err != nil {
		return c, err
	}
	if f.CheckServes(p) != nil || f.Refuse(p, v.Config, d) != nil {
		return c, nil // it never runs
	}
	c.Launch = families.Launches(f.Plan(p, v.Config, d))
	return c, nil
}
