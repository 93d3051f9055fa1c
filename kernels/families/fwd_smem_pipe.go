package families

import (
	"fmt"
	"strconv"
	"strings"

	"normbench/kernels"
	"normbench/kernels/common"
)

// fwdSmemPipe: rows come to shared memory by asynchronous copies; wide ones are
// spread over clusters. The design of quack's forward.
func fwdSmemPipe(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "smem_pipe"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "rows copied asynchronously to shared memory; wide rows over clusters",
		Origin: "quack (Dao-AILab), quack/rmsnorm.py",
		Files:  []string{"fwd_smem_pipe.cu"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8),
			kernels.Values(kernels.Warps, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0, 16),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 0, 1, 2, 8),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.CopyPath, 1, 2),
			kernels.Values(kernels.Reload, 0, 1, 2),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0, 2, 6),
		},
		Serves:  servesNoFP8,
		Base:    pastL2(fwdSmemPipeBase),
		Refuse:  refuseFwdSmemPipe,
		Fragile: illegalCopies,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			ctas, tiles := clusterGrid(p, c, d)
			k1 := kernels.Launch{
				Stage: "k1", Source: "fwd_smem_pipe.cu", Entry: "smem_pipe",
				Grid:   [3]int{int(ctas) * c.Get(kernels.Cluster), 1, 1},
				Block:  c.Get(kernels.Warps) * 32,
				Shared: int(slotBytes(p, c)) * c.Get(kernels.Stages),
				Defines: common.Defines(p, c, kernels.Define{Name: "PERSISTENT", Value: kernels.Flag(ctas < tiles)},
					kernels.Define{Name: "RAGGED", Value: kernels.Flag(common.RaggedVectors(p, c))},
					kernels.Define{Name: "SHIFTS", Value: kernels.Flag(ctas < tiles && shifts(p, c, ctas))}),
				Args: fwdArgs(p),
			}
			if cl := c.Get(kernels.Cluster); cl > 1 {
				k1.Cluster = cl
			}
			return kernels.Plan{Launches: []kernels.Launch{k1}}
		},
		Host: map[string]kernels.HostStage{"smem_pipe": hostSmemPipe},
	}
}

// fwdSmemPipeBase gives each thread 64 bytes of a row, at least a warp and at most 256
// threads; 128 threads a CTA, 256 where a row has half of them. Beyond 16 KiB two
// persistent CTAs share an SM. On an H200 (bf16, default group) that is
// within 3.5% of the best in the mean of layernorm's rows from 2 to 64 KiB, and 2% of
// rmsnorm's from 2 to 8.
//
// If that does not fit (rows that allow only narrow vectors, a residual beside wide
// rows), the kernel reads rows again from shared memory. If that is not enough, a row
// gets more threads, then more CTAs.
func fwdSmemPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	row, most := p.N*p.DType.Size(), 16
	if !hasClusters(d) {
		most = 1
	}
	k := 0
	if row > 16<<10 {
		k = 2
	}
	var first kernels.Config
	for cl := 1; cl <= most; cl *= 2 {
		for perRow := min(max(threadsFor(p, 64*int64(cl)), 32), 256); perRow <= 1024; perRow *= 2 {
			for rl := 0; rl <= 1; rl++ {
				rows, warps := block(perRow, 128*(1+kernels.Flag(perRow >= 128)))
				c := kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
					set(kernels.Stages, 1), set(kernels.PerSM, k), set(kernels.CTAs, 0), set(kernels.RowOrder, 0), set(kernels.CopyPath, 1),
					set(kernels.Reload, rl), set(kernels.Cluster, cl), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
				if refuseFwdSmemPipe(p, c, d) == nil {
					return c
				}
				if first.String() == "" {
					first = c
				}
			}
		}
	}
	return first
}

