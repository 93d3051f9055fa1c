package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdFewRows: one kernel, whose programs make dx of a part of a row, and dw of a part of
// the columns.
func bwdFewRows(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Bwd, "few_rows"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "one kernel for few rows: each program has dx of a part of a row, and dw of some columns of all rows",
		Origin: "normbench",
		Files:  []string{"bwd_few_rows.go", "bwd_few_rows.cu", "pipe.cuh", "bwd_row.go", "hoststage.go", "common.go", "common.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0, 4),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.DWCols, 8, 16, 32, 64, 128, 256),
			kernels.Values(kernels.CacheHint, 0, 2),
		},
		Serves: servesTwice,
		Base:   fewRowsBase,
		Refuse: refuseFewRows,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			cluster := int64(c.Get(kernels.Cluster))
			clusters := max(p.M, ceilDiv(ceilDiv(p.N, int64(c.Get(kernels.DWCols))), cluster))
			if p.M == 1 {
				clusters = 1
			}
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_few_rows.cu", Entry: "few_rows",
				Grid:    [3]int{int(clusters * cluster), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: rowDefines(p, c, kernels.Define{Name: "FEW", Value: p.M}),
				Args:    append(kernels.Buffers("x", "dy", "w", "rstd"), optional(p.Op == kernels.LayerNorm, "mean")),
			}
			k1.Args = append(append(k1.Args, kernels.Buffers("dx", "dw")...), optional(p.Bias, "db"))
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

// A columnShare is the geometry of a config: vectors of a row in a program and in a thread,
// threads side by side on its columns, and rows of a thread there.
type columnShare struct{ vec, slice, perThread, across, rows int64 }

func newFewRows(p kernels.Problem, c kernels.Config) columnShare {
	vecs, vec := vectors(p, c)
	threads := int64(c.Get(kernels.Warps) * 32)
	s := columnShare{vec: vec, slice: ceilDiv(vecs, int64(c.Get(kernels.Cluster))), across: int64(c.Get(kernels.DWCols)) / max(vec, 1)}
	s.perThread = ceilDiv(s.slice, threads)
	s.rows = ceilDiv(p.M, max(threads/max(s.across, 1), 1))
	return s
}

// words is the packed words of a thread: of x, dy and the weight of a row, of x, dy and
// statistics in its columns.
func (s columnShare) words(p kernels.Problem) int64 {
	vector := max(s.vec*p.DType.Size()/4, 1)
	return s.perThread*(2*vector+max(s.vec*p.Weight.Size()/4, 1)) + s.rows*(2*vector+1+flag(p.Op == kernels.LayerNorm))
}

// fewRowsBase has about two vectors of a row to a thread, and so many columns to a program
// that all programs have some.
func fewRowsBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	c := kernels.NewConfig(set(kernels.VectorBytes, 0), set(kernels.CacheHint, 0))
	vecs, vec := vectors(p, c)
	cluster, warps := int64(1), 4
	for cluster < 8 && hasClusters(d) && p.M*cluster*2 <= int64(d.Units) && vecs >= 2*cluster*128 {
		cluster *= 2
	}
	for warps < 32 && vecs > cluster*int64(warps)*32 {
		warps *= 2
	}
	cols := max(vec, 8)
	for p.M > 1 && cols < 256 && ceilDiv(p.N, cols) > p.M*cluster {
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

func refuseFewRows(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c.With(set(kernels.BlockRows, 1)), d); err != nil {
		return err
	}
	cluster, cols := int64(c.Get(kernels.Cluster)), c.Get(kernels.DWCols)
	vecs, vec := vectors(p, c)
	switch {
	case !isPow2(int(cluster)) || cluster > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 programs")
	case cluster > 1 && !hasClusters(d):
		return fmt.Errorf("clusters need sm_90 or later, not %s", d.Arch)
	case !isPow2(cols) || cols > 1024 || int64(cols) < vec:
		return fmt.Errorf("columns of dw are a power of two up to 1024, and at least the %d of a vector", vec)
	}
	s, threads := newFewRows(p, c), int64(c.Get(kernels.Warps)*32)
	switch {
	case p.M == 1 && cols != 8:
		return fmt.Errorf("one row has its columns of dw where it has its own: dw_cols stays 8")
	case s.slice*(cluster-1) >= vecs:
		return fmt.Errorf("the %d vectors of a row leave one of %d programs without any", vecs, cluster)
	case threads > max(ceilPow2(s.slice), 32) && s.rows <= 1:
		return fmt.Errorf("%d threads for %d vectors of a row leave half of them idle", threads, s.slice)
	case s.across > threads:
		return fmt.Errorf("%d columns of dw in vectors of %d are more than a program's threads", cols, vec)
	case s.words(p)+16 > min(65536/threads, 200): // NVRTC 13.0 took 16 to 23 more
		return fmt.Errorf("%d words of rows and columns do not fit in a thread's registers", s.words(p))
	case s.perThread > 32 || s.rows > 32:
		return fmt.Errorf("%d vectors of a row and %d of columns make too long a program", s.perThread, s.rows)
	case p.M*cluster > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 programs")
	}
	if meet := max(int64(c.Get(kernels.Warps)), threads/s.across); meet*int64(cols)*4*(1+flag(p.Bias)) > 40<<10 {
		return fmt.Errorf("the sums of %d columns do not fit in shared memory", cols)
	}
	return nil
}

// hostFewRows does a row as the first program of its cluster, and each program's columns.
func hostFewRows(h *kernels.HostRun, pid int) {
	p, cluster, cols := h.Problem, int(h.Launch.Define("CLUSTER")), h.Launch.Define("DW_COLS")
	wf, _ := hostWeights(h)
	if row := int64(pid / cluster); pid%cluster == 0 && row < p.M {
		hostRow(h, wf, row)
	}
	if p.M == 1 {
		cols = p.N
	}
	lo := int64(pid) * cols
	hi := min(lo+cols, p.N)
	if lo >= hi {
		return
	}
	xhat, dy, sums := h.Row(0, hi-lo), h.Row(1, hi-lo), newHostSums(h)
	part := hostSums{sums.dw[:hi-lo], sums.db}
	if part.db != nil {
		part.db = part.db[:hi-lo]
	}
	for i := range p.M {
		hostXhat(h, xhat, wf, i, lo)
		h.Mem["dy"].Load(dy, i*p.N+lo)
		part.add(xhat, dy)
	}
	part.each(func(name string, s []float32) { h.Mem[name].Store(lo, s) })
}
