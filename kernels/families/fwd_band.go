package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// fwdBand: fp8 and its transpose in one pass, bands of 64 rows and more in the registers of a
// cluster. For rows that clusters of slices of whole vectors divide.
func fwdBand(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "band"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "fp8 and its transpose in one pass: bands of rows in registers, their bytes turned through shared memory",
		Origin: "normbench",
		Files:  []string{"fwd_band.cu"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 32, 64, 128),
			kernels.Values(kernels.Warps, 8, 16, 32),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 1, 2, 3),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.CTAsPerRow, 1, 2, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 128),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.CacheHint, 2), // the lines of yt come from several bands, which meet in L2
		},
		Serves: servesBand,
		Base:   fwdBandBase,
		Refuse: refuseBand,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			cluster, ranks, k := c.Get(kernels.Cluster), bandRanks(c), c.Get(kernels.PerSM)
			meet := ranks > int64(cluster) // in global memory
			defines := common.Defines(p, c.With(set(kernels.MinBlocks, k), set(kernels.CTAsPerRow, int(ranks)/max(cluster, 1))))
			k1 := kernels.Launch{
				Stage: "k1", Source: "fwd_band.cu", Entry: "band",
				Grid:    [3]int{int(bandGroups(p, c, d) * ranks), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Shared:  int(bandShared(p, c)),
				Early:   true,
				Defines: defines,
				Args:    append(append(fwdArgs(p), kernels.Buffers("scale", "amax", "scale_inv", "yt")...), common.Optional(meet, "exchange")),
			}
			if cluster > 1 {
				k1.Cluster = cluster
			}
			zero := kernels.Launch{Stage: "zero", Source: "fwd_band.cu", Entry: "clear", Grid: [3]int{1, 1, 1}, Block: 32, Defines: defines}
			var scratch []kernels.Scratch
			var words int64
			if meet {
				rows := kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))) * int64(c.Get(kernels.BlockRows))
				words = rows * (ranks + 1) * (1 + kernels.Flag(p.Op == kernels.LayerNorm))
				scratch = []kernels.Scratch{{Name: "exchange", DType: kernels.FP32, Elems: words}}
				zero.Grid[0], zero.Block = int(min(kernels.CeilDiv(words, 4*256), int64(max(d.SMs, 1)))), 256
				k1.Resident = true
			}
			zero.Args = []kernels.Arg{kernels.Buffers("amax")[0], common.Optional(meet, "exchange"), kernels.Int64("vectors", words/4)}
			return kernels.Plan{Launches: []kernels.Launch{zero, k1}, Scratch: scratch}
		},
		Host: map[string]kernels.HostStage{"band": hostBand, "clear": hostClear},
	}
}

// servesBand: rows of yt are stored 16 bytes at a time.
func servesBand(p kernels.Problem) error {
	switch {
	case !p.FP8 || !p.Transpose:
		return fmt.Errorf("the design is for fp8 with its transpose")
	case p.Residual:
		return fmt.Errorf("a residual has no room beside the rows")
	case p.M%16 != 0 || p.N*p.DType.Size()%512 != 0 || p.N%128 != 0:
		return fmt.Errorf("bands take rows by sixteens and columns by warps: M a multiple of 16, rows one of 512 bytes and 128 elements")
	}
	return nil
}

// bandRanks is how many CTAs share a band, in a cluster or through global memory.
func bandRanks(c kernels.Config) int64 {
	return int64(max(c.Get(kernels.Cluster), 1) * max(c.Get(kernels.CTAsPerRow), 1))
}

// bandShared is the shared memory of a CTA: x and the bytes of a band, and the weights.
func bandShared(p kernels.Problem, c kernels.Config) int64 {
	slice := p.N / bandRanks(c)
	return slice * (int64(c.Get(kernels.BlockRows))*(p.DType.Size()+1) + p.Weight.Size()*(1+kernels.Flag(p.Bias)))
}

// bandStatic is what a CTA has beside it at the most: barriers, and the cluster's sums.
func bandStatic(c kernels.Config) int64 {
	return 24*int64(c.Get(kernels.Warps)) + 16*int64(c.Get(kernels.Cluster)*c.Get(kernels.BlockRows)) + 256
}

// bandGroups is how many clusters walk over the bands.
func bandGroups(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	bands, cluster := kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))), max(c.Get(kernels.Cluster), 1)
	at := int64(d.SMs)
	if cluster > 1 {
		at = int64(d.ClustersAtOnce(cluster))
	}
	if ranks := bandRanks(c); ranks > int64(cluster) {
		return min(bands, max(at*int64(c.Get(kernels.PerSM))/ranks, 1))
	}
	return min(bands, max(at, 1)*int64(max(c.Get(kernels.PerSM), 1)))
}

