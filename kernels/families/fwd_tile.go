package families

import (
	"fmt"

	"normbench/kernels"
)

// fwdTile: fp8 and its transpose in one pass. CTAs share a band of rows by
// columns and hold it in shared memory, from where it leaves row by row and column
// by column. The exchanges are those of quack's clusters and of apex's CTAs that
// share a row.
func fwdTile(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "tile"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "fp8 and its transpose in one pass: bands of rows in shared memory, shared by columns",
		Origin: "normbench; the strided bytes and the second launch of TransformerEngine (ROCm) PR 593 are what it does without",
		Files: []string{"fwd_tile.go", "fwd_tile.cu", "transpose.go", "bwd_pipe.go", "hoststage.go", "hostfwd.go", "common.go", "common.cuh",
			"pipe.cuh", "bytes.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 32), // 64 lost on every te shape of an H200: 86.6 us against 81.3 at 8192x8192
			kernels.Values(kernels.VectorBytes, 0, 8),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 0, 1, 2, 3, 4, 6),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.CopyPath, 1, 2),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.CTAsPerRow, 1, 8, 16, 32, 64),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 2), // the lines of yt come from several bands, which meet in L2
		},
		Serves: servesTile,
		Base:   fwdTileBase,
		Refuse: refuseTile,
		Plan:   fwdTilePlan,
		Host:   map[string]kernels.HostStage{"tile": hostTile, "clear": hostClear},
	}
}

// servesTile: the transposed bytes are what the design is for. They are stored in
// words at least, and turned four columns at a time.
func servesTile(p kernels.Problem) error {
	switch {
	case !p.FP8 || !p.Transpose:
		return fmt.Errorf("the design is for fp8 with its transpose")
	case p.M%4 != 0 || p.N%4 != 0:
		return fmt.Errorf("tiles of 4x4 bytes need rows and columns that are multiples of 4")
	}
	return nil
}

// ---- Geometry ---------------------------------------------------------------

// A tileBand is the geometry of a config: groups of ranks CTAs that walk over
// the bands of rows, at most each to a group. A warp has 32 vectors of a row.
type tileBand struct {
	vec, ranks, warps   int64
	rows, bands, groups int64
	each, stages        int64
	perSM               int64 // CTAs that an SM is to hold at once, 0 for no matter
	strip               int64 // bytes of a warp's strip in a slot, with the residual's
}

func newTileBand(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) tileBand {
	cluster, k := int64(max(c.Get(kernels.Cluster), 1)), int64(c.Get(kernels.PerSM))
	if d.Kind == kernels.KindCPU {
		k = min(k, 2) // a core runs one CTA at a time: more of them do nothing new
	}
	t := tileBand{vec: vectorBytes(p, c) / p.DType.Size(), ranks: cluster * int64(max(c.Get(kernels.CTAsPerRow), 1)), rows: int64(c.Get(kernels.BlockRows))}
	t.warps = ceilDiv(p.N, t.ranks*32*max(t.vec, 1))
	t.bands = ceilDiv(p.M, max(t.rows, 1))
	t.groups = t.bands
	if n := int64(c.Get(kernels.CTAs)); n > 0 {
		t.groups = n / t.ranks
	} else if k > 0 && cluster > 1 {
		t.groups = k * int64(d.ClustersAtOnce(int(cluster)))
	} else if k > 0 {
		t.groups = k * int64(d.SMs) / t.ranks
	}
	t.groups = min(max(t.groups, 1), t.bands)
	if k > 0 && c.Get(kernels.CTAs) == 0 {
		t.perSM = min(k, ceilDiv(t.groups*t.ranks, int64(d.SMs)))
	}
	t.each = ceilDiv(t.bands, t.groups)
	t.stages = min(int64(c.Get(kernels.Stages)), t.each)
	t.strip = t.rows * 32 * vectorBytes(p, c) * (1 + flag(p.Residual))
	return t
}

// slots is the dynamic shared memory of a CTA in bytes, static the rest of it:
// sums of strips and of a cluster's CTAs, and barriers.
func (t *tileBand) slots() int64 { return t.stages * t.warps * t.strip }

