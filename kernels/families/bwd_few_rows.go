package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// bwdFewRows: one kernel, whose CTAs make dx of a part of a row, and dw of a part of
// the columns.
func bwdFewRows(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "few_rows"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "one kernel for few rows: each CTA has dx of a part of a row, and dw of some columns of all rows",
		Origin: "normbench",
		Files:  []string{"bwd_few_rows.cu"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0, 4),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.DWCols, 8, 16, 32, 64, 128, 256),
			kernels.Values(kernels.CacheHint, 0, 2),
		},
		Serves: servesTwice,
		Base:   dealtBase,
		Refuse: refuseFewRows,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			cluster := int64(c.Get(kernels.Cluster))
			clusters := max(p.M, kernels.CeilDiv(kernels.CeilDiv(p.N, int64(c.Get(kernels.DWCols))), cluster))
			if p.M == 1 {
				clusters = 1
			}
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_few_rows.cu", Entry: "few_rows",
				Grid:    [3]int{int(clusters * cluster), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: common.Defines(p, c, kernels.Define{Name: "FEW", Value: p.M}),
				Args:    append(kernels.Buffers("x", "dy", "w", "rstd"), common.Optional(p.Op == kernels.LayerNorm, "mean")),
			}
			k1.Args = append(append(k1.Args, kernels.Buffers("dx", "dw")...), common.Optional(p.Bias, "db"))
			if cluster > 1 {
				k1.Cluster = int(cluster)
			}
			return kernels.Plan{Launches: []kernels.Launch{k1}}
		},
		Host: map[string]kernels.HostStage{"few_rows": hostFewRows},
	}
}

// servesTwice is servesPlain for what an L2 holds while it is read by rows and by columns:
// x and dy of 16Mi elements are 64 MB in bf16.
func servesTwice(p kernels.Problem) error {
	if p.M*p.N > 16<<20 {
		return fmt.Errorf("x and dy are read twice, and more than 16Mi elements of each do not stay in L2")
	}
	return servesPlain(p)
}

// A columnShare is the geometry of a config: vectors of a row in a CTA and in a thread,
// threads side by side on its columns, and rows of a thread there.
type columnShare struct{ vec, slice, perThread, across, rows int64 }

func newFewRows(p kernels.Problem, c kernels.Config) columnShare {
	vecs, vec := common.Vectors(p, c)
	threads := int64(c.Get(kernels.Warps) * 32)
	s := columnShare{vec: vec, slice: kernels.CeilDiv(vecs, int64(c.Get(kernels.Cluster))), across: int64(c.Get(kernels.DWCols)) / max(vec, 1)}
	s.perThread = kernels.CeilDiv(s.slice, threads)
	s.rows = kernels.CeilDiv(p.M, max(threads/max(s.across, 1), 1))
	return s
}

// words is the packed words of a thread: of x, dy and the weight of a row, of x, dy and
// statistics in its columns.
func (s columnShare) words(p kernels.Problem) int64 {
	vector := max(s.vec*p.DType.Size()/4, 1)
	return s.perThread*(2*vector+max(s.vec*p.Weight.Size()/4, 1)) + s.rows*(2*vector+1+kernels.Flag(p.Op == kernels.LayerNorm))
}

// fewRowsBase has about two vectors of a row to a thread, and so many columns to a CTA
// that all CTAs have some.
func fewRowsBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	c := kernels.NewConfig(set(kernels.VectorBytes, 0), set(kernels.CacheHint, 0))
	vecs, vec := common.Vectors(p, c)
	cluster, warps := int64(1), 4
	for cluster < 8 && hasClusters(d) && p.M*cluster*2 <= int64(d.SMs) && vecs >= 2*cluster*128 {
		cluster *= 2
	}
	for warps < 32 && vecs > cluster*int64(warps)*32 {
		warps *= 2
	}
	cols := max(vec, 8)
	for p.M > 1 && cols < 256 && kernels.CeilDiv(p.N, cols) > p.M*cluster {
		cols *= 2
	}
	// More threads have fewer rows of a column each.
	for ; ; warps *= 2 {
		c = c.With(set(kernels.Warps, warps), set(kernels.Cluster, int(cluster)), set(kernels.DWCols, int(cols)))
		if warps >= 32 || newFewRows(p, c).words(p) <= 48 {
			return c
		}
	}
}

