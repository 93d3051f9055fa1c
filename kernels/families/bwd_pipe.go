package families

import (
	"fmt"
	"iter"

	"normbench/kernels"
)

// The geometry of bwd/smem_pipe, whose CTAs, alone or in clusters, take tiles of rows through slots
// of shared memory (bwd_pipe.cuh).

// A smemPipe is the geometry of a config.
type smemPipe struct {
	tiles, clusters, each int64 // tiles of rows, clusters over them, most tiles of a cluster
	cluster               int64 // CTAs per cluster
	perSM                 int64 // CTAs that an SM is to hold at once, 0 for no matter
	stages                int64
	vecs, vec             int64 // vectors of a row, elements of one
	slice                 int64 // vectors of a CTA's slice of columns
	groups, perGroup      int64 // groups of threads and threads in one
	rows, perThread       int64 // rows of a group, vectors of a thread in one
	shifts                bool  // a group has rows that start differently in their vectors
	fused                 int
}

func newSmemPipe(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) smemPipe {
	s := smemPipe{fused: c.Get(kernels.FusedDW)}
	s.vecs, s.vec = pipeVectors(p, c)
	if p.NoWeight {
		s.fused = 0
	}
	br, threads, k := int64(c.Get(kernels.BlockRows)), int64(32*c.Get(kernels.Warps)), c.Get(kernels.PerSM)
	s.cluster, s.rows = int64(c.Get(kernels.Cluster)), int64(c.Get(kernels.Unroll))
	s.tiles = kernels.CeilDiv(p.M, br)
	s.clusters = s.tiles
	if n := c.Get(kernels.CTAs); n > 0 {
		s.clusters = int64(n) / s.cluster
	} else if k > 0 {
		s.clusters = int64(k) * int64(d.ClustersAtOnce(int(s.cluster)))
	}
	s.clusters = min(max(s.clusters, 1), s.tiles)
	if s.ragged(p) {
		s.align(p, c)
	}
	if c.Get(kernels.CTAs) == 0 && k > 0 {
		s.perSM = min(int64(k), kernels.CeilDiv(s.clusters*s.cluster, int64(d.SMs)))
	}
	s.each = kernels.CeilDiv(s.tiles, s.clusters)
	s.stages = min(int64(c.Get(kernels.Stages)), s.each)
	grain := 16 / min(s.vec*p.DType.Size(), 16)
	s.slice = kernels.CeilDiv(kernels.CeilDiv(s.vecs, s.cluster), grain) * grain
	s.groups = br / s.rows
	s.perGroup = threads / s.groups
	s.perThread = kernels.CeilDiv(min(s.slice, s.vecs), max(s.perGroup, 1))
	return s
}

// align lets the groups of ragged rows have rows that all start alike in their
// vectors, every phases-th one: by some CTAs less than there is room for, if not
// many. CTAs that have one row to a group, have none that differ.
func (s *smemPipe) align(p kernels.Problem, c kernels.Config) {
	step := startsAlike(p, c)
	if s.clusters == s.tiles {
		return
	}
	if c.Get(kernels.RowOrder) == 0 && c.Get(kernels.CTAs) == 0 && s.clusters >= minAligned*step {
		s.clusters -= s.clusters % step
	}
	s.shifts = c.Get(kernels.RowOrder) != 0 || s.clusters%step != 0
}

// minAligned is how many CTAs there must be for each start of a row in a vector:
// so many that those left over are few.
const minAligned = 8

// slot is the bytes of a tile's rows of x and dy.
func (s *smemPipe) slot(p kernels.Problem) int64 {
	return 2 * s.tileRows() * s.slice * s.vec * p.DType.Size()
}

// spans is the shared memory, in bytes, in which the groups' sums of ragged rows meet:
// ragged.cuh, SPAN_FLOATS.
func (s *smemPipe) spans(p kernels.Problem) int64 {
	span := s.slice*s.vec + s.vec - 1
	return (1 + kernels.Flag(p.Bias)) * 4 * s.groups * (span + span/8 + 1)
}

func (s *smemPipe) tileRows() int64 { return s.groups * s.rows }

// ragged says that rows have a vector that is not whole, or not aligned.
func (s *smemPipe) ragged(p kernels.Problem) bool {
	return p.N%s.vec != 0
}

// sm90 says whether a device has bulk copies and clusters. The cpu, which runs
// the same rows in Go, has no limits of that kind.
func sm90(d kernels.DeviceInfo) bool { return d.Kind == kernels.KindCPU || hasClusters(d) }

// refuseThreads refuses idle threads and empty slices. quack's _cap_cluster_n
// holds the second: without it, CTAs of a cluster counted columns twice.
func (s *smemPipe) refuseThreads() error {
	slice := min(s.slice, s.vecs)
	switch {
	case s.perGroup < 1:
		return fmt.Errorf("fewer threads than groups of rows")
	case s.vecs <= (s.cluster-1)*s.slice:
		return fmt.Errorf("the %d vectors of a row are too few for %d CTAs", s.vecs, s.cluster)
	case s.perGroup > max(kernels.CeilPow2(slice), 8):
		return fmt.Errorf("%d threads for %d vectors leave half of them idle", s.perGroup, slice)
	case s.perThread > 32:
		return fmt.Errorf("%d vectors per thread are too many to keep sums of", s.perThread)
	}
	return nil
}

// refuseFit holds the sizes of an SM: registers of a thread, shared
// memory of a CTA in bytes, and as many CTAs as ctas_per_sm asks for.
// (CTAs may ask for more: then some wait for others to end.)
func (s *smemPipe) refuseFit(c kernels.Config, d kernels.DeviceInfo, registers, shared int64) error {
	threads := int64(32 * c.Get(kernels.Warps))
	if most := min(65536/threads, 255); registers > most {
		return fmt.Errorf("a thread needs about %d registers, and %d threads have %d each", registers, threads, most)
	}
	if d.SharedPerBlock == 0 {
		return nil
	}
	limit := int64(d.SharedPerBlock)
	if shared > limit {
		return fmt.Errorf("%d slots take %d bytes of shared memory, more than %d", s.stages, shared, limit)
	}
	k := s.perSM
	if k == 0 {
		return nil
	}
	switch { // a CTA takes another KiB of an SM, which the limit leaves out
	case k > 1 && k*(shared+1024) > limit+1024:
		return fmt.Errorf("%d CTAs per SM take %d bytes of shared memory, more than %d", k, k*(shared+1024), limit+1024)
	case k > 1 && (k*threads > 2048 || k*threads*registers > 65536):
		return fmt.Errorf("%d CTAs of %d threads with about %d registers do not fit on an SM", k, threads, registers)
	}
	return nil
}

func down(n int) (ns []int) {
	for ; n >= 1; n-- {
		ns = append(ns, n)
	}
	return ns
}

func halves(n int) (ns []int) {
	for ; n >= 1; n /= 2 {
		ns = append(ns, n)
	}
	return ns
}

// cross yields one value of each list, the last list's changing fastest.
func cross(lists [][]int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		at, v := make([]int, len(lists)), make([]int, len(lists))
		for {
			for i, l := range lists {
				v[i] = l[at[i]]
			}
			if !yield(v) {
				return
			}
			i := len(lists) - 1
			for ; i >= 0 && at[i] == len(lists[i])-1; i-- {
				at[i] = 0
			}
			if i < 0 {
				return
			}
			at[i]++
		}
	}
}