func (t *tileBand) static(p kernels.Problem, c kernels.Config) int64 {
	sums := 8 * t.rows * (1 + flag(p.Op == kernels.LayerNorm))
	n := sums*t.warps + 8*t.stages*t.warps + 256
	if c.Get(kernels.Cluster) > 1 {
		n += sums * t.ranks
	}
	return n
}

// atOnce is how many CTAs an SM holds: those asked for, or as many as
// its shared memory has room for.
func (t *tileBand) atOnce(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	if t.perSM > 0 || d.SharedPerBlock == 0 {
		return max(t.perSM, 1)
	}
	fit := (int64(d.SharedPerBlock) + 1024) / (t.slots() + t.static(p, c) + 1024)
	return max(min(fit, 65536/(32*t.warps*t.registers())), 1)
}

// registers is what a thread can do with, as NVRTC 13.0 compiles it for sm_90: with
// more, up to 168, it reads further ahead.
func (t *tileBand) registers() int64 { return 64 + 4*t.vec }

// ---- Base and refusals ---------------------------------------------------------

func tileConfig(vec, stages, path, cluster, ctas int) kernels.Config {
	return kernels.NewConfig(set(kernels.BlockRows, 32), set(kernels.VectorBytes, vec), set(kernels.Stages, stages), set(kernels.PerSM, 0),
		set(kernels.CTAs, 0), set(kernels.CopyPath, path), set(kernels.Cluster, cluster), set(kernels.CTAsPerRow, ctas),
		set(kernels.MinBlocks, 0), set(kernels.CacheHint, 2))
}

// fwdTileBase takes the slices that bring most of the matrix on the device at once: it
// counts a band in the hands of CTAs alone on their SM by half, as
// nothing is read while they write, two by four fifths, three (one loads, one waits for
// sums, one writes) in full; idle lanes as they are; and CTAs that meet in global
// memory by 0.85, as that takes longer than in a cluster. Of slices that hold as much,
// within a tenth, it takes the widest. Where all bands are there at once, so are their
// CTAs, one for each slice.
func fwdTileBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	var best kernels.Config
	most := 0.0
	for _, v := range []int{0, 8} {
		for ranks := 1; ranks <= 64; ranks *= 2 {
			for _, way := range [][2]int{{ranks, 1}, {1, ranks}} {
				if way[1] > 1 && d.Kind == kernels.KindCPU {
					continue // all the same there
				}
				c := tileConfig(v, 1, 1, way[0], way[1])
				if best.String() == "" {
					best = c
				}
				if c, held := fullTile(p, c, d); held > 1.1*most {
					best, most = c, held
				}
			}
		}
	}
	return best
}

// fullTile is c with as many CTAs per SM as fit, and its bytes on
// the device as fwdTileBase counts them; less than none where c is refused whatever
// their number.
func fullTile(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) (kernels.Config, float64) {
	coop := c.Get(kernels.CTAsPerRow) > 1
	for k := 12; k >= 1; k-- {
		c := c.With(set(kernels.PerSM, k))
		if refuseTile(p, c, d) != nil {
			continue
		}
		t := newTileBand(p, c, d)
		held := float64(t.groups * t.rows * p.N)
		held *= []float64{0.5, 0.8, 1}[min(t.perSM, 3)-1] * float64(p.N) / float64(t.ranks*t.warps*32*t.vec)
		if coop {
			held *= 0.85
		}
		if t.groups == t.bands && !coop {
			c = c.With(set(kernels.PerSM, 0))
		}
		return c, held
	}
	return c, -1
}

// Configs that are not worth trying: slots that leave half of an SM's shared
// memory empty although there are enough bands, and CTAs that meet in global memory
// although a small cluster can share the row.
const minTileBytes = 100 << 10

