package lab

import (
	"cmp"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/replay"
	"normbench/sweep/shapes"
	"normbench/sweep/verify"
	"normbench/tune/ref"
)

// A VerifyTask says what to verify, on a device that is open.
type VerifyTask struct {
	Config   *OpenOptions
	Device   kernels.Device
	Problems []kernels.Problem
	Refs     []*ref.Ref // none stands for every family in its base config
	All      bool       // every config of the families that Refs are, or of all
	HostOnly bool       // on a cpu: no CUDA code in the emulator
	Seed     uint64
	Hostile  bool // add draws of extreme and of non-finite rows
	Repeats  int
	Typed    []shapes.Shape // those of Problems that were asked for one by one
}

// Verify runs the checks. What was found before an error stands beside it.
func (l *Lab) Verify(c *VerifyTask) (*verify.Verification, error) {
	if _, replayed := c.Device.(*replay.Device); replayed {
		return &verify.Verification{}, hint.Errorf("use --device cpu or --device cuda",
			"verify runs kernels, and %s has recorded times only", cmp.Or(c.Config.Device, "auto"))
	}
	return verify.Run(l.Ctx, l.Console, &verify.CheckRequest{Registry: l.Registry, Users: l.UserFamilies, Folder: l.Kernels,
		Device: c.Device, Problems: c.Problems, Operands: l.operands(c.Refs), All: c.All, HostOnly: c.HostOnly,
		Seed: c.Seed, Hostile: c.Hostile, Repeats: c.Repeats, Typed: c.Typed, Limit: c.Config.Timeout,
		Helper: Helper(), Python: l.loader.Python,
		Prepare: func() error { return l.PreparePeers(c.Config, c.Device, c.Refs, c.Problems) }})
}