// dealtBase is, on a GPU and of 16-bit types, the arithmetic that an H200's grids came down to
// where no launch rule knows better; else fewRowsBase.
func dealtBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, units := fewRowsBase(p, d), int64(d.SMs)
	if d.Kind != kernels.KindCUDA || !hasClusters(d) || p.DType.Size() != 2 {
		return base
	}
	c := base.With(set(kernels.Cluster, 1))
	switch vecs, vec := common.Vectors(p, c); {
	case p.M == 1:
		c = oneRowRule(c, vecs)
	case p.M <= units:
		c = lessThanSMsRule(c, p, units, vecs, vec)
	default:
		c = someRowsRule(c, p, units, vecs, vec)
	}
	if c = moreWarps(c, func(c kernels.Config) bool { return refuseFewRows(p, c, d) == nil }); refuseFewRows(p, c, d) == nil {
		return c
	}
	return base
}

// columnsDealt is base with what few_rows takes: CTAs that share a row, columns of dw for each, and
// warps.
func columnsDealt(base kernels.Config, cluster, cols int64, warps int) kernels.Config {
	return base.With(set(kernels.Cluster, int(cluster)), set(kernels.DWCols, int(cols)), set(kernels.Warps, warps))
}

// dealColumns is as few columns, doubled from least on, as so many CTAs have all of, and most at
// the most.
func dealColumns(least, most, columns, ctas int64) int64 {
	for least < most && kernels.CeilDiv(columns, least) > ctas {
		least *= 2
	}
	return least
}

// warpsFor is as many warps, doubled from least to at most most, as leave a thread of so many CTAs
// no more than each vectors.
func warpsFor(vecs, ctas, each int64, least, most int) int {
	for least < most && vecs > ctas*int64(least)*32*each {
		least *= 2
	}
	return least
}

// someRowsRule is base for more rows than SMs, below 1024 columns. A row is one CTA's; a thread has
// two vectors of it, up to eight of narrower ones, and four single elements: 437x751 takes 6.7 us
// with eight warps and
// 8.1 with four. Columns are dealt to as many CTAs as there are SMs.
func someRowsRule(base kernels.Config, p kernels.Problem, units, vecs, vec int64) kernels.Config {
	each := max(16/vec, 2)
	if vec == 1 {
		each = 4
	}
	return columnsDealt(base, 1, dealColumns(max(8, vec), 256, p.N, units), warpsFor(vecs, 1, each, 4, 16))
}

// lessThanSMsRule is base for no more rows than SMs, of whole vectors or up to 1000 columns:
// columns are dealt to no more CTAs than rows, or 16; up to 512 of them have CTAs of one or two
// warps, and those from 5120 to 8192 clusters of four. At 98 problems in each op, of 2 to 130 rows,
// that is 1.6 and 1.8% behind the best of a grid in the mean, where more CTAs cost up to 11% and
// the pipeline, which had the narrow ones, 20 to 38%: rmsnorm 4x512 4.1 us, not 5.2, 16x2048 4.2
// and 4.4, layernorm 4.4 and 5.3, 4.5 and 4.6.
func lessThanSMsRule(base kernels.Config, p kernels.Problem, units, vecs, vec int64) kernels.Config {
	cluster, cols, most, each := int64(1), max(8, vec), int64(128), min(max(16/vec, 2), 9)
	switch {
	case 4*p.M <= units && p.N >= 8<<10:
		cluster, most = 8, 256
		if p.N > 32<<10 && p.Op == kernels.LayerNorm {
			each = 8 // 8.5 us, not 10.1, at 25x59776
		}
	case vec == 8 && p.N > 5<<10 && p.N < 8<<10:
		each = 3
		if 8*p.M <= units {
			cluster = 4
		}
	case vecs <= 32 && p.M >= 64:
		return columnsDealt(base, 1, cols, 1)
	case vecs <= 64 && p.M >= 96:
		return columnsDealt(base, 1, max(16, vec), 2)
	case vecs <= 64 && p.M >= 64:
		return columnsDealt(base, 1, cols, 2)
	case vecs <= 64:
		return columnsDealt(base, 1, max(16, vec), 1)
	case vec == 1:
		most, each = 32, 2 // 4.3 us, not 4.8, at 50x777 (rmsnorm)
	}
	cols = dealColumns(cols, most, p.N, max(16, p.M, p.M*p.N>>13, p.M*cluster/2*kernels.Flag(cluster > 1)))
	return columnsDealt(base, cluster, cols, warpsFor(vecs, cluster, each, 4, 16))
}