// pastL2 is a base that leaves the streaming hint out of the stores of a y larger than the L2. With
// the hint y leaves it while x is still read; without, the last of it stays. On an H200 (bf16,
// default group, the same configs with and without) that is 1.7% faster at 67 MB, 2% at 100, 1%
// from 134 on, and 0 to 1% slower up to 34 MB. From 134 MB on x should be the last to leave
// (minKept), which is another 2 to 4%; but for asynchronous copies of rows that are no power of
// two, or of clusters, of which NVRTC makes illegal instructions (nvrtc.checkCopies): with the hint
// 5557x11776 ended by one in both ops. Whole rows of 513 to 5120 columns take bulk copies for it:
// 158 us, not 163, at 73784x2304 in both ops.
func pastL2(base func(kernels.Problem, kernels.DeviceInfo) kernels.Config) func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
	return func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
		c, row := base(p, d), p.N*p.DType.Size()
		switch {
		case d.Kind != kernels.KindCUDA || !hasClusters(d) || p.DType.Size() != 2 || p.Residual || p.FP8 || p.M*row <= d.CacheBytes:
			return c
		case keepsX(p, d) && (c.Get(kernels.CopyPath) != 1 || c.Get(kernels.Cluster) == 1 && kernels.IsPow2(int(p.N))):
			return c.With(set(kernels.CacheHint, 6))
		case keepsX(p, d) && c.Get(kernels.Cluster) == 1 && row%16 == 0 && row > 1<<10 && row <= 10<<10:
			return c.With(set(kernels.CopyPath, 2), set(kernels.CacheHint, 6))
		}
		return c.With(set(kernels.CacheHint, 2))
	}
}

func refuseFwdSmemPipe(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, plainVectors(p, c), d); err != nil {
		return err
	}
	if err := refuseSlices(p, c, d); err != nil {
		return err
	}
	if err := refusePerThread(p, c); err != nil {
		return err
	}
	if err := refuseTiles(p, c, d); err != nil {
		return err
	}
	if err := refuseWaste(p, c, d); err != nil {
		return err
	}
	return refuseSlots(p, c, d)
}

// illegalCopies says that NVRTC 13.0 may make an instruction that sm_90 refuses of asynchronous
// copies under a cache policy: at 39239x5120 of layernorm and 5557x11776 of rmsnorm, not at others
// (nvrtc.checkCopies).
func illegalCopies(c kernels.Config) bool {
	return c.Get(kernels.CopyPath) == 1 && c.Get(kernels.CacheHint)&5 != 0
}

// refuseSlices holds what copies and clusters need: a device that has them, and
// a vector for each thread of each CTA of a row. quack caps its clusters for
// the same reason (_cap_cluster_n).
func refuseSlices(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	cl, cp := c.Get(kernels.Cluster), c.Get(kernels.CopyPath)
	vecs, _ := rowVectors(p, c)
	slice, threads := sliceVectors(p, c), int64(c.Get(kernels.Warps)*32/c.Get(kernels.BlockRows))
	switch {
	case !kernels.IsPow2(cl) || cl > 16:
		return fmt.Errorf("clusters are 1, 2, 4, 8 or 16 CTAs")
	case cl > 1 && !hasClusters(d):
		return fmt.Errorf("clusters need sm_90 or later")
	case cp != 1 && cp != 2:
		return fmt.Errorf("copy paths are 1 and 2")
	case cp == 2 && !hasClusters(d):
		return fmt.Errorf("bulk copies need sm_90 or later")
	case cp == 2 && p.N*p.DType.Size()%16 != 0:
		return fmt.Errorf("bulk copies need rows of whole 16 bytes")
	case threads < 1:
		return fmt.Errorf("fewer threads than rows in a CTA")
	case cl > 1 && (int64(cl)*threads > vecs || slice*int64(cl-1) >= vecs):
		return fmt.Errorf("a cluster of %d CTAs with %d threads per row has no vector for each", cl, threads)
	case threads > max(kernels.CeilPow2(slice), 8):
		return fmt.Errorf("%d threads for the %d vectors of a row leave half of them idle", threads, slice)
	}
	return nil
}

