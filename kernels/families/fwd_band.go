package families

import (
	"fmt"

	"normbench/kernels"
)

// fwdBand: fp8 and its transpose in one pass, bands of 64 rows and more in the registers of a
// cluster. For rows that clusters of slices of whole vectors divide; tile takes the others.
func fwdBand(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Fwd, "band"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "fp8 and its transpose in one pass: bands of rows in registers, their bytes turned through shared memory",
		Origin: "normbench",
		Files:  []string{"fwd_band.go", "fwd_band.cu", "fwd_tile.go", "bwd_pipe.go", "hoststage.go", "hostfwd.go", "common.go", "common.cuh", "pipe.cuh", "bytes.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 32, 64, 128),
			kernels.Values(kernels.Warps, 8, 16, 32),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 1, 2, 3),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.CacheHint, 2), // the lines of yt come from several bands, which meet in L2
		},
		Serves: servesBand,
		Base:   fwdBandBase,
		Refuse: refuseBand,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			cluster, k := c.Get(kernels.Cluster), c.Get(kernels.PerSM)
			defines := rowDefines(p, c.With(set(kernels.MinBlocks, k)), kernels.Define{Name: "CTAS_PER_ROW", Value: 1})
			k1 := kernels.Launch{
				Stage: "k1", Source: "fwd_band.cu", Entry: "band",
				Grid:    [3]int{int(bandGroups(p, c, d)) * cluster, 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Shared:  int(bandShared(p, c)),
				Early:   true,
				Defines: defines,
				Args:    append(fwdArgs(p), kernels.Buffers("scale", "amax", "scale_inv", "yt")...),
			}
			if cluster > 1 {
				k1.Cluster = cluster
			}
			zero := kernels.Launch{Stage: "zero", Source: "fwd_band.cu", Entry: "clear", Grid: [3]int{1, 1, 1}, Block: 32,
				Defines: defines, Args: kernels.Buffers("amax")}
			return kernels.Plan{Launches: []kernels.Launch{zero, k1}}
		},
		Host: map[string]kernels.HostStage{"band": hostTile, "clear": hostClear},
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

// bandShared is the shared memory of a program: x and the bytes of a band, and the weights.
func bandShared(p kernels.Problem, c kernels.Config) int64 {
	slice := p.N / int64(c.Get(kernels.Cluster))
	return slice * (int64(c.Get(kernels.BlockRows))*(p.DType.Size()+1) + p.Weight.Size()*(1+flag(p.Bias)))
}

// bandStatic is what a program has beside it at the most: barriers, and the cluster's sums.
func bandStatic(c kernels.Config) int64 {
	return 24*int64(c.Get(kernels.Warps)) + 16*int64(c.Get(kernels.Cluster)*c.Get(kernels.BlockRows)) + 256
}

// bandGroups is how many clusters walk over the bands.
func bandGroups(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	bands, cluster := ceilDiv(p.M, int64(c.Get(kernels.BlockRows))), c.Get(kernels.Cluster)
	at := int64(d.Units)
	if cluster > 1 {
		at = int64(d.ClustersAtOnce(cluster))
	}
	return min(bands, max(at, 1)*int64(max(c.Get(kernels.PerSM), 1)))
}

// fwdBandBase takes the highest bands of which a program has a slice of 1024 columns or less,
// with two rows to a warp.
func fwdBandBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	c := kernels.NewConfig(set(kernels.VectorBytes, 0), set(kernels.CacheHint, 2), set(kernels.PerSM, 1), set(kernels.Stages, 1+int(flag(p.Op == kernels.RMSNorm))))
	var best kernels.Config
	for _, rows := range []int{32, 64} {
		for _, warps := range []int{8, 16, 32} {
			for cluster := 1; cluster <= 16; cluster *= 2 {
				c := c.With(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.Cluster, cluster))
				if best.String() == "" || refuseBand(p, c, d) == nil && (rows > best.Get(kernels.BlockRows) || warps > best.Get(kernels.Warps) || refuseBand(p, best, d) != nil) {
					best = c
				}
			}
		}
	}
	return best
}

func refuseBand(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	rows, warps, k, cl, v := c.Get(kernels.BlockRows), c.Get(kernels.Warps), c.Get(kernels.PerSM), c.Get(kernels.Cluster), vectorBytes(p, c)
	switch {
	case rows != 32 && rows != 64 && rows != 128:
		return fmt.Errorf("a band has 32, 64 or 128 rows")
	case !isPow2(warps) || warps > 32 || warps > rows:
		return fmt.Errorf("warps are a power of two up to 32, and no more than rows")
	case c.Get(kernels.Stages) < 1 || c.Get(kernels.Stages) > 2:
		return fmt.Errorf("stages are 1 or 2")
	case !isPow2(cl) || cl > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 programs")
	case d.Kind == kernels.KindCUDA && !hasClusters(d):
		return fmt.Errorf("bulk copies need sm_90 or later, not %s", d.Arch)
	case k < 1 || k > 8:
		return fmt.Errorf("programs stay for all bands: 1 to 8 per multiprocessor")
	case v != 16:
		return fmt.Errorf("vectors have 16 bytes")
	}
	if err := refuseHint(p, c, d); err != nil {
		return err
	}
	wide := int64(cl) * max(32*v/p.DType.Size(), 128)
	if p.N%wide != 0 {
		return fmt.Errorf("%d columns are no multiple of %d, one vector for each lane of %d programs", p.N, wide, cl)
	}
	slice := p.N / int64(cl)
	words := slice * p.DType.Size() / 128 * int64(rows/warps) // of a lane
	need := bandShared(p, c) + bandStatic(c)
	switch {
	case words > 64 || words*int64(warps*32*k) > 65536/2:
		return fmt.Errorf("%d words of rows to a thread, of %d programs of %d threads, leave no registers", words, k, warps*32)
	case warps*32*k > 2048:
		return fmt.Errorf("%d programs of %d threads are more than a multiprocessor runs", k, warps*32)
	case d.SharedPerBlock > 0 && (need > int64(d.SharedPerBlock) || int64(k)*(need+1024) > int64(d.SharedPerBlock)+1024):
		return fmt.Errorf("%d programs with %d bytes of bands do not fit in a multiprocessor's shared memory", k, need)
	}
	return nil
}
