package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// fwdOneShot: a tile of rows for each CTA, or a row for each cluster, everything asked
// for at once; rows of a thread share its weights. The design of Inductor's persistent
// reductions, whose XBLOCK is UNROLL here, with clusters for a few wide rows.
func fwdOneShot(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "one_shot"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "a tile of rows per CTA, or a row per cluster, read at once; a thread's rows share its weights",
		Origin: "PyTorch Inductor, persistent reductions (XBLOCK)",
		Files:  []string{"fwd_one_shot.cu"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8, 16),
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0, 16),
			kernels.Values(kernels.Unroll, 1, 2, 4),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0, 2, 6),
		},
		Serves: servesNoFP8,
		Base:   fwdOneShotBase,
		Refuse: refuseOneShot,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			ctas := oneShotCTAs(p, c)
			k1 := kernels.Launch{
				Stage: "k1", Source: "fwd_one_shot.cu", Entry: "one_shot",
				Grid:  [3]int{int(ctas) * c.Get(kernels.Cluster), 1, 1},
				Block: c.Get(kernels.Warps) * 32,
				Defines: common.Defines(p, c, kernels.Define{Name: "RAGGED", Value: kernels.Flag(raggedVectors(p, c))},
					kernels.Define{Name: "WHOLE_TILES", Value: kernels.Flag(ctas*int64(c.Get(kernels.BlockRows)) == p.M)}),
				Args: fwdArgs(p),
			}
			if cl := c.Get(kernels.Cluster); cl > 1 {
				k1.Cluster = cl
			}
			return kernels.Plan{Launches: []kernels.Launch{k1}}
		},
		Host: map[string]kernels.HostStage{"one_shot": hostSmemPipe},
	}
}

// oneShotPrograms is how many CTAs, or clusters, have all rows. A thread's rows are as
// many apart as it takes until rows start alike in their vectors.
func oneShotCTAs(p kernels.Problem, c kernels.Config) int64 {
	rows, unroll, phases := int64(c.Get(kernels.BlockRows)), int64(c.Get(kernels.Unroll)), int64(1)
	if raggedVectors(p, c) {
		phases = startsAlike(p, c.With(set(kernels.BlockRows, 1)))
	}
	groups := kernels.CeilDiv(p.M, phases*unroll) * phases
	return kernels.CeilDiv(groups, rows/unroll)
}

// oneShotElems is the most elements that a thread holds of its rows, fp32 and beside their
// weights: compiles for sm_90 of 32 take up to 80 registers, of 64 up to 168.
const oneShotElems = 64

// fwdOneShotBase is Inductor's rule: a warp for 1024 columns and for up to four shorter rows,
// more warps where a thread would have more than 32 elements. Rows fewer than SMs
// are for clusters of as many CTAs as there is room for.
func fwdOneShotBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	c := kernels.NewConfig(set(kernels.VectorBytes, 0), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
	vecs, vec := common.Vectors(p, c)
	cluster := 1
	for hasClusters(d) && cluster < 8 && int64(cluster)*p.M*2 <= int64(d.SMs) && vecs >= int64(cluster)*2*256 {
		cluster *= 2
	}
	elems := int64(32) / rowTensors(p)
	threads := int64(32)
	for threads < 1024 && kernels.CeilDiv(kernels.CeilDiv(vecs, int64(cluster)), threads)*vec > elems {
		threads *= 2
	}
	rows := int64(1)
	for rows < 4 && threads == 32 && cluster == 1 && 2*rows*kernels.CeilDiv(vecs, threads)*vec <= elems && rows < p.M {
		rows *= 2
	}
	if cluster > 1 { // latency is all there is: as many threads as there are vectors
		threads = min(kernels.CeilPow2(kernels.CeilDiv(vecs, int64(4*cluster))), 512)
	}
	return c.With(set(kernels.BlockRows, int(rows)), set(kernels.Warps, int(threads/32)), set(kernels.Unroll, int(rows)), set(kernels.Cluster, cluster))
}

func refuseOneShot(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, plainVectors(p, c), d); err != nil {
		return err
	}
	rows, unroll, threads, cl := c.Get(kernels.BlockRows), c.Get(kernels.Unroll), c.Get(kernels.Warps)*32, c.Get(kernels.Cluster)
	vecs, vec := rowVectors(p, c)
	switch {
	case !kernels.IsPow2(unroll) || unroll > rows:
		return fmt.Errorf("unroll (rows per thread) must be a power of two, at most the block rows")
	case threads*unroll < rows:
		return fmt.Errorf("fewer threads than rows in a CTA")
	case !kernels.IsPow2(cl) || cl > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 CTAs")
	case cl > 1 && !hasClusters(d):
		return fmt.Errorf("%s has no clusters", d.Arch)
	case cl > 1 && rows > 1:
		return fmt.Errorf("a cluster works on one row: block rows must be 1")
	case int64(cl)*oneShotCTAs(p, c) > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	}
	slice, group := kernels.CeilDiv(vecs, int64(cl)), int64(threads*unroll/rows)
	switch each := kernels.CeilDiv(slice, group); {
	case slice*int64(cl-1) >= vecs-kernels.Flag(cl > 1 && raggedVectors(p, c)): // some ragged rows have one vector less
		return fmt.Errorf("the %d vectors of a row leave one of %d CTAs without any", vecs, cl)
	case group > max(kernels.CeilPow2(slice), 8):
		return fmt.Errorf("%d threads for %d vectors of a row leave half of them idle", group, slice)
	case each*vec*int64(unroll)*rowTensors(p) > oneShotElems || each > 32:
		return fmt.Errorf("a thread's registers do not hold %d vectors of %d elements of each of %d rows", each, vec, unroll)
	}
	return refuseBounds(c)
}