// minReload is the fewest elements of a row per thread that are worth reading
// again: as fp32 they take 32 registers. quack's rule never reloads fewer.
const minReload = 32

// refusePerThread bounds what a thread has of a row: in registers, where nothing
// is read again, or as copies that it has to begin.
func refusePerThread(p kernels.Problem, c kernels.Config) error {
	_, vec := rowVectors(p, c)
	slice, warps := sliceVectors(p, c), c.Get(kernels.Warps)
	each := kernels.CeilDiv(slice, int64(warps*32/c.Get(kernels.BlockRows)))
	words := each * max(vec*p.DType.Size()/4, 1) * (1 + kernels.Flag(p.Residual))
	lb := c.Get(kernels.MinBlocks)
	// Up to 32 registers for the weights (EARLY), and about 40 for the rest.
	limit := min(255, 65536/int64(warps*32*max(lb, 1))) - 40
	switch rl := c.Get(kernels.Reload); {
	case rl < 0 || rl > 2:
		return fmt.Errorf("reload is 0, 1 or 2")
	case lb*warps*32 > 2048:
		return fmt.Errorf("%d CTAs of %d threads do not fit on an SM", lb, warps*32)
	case limit < 0:
		return fmt.Errorf("launch bounds leave %d registers per thread", limit+40)
	case rl == 0 && (each > 32 || words > min(64, limit)):
		return fmt.Errorf("%d vectors of %d elements per thread do not fit in its registers", each, vec)
	case rl > 0 && each*vec < minReload:
		return fmt.Errorf("a thread has only %d elements of a row: too few to read them again", each*vec)
	case rl > 0 && each > 512:
		return fmt.Errorf("%d copies per thread and row are too many", each)
	}
	return nil
}

// Limits beyond which a config has no use: the most columns that quack's rule
// gives a CTA with several rows (4 of 3072, 2 of 6144); the most elements that it
// gives a thread of a narrow group (16384 by 128); the fewest columns that a rule
// gives a CTA of a cluster (8k in two); and half of the bytes that an H200
// SM must have in flight to keep its memory busy (4.8 TB/s for 0.75 us,
// over 132).
const (
	maxTileCols    = 12 << 10
	maxElems       = 128
	minSliceCols   = 4 << 10
	minFlightBytes = 13 << 10
)

// refuseWaste refuses what works and helps nobody: several rows in a CTA
// where each has enough for all threads, too few threads for a row, clusters over
// short or several rows where the rows alone are CTAs enough, and CTAs that
// have too little on the way.
func refuseWaste(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	rows, cl, k := int64(c.Get(kernels.BlockRows)), c.Get(kernels.Cluster), int64(c.Get(kernels.PerSM))
	_, vec := rowVectors(p, c)
	cols, threads := sliceVectors(p, c)*vec, int64(c.Get(kernels.Warps)*32)
	ctas, tiles := clusterGrid(p, c, d)
	persistent := ctas < tiles && c.Get(kernels.CTAs) == 0 && d.Kind == kernels.KindCUDA
	flight := k * slotBytes(p, c) * int64(c.Get(kernels.Stages))
	switch {
	case rows > 1 && rows*cols > maxTileCols:
		return fmt.Errorf("%d columns of a row are work enough for a CTA", cols)
	case threads/rows < 256 && cols*rows > maxElems*threads:
		return fmt.Errorf("%d threads are too few for %d columns", threads/rows, cols)
	case cl > 1 && (cols < minSliceCols || rows > 1) && p.M >= int64(d.SMs):
		return fmt.Errorf("%d rows need no clusters for slices of %d columns by %d", p.M, cols, rows)
	case persistent && flight < minFlightBytes:
		return fmt.Errorf("%d CTAs with %d bytes of slots in all leave the memory idle", k, flight)
	case persistent && k*threads*40 > 65536:
		return fmt.Errorf("%d CTAs of %d threads do not run side by side", k, threads)
	case persistent && c.Get(kernels.Stages) == 1 && c.Get(kernels.Reload) == 1:
		return fmt.Errorf("one slot that is read again to the end holds no next tile")
	}
	return nil
}