func refuseTile(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	rows, v, st, cl, cr, cp := c.Get(kernels.BlockRows), int(vectorBytes(p, c)), c.Get(kernels.Stages), c.Get(kernels.Cluster), c.Get(kernels.CTAsPerRow), c.Get(kernels.CopyPath)
	row := p.N * p.DType.Size()
	switch {
	case rows != 32 && rows != 64 && rows != 128:
		return fmt.Errorf("a band has 32, 64 or 128 rows")
	case !isPow2(v) || v > 16 || int64(v) < 4*p.DType.Size():
		return fmt.Errorf("a vector of %d bytes is not 4 or 8 %s elements in at most 16 bytes", v, p.DType)
	case row%int64(v) != 0:
		return fmt.Errorf("rows of %d bytes do not start at multiples of the %d-byte vector", row, v)
	case st < 1 || st > 4:
		return fmt.Errorf("stages are 1 to 4")
	case cp != 1 && cp != 2:
		return fmt.Errorf("the copy path is 1 or 2")
	case cp == 2 && row%16 != 0:
		return fmt.Errorf("bulk copies need rows of whole 16 bytes")
	case !isPow2(cl) || cl > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 CTAs")
	case cr < 1 || cr > 128:
		return fmt.Errorf("1 to 128 CTAs share a row")
	case cl > 1 && cr > 1:
		return fmt.Errorf("CTAs share a row in a cluster or in global memory, not both")
	case (cp == 2 || cl > 1) && !sm90(d):
		return fmt.Errorf("bulk copies and clusters need sm_90 or later, not %s", d.Arch)
	}
	if err := refuseHint(p, c, d); err != nil {
		return err
	}
	t := newTileBand(p, c, d)
	if err := t.refuseCTA(p, c, d); err != nil {
		return err
	}
	if cr > 1 {
		if err := t.refuseCoop(c, d); err != nil {
			return err
		}
	}
	return t.refuseWaste(p, c, d)
}

// refuseProgram holds what a CTA is limited to, and those that are to run side
// by side.
func (t *tileBand) refuseCTA(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	need, threads := t.slots()+t.static(p, c), 32*t.warps
	k := max(t.perSM, int64(c.Get(kernels.MinBlocks)))
	switch {
	case (t.ranks-1)*t.warps*32*t.vec >= p.N:
		return fmt.Errorf("%d CTAs of %d columns leave one without any", t.ranks, t.warps*32*t.vec)
	case t.warps > 16:
		return fmt.Errorf("a slice of %d warps takes more than 16", t.warps)
	case int64(c.Get(kernels.Stages)) > t.each:
		return fmt.Errorf("no CTA has %d bands to load ahead", c.Get(kernels.Stages))
	case t.groups*t.ranks > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	case d.SharedPerBlock == 0:
		return nil
	case need > int64(d.SharedPerBlock):
		return fmt.Errorf("%d bytes of bands do not fit in %d of shared memory", need, d.SharedPerBlock)
	// The system keeps 1 KiB of each CTA, and an SM has one more than
	// a CTA can get.
	case k > 1 && k*(need+1024) > int64(d.SharedPerBlock)+1024:
		return fmt.Errorf("%d CTAs of %d bytes do not fit in an SM's shared memory", k, need)
	case k*threads*t.registers() > 65536:
		return fmt.Errorf("%d CTAs of %d threads with about %d registers do not fit on an SM", k, threads, t.registers())
	}
	return nil
}

// refuseCoop holds what CTAs that wait for each other need: to be there at once.
func (t *tileBand) refuseCoop(c kernels.Config, d kernels.DeviceInfo) error {
	k := int64(c.Get(kernels.PerSM))
	switch {
	case k == 0 && c.Get(kernels.CTAs) == 0:
		return fmt.Errorf("CTAs that wait for each other stay for all bands: their number is to be given")
	case d.Kind == kernels.KindCUDA && k*int64(d.SMs) < t.ranks:
		return fmt.Errorf("%d CTAs fit on the device at once, fewer than share a row", k*int64(d.SMs))
	}
	return nil
}