// oneRowRule is base with a vector for each thread, of one CTA or of a cluster of up to sixteen. In
// us, the best of a grid before dw came from what is read for dx, and now: rmsnorm 1x512 3.8 and
// 3.7, 1x1024 3.9 and 3.7, 1x8192 4.3 and 4.0, layernorm 4.2 and 3.8, 4.2 and 3.8, 4.5 and 4.1.
func oneRowRule(base kernels.Config, vecs int64) kernels.Config {
	cluster, most := int64(1), 8
	switch {
	case vecs >= 4096:
		cluster = 16
	case vecs >= 1024:
		cluster = 8
	case vecs >= 512:
		cluster = 4
	default:
		most = 16
	}
	return columnsDealt(base, cluster, 8, warpsFor(vecs, cluster, 1, 1, most))
}

func refuseFewRows(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c.With(set(kernels.BlockRows, 1)), d); err != nil {
		return err
	}
	cluster, cols := int64(c.Get(kernels.Cluster)), c.Get(kernels.DWCols)
	vecs, vec := common.Vectors(p, c)
	switch {
	case !kernels.IsPow2(int(cluster)) || cluster > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 CTAs")
	case cluster > 1 && !hasClusters(d):
		return fmt.Errorf("clusters need sm_90 or later, not %s", d.Arch)
	case !kernels.IsPow2(cols) || cols > 1024 || int64(cols) < vec:
		return fmt.Errorf("columns of dw are a power of two up to 1024, and at least the %d of a vector", vec)
	}
	s, threads := newFewRows(p, c), int64(c.Get(kernels.Warps)*32)
	switch {
	case p.M == 1 && cols != 8:
		return fmt.Errorf("one row has its columns of dw where it has its own: dw_cols stays 8")
	case s.slice*(cluster-1) >= vecs:
		return fmt.Errorf("the %d vectors of a row leave one of %d CTAs without any", vecs, cluster)
	case threads > max(kernels.CeilPow2(s.slice), 32) && s.rows <= 1:
		return fmt.Errorf("%d threads for %d vectors of a row leave half of them idle", threads, s.slice)
	case s.across > threads:
		return fmt.Errorf("%d columns of dw in vectors of %d are more than a CTA's threads", cols, vec)
	case s.words(p)+16 > min(65536/threads, 200): // NVRTC 13.0 took 16 to 23 more
		return fmt.Errorf("%d words of rows and columns do not fit in a thread's registers", s.words(p))
	case s.perThread > 32 || s.rows > 32:
		return fmt.Errorf("%d vectors of a row and %d of columns take more code than a CTA should", s.perThread, s.rows)
	case p.M*cluster > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	}
	if meet := max(int64(c.Get(kernels.Warps)), threads/s.across); meet*int64(cols)*4*(1+kernels.Flag(p.Bias)) > 40<<10 {
		return fmt.Errorf("the sums of %d columns do not fit in shared memory", cols)
	}
	return nil
}

// hostFewRows does a row as the first CTA of its cluster, and each CTA's columns.
func hostFewRows(h *kernels.HostRun, pid int) {
	p, cluster, cols := h.Problem, int(h.Launch.Define("CLUSTER")), h.Launch.Define("DW_COLS")
	if row := int64(pid / cluster); pid%cluster == 0 && row < p.M {
		wf, _ := hostWeights(h)
		hostRow(h, wf, row)
	}
	if p.M == 1 {
		cols = p.N
	}
	if lo := int64(pid) * cols; lo < p.N {
		hostColumns(h, lo, min(lo+cols, p.N))
	}
}