// refuseTiles refuses slots, and orders of the tiles, that make no difference.
func refuseTiles(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	ctas, tiles := clusterGrid(p, c, d)
	each, st := kernels.CeilDiv(tiles, ctas), int64(c.Get(kernels.Stages))
	switch {
	case st < 1 || st > 4:
		return fmt.Errorf("stages are 1 to 4")
	case st > each:
		return fmt.Errorf("no CTA has %d tiles to load ahead", st)
	case each == 1 && c.Get(kernels.RowOrder) != 0:
		return fmt.Errorf("every CTA has one tile: there is no order")
	case ctas*int64(c.Get(kernels.Cluster)) > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	}
	return nil
}

// refuseSlots refuses tiles too large for shared memory: one CTA's slots, and
// those of all CTAs that are to run side by side.
func refuseSlots(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if d.SharedPerBlock == 0 {
		return nil
	}
	slots := slotBytes(p, c) * int64(c.Get(kernels.Stages))
	need, most := slots+staticBytes(c), int64(d.SharedPerBlock)
	if need > most {
		return fmt.Errorf("%d bytes of tiles do not fit in %d of shared memory", need, most)
	}
	// The system keeps 1 KiB of each CTA, and an SM has one more
	// than a CTA can get (CUDA C++ Programming Guide, compute capabilities).
	if k := int64(c.Get(kernels.PerSM)); k > 0 && c.Get(kernels.CTAs) == 0 && k*(need+1024) > most+1024 {
		return fmt.Errorf("%d CTAs of %d bytes do not fit in an SM's shared memory", k, need)
	}
	return nil
}

// staticBytes is the shared memory beside the slots: barriers and partial sums.
func staticBytes(c kernels.Config) int64 {
	return int64(8*c.Get(kernels.Stages) + 8*c.Get(kernels.Warps) + 8*c.Get(kernels.Cluster)*c.Get(kernels.BlockRows) + 128)
}

// sliceVectors is how many vectors of a row one CTA of a cluster has: an
// equal share, rounded up to whole lines of 128 bytes.
func sliceVectors(p kernels.Problem, c kernels.Config) int64 {
	vecs, _ := rowVectors(p, c)
	cl, line := int64(c.Get(kernels.Cluster)), 128/common.VectorBytes(p, c)
	if cl <= 1 {
		return vecs
	}
	return kernels.CeilDiv(kernels.CeilDiv(vecs, cl), line) * line
}

// slotBytes is the shared memory of one tile: x and, where there is one, res.
func slotBytes(p kernels.Problem, c kernels.Config) int64 {
	part := kernels.CeilDiv(int64(c.Get(kernels.BlockRows))*sliceVectors(p, c)*common.VectorBytes(p, c), 16) * 16
	return part * (1 + kernels.Flag(p.Residual))
}

// clusterGrid is how many clusters of CTAs (CTAs, where a row is one
// CTA's) walk over how many tiles: grid, with a cluster counted as one, but for ragged
// rows: alignPrograms.
func clusterGrid(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) (clusters, tiles int64) {
	tiles = kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows)))
	n := int64(c.Get(kernels.CTAs))
	if n == 0 {
		n = int64(c.Get(kernels.PerSM)) * int64(d.SMs)
	}
	if n == 0 {
		return tiles, tiles
	}
	n = max(n/int64(max(c.Get(kernels.Cluster), 1)), 1)
	if n >= tiles {
		return tiles, tiles
	}
	return alignCTAs(p, c, n), tiles
}

// hasClusters says whether the device has clusters and bulk copies: sm_90.
func hasClusters(d kernels.DeviceInfo) bool {
	text, ok := strings.CutPrefix(d.Arch, "sm_")
	n, err := strconv.Atoi(text)
	return ok && err == nil && n >= 90
}

func hostSmemPipe(h *kernels.HostRun, pid int) {
	hostForwards(h, pid, max(h.Launch.Cluster, 1), false)
}