// fwdBandBase takes the highest bands of which a CTA has a slice of 1024 columns or less,
// with two rows to a warp or four: 32 warps would have 64 registers a thread, which fp32 spills.
// An fp32 weight and bias beside narrower rows leave registers for half such a slice.
func fwdBandBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	c := kernels.NewConfig(set(kernels.VectorBytes, 0), set(kernels.CacheHint, 2), set(kernels.PerSM, 1), set(kernels.CTAsPerRow, 1),
		set(kernels.Stages, 1+int(kernels.Flag(p.Op == kernels.RMSNorm))))
	var best kernels.Config
	for _, rows := range []int{32, 64} {
		for _, warps := range []int{8, 16} {
			for cluster := 1; cluster <= 16; cluster *= 2 {
				c := c.With(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.Cluster, cluster))
				if best.String() == "" || refuseBand(p, c, d) == nil && (rows > best.Get(kernels.BlockRows) || warps > best.Get(kernels.Warps) || refuseBand(p, best, d) != nil) {
					best = c
				}
			}
		}
	}
	if half := best.With(set(kernels.Cluster, 2*best.Get(kernels.Cluster))); p.Bias && p.Weight.Size() > p.DType.Size() && refuseBand(p, half, d) == nil {
		return half
	}
	return best
}

func refuseBand(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	rows, warps, k, cl, v := c.Get(kernels.BlockRows), c.Get(kernels.Warps), c.Get(kernels.PerSM), c.Get(kernels.Cluster), common.VectorBytes(p, c)
	switch {
	case rows != 32 && rows != 64 && rows != 128:
		return fmt.Errorf("a band has 32, 64 or 128 rows")
	case !kernels.IsPow2(warps) || warps > 32 || warps > rows:
		return fmt.Errorf("warps are a power of two up to 32, and no more than rows")
	case c.Get(kernels.Stages) < 1 || c.Get(kernels.Stages) > 2:
		return fmt.Errorf("stages are 1 or 2")
	case !kernels.IsPow2(cl) || cl > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 CTAs")
	case d.Kind == kernels.KindCUDA && !hasClusters(d):
		return fmt.Errorf("bulk copies need sm_90 or later, not %s", d.Arch)
	case k < 1 || k > 8:
		return fmt.Errorf("CTAs stay for all bands: 1 to 8 per SM")
	case v != 16:
		return fmt.Errorf("vectors have 16 bytes")
	}
	if err := refuseHint(p, c, d); err != nil {
		return err
	}
	ranks := bandRanks(c)
	switch {
	case ranks > int64(cl) && cl > 1:
		return fmt.Errorf("CTAs meet in a cluster or in global memory, not in both")
	case d.Kind == kernels.KindCUDA && ranks > int64(cl) && ranks > int64(k*d.SMs):
		return fmt.Errorf("%d CTAs fit on the device at once, fewer than share a row", k*d.SMs)
	}
	wide := ranks * max(32*v/p.DType.Size(), 128)
	if p.N%wide != 0 {
		return fmt.Errorf("%d columns are no multiple of %d, one vector for each lane of %d CTAs", p.N, wide, ranks)
	}
	slice := p.N / ranks
	words := slice * p.DType.Size() / 128 * int64(rows/warps) // of a lane
	need := bandShared(p, c) + bandStatic(c)
	switch {
	case words > 64 || words*int64(warps*32*k) > 65536/2:
		return fmt.Errorf("%d words of rows to a thread, of %d CTAs of %d threads, leave no registers", words, k, warps*32)
	case warps*32*k > 2048:
		return fmt.Errorf("%d CTAs of %d threads are more than an SM runs", k, warps*32)
	case d.SharedPerBlock > 0 && (need > int64(d.SharedPerBlock) || int64(k)*(need+1024) > int64(d.SharedPerBlock)+1024):
		return fmt.Errorf("%d CTAs with %d bytes of bands do not fit in an SM's shared memory", k, need)
	}
	return nil
}

func hostClear(h *kernels.HostRun, pid int) {
	if pid == 0 {
		h.Mem["amax"].Set(0, 0)
	}
}

func hostBand(h *kernels.HostRun, pid int) {
	hostForwards(h, pid, int(h.Launch.Define("CLUSTER")*h.Launch.Define("CTAS_PER_ROW")), true)
}