// refuseWaste keeps the grid to what is worth trying. A config that says its
// CTAs is taken at its word.
func (t *tileBand) refuseWaste(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if d.Kind != kernels.KindCUDA || c.Get(kernels.CTAs) > 0 {
		return nil
	}
	bytes, less := t.warps*t.strip, newTileBand(p, c.With(set(kernels.PerSM, max(c.Get(kernels.PerSM)-1, 0))), d)
	switch k := int64(c.Get(kernels.PerSM)); {
	case k > 0 && t.groups < t.bands && k*t.slots() < minTileBytes && d.SharedPerBlock > 0:
		return fmt.Errorf("%d CTAs with %d bytes of bands each leave shared memory empty", k, t.slots())
	case k > 1 && less.groups == t.bands:
		return fmt.Errorf("%d CTAs make no use of %d on an SM", t.bands*t.ranks, k)
	case t.ranks > 1 && bytes < 8<<10:
		return fmt.Errorf("slices of %d bytes are too short to share a row", bytes)
	case c.Get(kernels.CTAsPerRow) > 1 && t.ranks*bytes < 512<<10:
		return fmt.Errorf("a cluster can share bands of %d bytes", t.ranks*bytes)
	}
	return nil
}

// ---- Plan ---------------------------------------------------------------------

// tileCounter is the words between the counters of groups, in fwd_tile.cu COUNTER.
const tileCounter = 32

func fwdTilePlan(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
	t := newTileBand(p, c, d)
	coop := c.Get(kernels.CTAsPerRow) > 1
	// Set the knobs that make no difference, so that configs that do the same have the same plan.
	c = c.With(set(kernels.Stages, int(t.stages)))
	if c.Get(kernels.MinBlocks) == 0 {
		// Not told, the compiler takes half the registers and reads a row at a time.
		c = c.With(set(kernels.MinBlocks, int(t.atOnce(p, c, d))))
	}
	defines := rowDefines(p, c, kernels.Define{Name: kernels.Warps.Macro, Value: t.warps},
		kernels.Define{Name: "STORE_BYTES", Value: byteVector(p.M, 16)})
	counters := kernels.Scratch{Name: "arrived", DType: kernels.I32, Elems: t.groups * tileCounter}
	zero := kernels.Launch{
		Stage: "zero", Source: "fwd_tile.cu", Entry: "clear",
		Grid: [3]int{1, 1, 1}, Block: 256, Defines: defines,
		Args: append(kernels.Buffers("amax"), optional(coop, counters.Name), kernels.Int64("count", flag(coop)*counters.Elems)),
	}
	k1 := kernels.Launch{
		Stage: "k1", Source: "fwd_tile.cu", Entry: "tile",
		Grid:     [3]int{int(t.groups * t.ranks), 1, 1},
		Block:    int(32 * t.warps),
		Shared:   int(t.slots()),
		Resident: coop,
		Early:    true,
		Defines:  defines,
		Args:     append(append(fwdArgs(p), kernels.Buffers("scale", "amax", "scale_inv", "yt")...), optional(coop, counters.Name), optional(coop, "exchange")),
	}
	if cl := c.Get(kernels.Cluster); cl > 1 {
		k1.Cluster = cl
	}
	plan := kernels.Plan{Launches: []kernels.Launch{zero, k1}}
	if coop {
		sums := t.groups * 2 * t.ranks * t.rows * (1 + flag(p.Op == kernels.LayerNorm))
		plan.Scratch = []kernels.Scratch{counters, {Name: "exchange", DType: kernels.FP32, Elems: sums}}
	}
	return plan
}

// ---- Host stages ----------------------------------------------------------------

func hostClear(h *kernels.HostRun, _ int) { h.Mem["amax"].Set(0, 0) }

// hostTile does the rows of all CTAs of a group in its first.
func hostTile(h *kernels.HostRun, pid int) {
	p, launch := h.Problem, h.Launch
	ranks := int(launch.Define("CLUSTER") * launch.Define("CTAS_PER_ROW"))
	if pid%ranks != 0 {
		return
	}
	groups := *launch
	groups.Grid[0] /= ranks
	h.Launch = &groups
	row := h.Row(0, p.N)
	wf, bf := hostWeights(h)
	eachTileRow(h, pid/ranks, func(i int64) {
		hostNormalize(h, row, wf, bf, i)
		hostOutput(h, row, i, 0, true)
	})
	h.Launch = launch
}
