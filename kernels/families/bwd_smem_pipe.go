package families

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"normbench/kernels"
	"normbench/kernels/common"
)

// bwdSmemPipe: persistent CTAs whose rows of x and dy come to shared memory
// several tiles ahead, dw in registers. The design of quack's backward, with the
// fused gradients of its PR 101.
func bwdSmemPipe(op kernels.Op) *kernels.Family {
	host := bwdTwoPass(op)
	return &kernels.Family{
		Name: kernels.FamilyName(op, kernels.Bwd, "smem_pipe"),
		Op:   op,
		Pass: kernels.Bwd,
		Doc: "persistent CTAs; rows come to shared memory some tiles ahead, dw in registers, then k2 or a fused sum; " +
			"unroll is rows per thread, reload's bits are x and dy, 4 keeps them widened",
		Origin: "quack, main line and PR 101; mlx PR 3881",
		Files:  []string{"bwd_smem_pipe.cu", "reduce.cu"},
		// The published space (quack: 400 configs of threads, threads per row,
		// clusters, reloads, copies and stages) with what it has in tables (CTAs)
		// and in branches (the fused sums).
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8),
			kernels.Values(kernels.Warps, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.Unroll, 1, 2),
			kernels.Values(kernels.Stages, 2, 3),
			kernels.Values(kernels.CopyPath, 1, 2),
			kernels.Values(kernels.Reload, 0, 3, 4),
			kernels.Values(kernels.StatsAhead, 0, 1),
			kernels.Values(kernels.Cluster, 1, 2, 4, 8, 16),
			kernels.Values(kernels.PerSM, 1, 2, 3, 4),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0, 4),
			kernels.Values(kernels.PartialType, 0),
			kernels.Values(kernels.FusedDW, 0), // fused sums have lost everywhere since k2 starts early and has a tile for the problem
		}, common.ReduceKnobs(1)...),
		Unordered: func(c kernels.Config) bool { return c.Get(kernels.FusedDW) == fusedAdd },
		Serves:    servesAll,
		Base:      smemPipeBase,
		Refuse:    refuseSmemPipe,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			if d.Kind == kernels.KindCPU { // neither clusters nor copies ahead: another design stands in
				return host.Plan(p, host.Base(p, d), d)
			}
			return smemPipePlan(p, c, d)
		},
		Host: host.Host,
	}
}

// The values of fused_dw.
const (
	fusedLast   = 1 // the last CTA sums all partial rows
	fusedGroups = 2 // the last of each group its rows, the last of all the groups' rows
	fusedAdd    = 3 // each CTA adds its row to sums in memory
)

// ---- Geometry ---------------------------------------------------------------

// pipeVectors is the number of vectors in a row and the elements in one: of a ragged
// row, which bulk copies bring with what is around it, the aligned ones of 16 bytes
// that it may have an element of.
func pipeVectors(p kernels.Problem, c kernels.Config) (vecs, vec int64) {
	if c.Get(kernels.CopyPath) == 2 && p.N*p.DType.Size()%16 != 0 {
		return aroundRow(p)
	}
	return common.Vectors(p, c)
}

// group is the CTAs of a group of the two-level sum, and groups their number
// (quack PR 101).
func (s *smemPipe) group() int64 {
	return kernels.CeilDiv(s.clusters, int64(math.Ceil(math.Sqrt(float64(s.clusters)))))
}
func (s *smemPipe) groupsOfCTAs() int64 { return kernels.CeilDiv(s.clusters, s.group()) }

// shared is the dynamic shared memory of a CTA in bytes: the slots, in which
// the rows of a CTA meet at the end and the last CTAs fold partial rows.
func (s *smemPipe) shared(p kernels.Problem, c kernels.Config) int64 {
	slots := s.stages * s.slot(p)
	switch {
	case s.shifts:
		slots += s.spans(p)
	case s.ragged(p):
		slots = max(slots, s.spans(p))
	}
	if s.fused == fusedLast || s.fused == fusedGroups {
		return max(slots, 16*32*int64(c.Get(kernels.Warps)))
	}
	return slots
}

// static is at least the shared memory of the reductions and barriers.
func (s *smemPipe) static(p kernels.Problem, c kernels.Config) int64 {
	sums := s.rows * (1 + kernels.Flag(p.Op == kernels.LayerNorm))
	n := 8*sums*int64(c.Get(kernels.Warps)) + 64
	if s.cluster > 1 {
		n += 8*s.cluster*s.groups*sums + 16
	}
	return n
}

// registers is about what a thread needs: x and dy packed for each of its rows,
// unless they are read again, or dy packed and two numbers of each element, the
// residual's gradient, the weights packed, the sums of dw and db, and about 32 for
// the rest.
func (s *smemPipe) registers(p kernels.Problem, c kernels.Config) int64 {
	row := s.perThread * max(s.vec*p.DType.Size()/4, 1)
	rl := c.Get(kernels.Reload)
	rows := 2 - kernels.Flag(rl&1 != 0) - kernels.Flag(rl&2 != 0) + 3*kernels.Flag(rl == 4) + kernels.Flag(p.Residual)
	n := s.rows * row * rows
	if !p.NoWeight {
		n += s.perThread * (max(s.vec*p.Weight.Size()/4, 1) + s.vec*(1+kernels.Flag(p.Bias)))
	}
	return n + 32
}

// ---- Refusals ---------------------------------------------------------------

func refuseSmemPipe(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	if err := cmp.Or(refusePipeKnobs(p, c, d), refuseCopies(p, c, d)); err != nil {
		return err
	}
	s := newSmemPipe(p, c, d)
	if err := s.refuseThreads(); err != nil {
		return err
	}
	if err := s.refuseFused(p, c, d); err != nil {
		return err
	}
	if err := s.refuseFit(c, d, s.registers(p, c), s.shared(p, c)+s.static(p, c)); err != nil {
		return err
	}
	if err := s.refuseWaste(p, c, d); err != nil {
		return err
	}
	if s.fused != fusedAdd && !p.NoWeight {
		if err := common.RefusePartials(p, s.clusters); err != nil {
			return err
		}
	}
	return common.RefuseReduce(c)
}

// refusePipeKnobs holds the values of single knobs.
func refusePipeKnobs(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	u, cl, st := c.Get(kernels.Unroll), c.Get(kernels.Cluster), c.Get(kernels.Stages)
	switch {
	case !kernels.IsPow2(u) || u > 8 || u > c.Get(kernels.BlockRows):
		return fmt.Errorf("unroll (rows per thread) must be a power of two, at most 8 and at most the block rows")
	case st < 1 || st > 4:
		return fmt.Errorf("stages are 1 to 4")
	case !kernels.IsPow2(cl) || cl > 16:
		return fmt.Errorf("a cluster has 1, 2, 4, 8 or 16 CTAs")
	case cl > 1 && !sm90(d):
		return fmt.Errorf("clusters need sm_90 or later, not %s", d.Arch)
	case c.Get(kernels.Reload) > 4 || c.Get(kernels.RowOrder) > 2 || c.Get(kernels.PartialType) > 1 || c.Get(kernels.FusedDW) > 3:
		return fmt.Errorf("reload is 0 to 4, row order 0 to 2, partial type 0 or 1, fused dw 0 to 3")
	case c.Get(kernels.StatsAhead) > 1:
		return fmt.Errorf("statistics are loaded a tile ahead, 0, or many, 1")
	case c.Get(kernels.Reload) == 4 && p.DType.Size() == 4:
		return fmt.Errorf("fp32 needs no widening that could be kept")
	case c.Get(kernels.MinBlocks) > 32 || c.Get(kernels.MinBlocks)*c.Get(kernels.Warps) > 64:
		return fmt.Errorf("an SM holds at most 32 CTAs and 64 warps")
	}
	return nil
}

// refuseCopies holds how rows come to shared memory: by asynchronous copies of each thread (copy
// path 1), or in bulk (2).
func refuseCopies(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	cp, row := c.Get(kernels.CopyPath), p.N*p.DType.Size()
	switch {
	case cp == 1 && c.Get(kernels.CacheHint)&5 != 0:
		return fmt.Errorf("NVRTC 13.0 makes no legal instruction of its asynchronous copies under a cache policy; bulk copies may have one")
	case cp == 1 && common.VectorBytes(p, c) < 4:
		return fmt.Errorf("rows of %d bytes start at any 2 bytes, and asynchronous copies move 4, 8 or 16 aligned ones", row)
	case cp == 1:
		return nil
	case cp != 2:
		return fmt.Errorf("the copy path is 1 or 2")
	case row%16 != 0 && c.Get(kernels.VectorBytes) != 0:
		return fmt.Errorf("rows of %d bytes are copied with what is around them, in vectors of 16 bytes that are not the config's", row)
	case !sm90(d):
		return fmt.Errorf("bulk copies need sm_90 or later, not %s", d.Arch)
	case row%16 != 0 && c.Get(kernels.Unroll) > 1:
		return fmt.Errorf("neighbouring rows of %d bytes start differently in their vectors, and a thread has one of a tile", row)
	}
	return nil
}

func (s *smemPipe) refuseFused(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if s.fused != 0 && s.ragged(p) {
		return fmt.Errorf("rows of %d elements leave their sums to k2", p.N)
	}
	if s.fused != fusedAdd {
		return nil
	}
	switch {
	case p.N%4 != 0:
		return fmt.Errorf("bulk additions move multiples of 16 bytes, of rows of as many")
	case !sm90(d):
		return fmt.Errorf("bulk additions need sm_90 or later, not %s", d.Arch)
	case c.Get(kernels.PartialType) != 0:
		return fmt.Errorf("bulk additions are of fp32")
	}
	return nil
}

// Limits of configs that are worth trying. No published rule asks for more.
const (
	// Columns whose sums one thread keeps: a slice of 8192 on 256 threads.
	maxSums = 32
	// Elements of x per thread, and bytes of a row, that are worth reading again:
	// fewer leave registers enough.
	minReread = 16
	minWide   = 8 << 10 // and rows that are worth a cluster where each SM has one
	minSlice  = 4 << 10 // and slices of one, there and of few rows
	minPaced  = 2 << 10 // bytes of rows that statistics loaded far ahead make no faster
	// Slots of more groups of threads than one, in bytes. One CTA per
	// SM with slots of this size beat several with smaller ones on an
	// H200; larger slots have not been the best anywhere. (A KiB is for ragged rows.)
	maxAbreast = 33 << 10
	// Bytes on their way to an SM. At the H200's full rate there are 26
	// to 29 KiB.
	minAhead = 16 << 10
)

// refuseWaste keeps the grid to what is worth trying. A config that says its
// CTAs, as the published rules do, is taken at its word.
func (s *smemPipe) refuseWaste(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if c.Get(kernels.CTAs) > 0 {
		return nil
	}
	elems, slot := s.perThread*s.vec, s.slot(p)
	bytes, row := min(s.slice, s.vecs)*s.vec*p.DType.Size(), p.N*p.DType.Size()
	ahead := s.perSM * max(s.stages-1, 1) * slot
	full := s.each > 4 && 2*s.clusters*s.cluster >= int64(d.SMs) // long enough, and on most of the device
	switch {
	case elems > maxSums:
		return fmt.Errorf("%d columns per thread are too many to keep sums of", elems)
	case (c.Get(kernels.Reload)&3) != 0 && (s.rows*elems < minReread || bytes <= minWide):
		return fmt.Errorf("reading a row again does not pay: a thread has %d elements of it, the CTA %d bytes", s.rows*elems, bytes)
	case c.Get(kernels.StatsAhead) == 1 && row > minPaced && !p.NoWeight:
		return fmt.Errorf("loading the statistics ahead does not pay for rows of %d bytes", row)
	case s.groups > 1 && slot > maxAbreast:
		return fmt.Errorf("%d groups of threads with %d bytes of slot: more CTAs do the same", s.groups, slot)
	case s.cluster > 1 && (row < minWide || bytes < minSlice) && s.tiles >= int64(d.SMs):
		return fmt.Errorf("a cluster does not pay: it cuts rows to %d bytes, and there is a row for each SM", bytes)
	case s.perSM > 0 && d.SharedPerBlock > 0 && full && ahead < minAhead && bytes >= 512:
		return fmt.Errorf("too few loads in flight to keep the memory busy: %d bytes per SM", ahead)
	}
	return nil
}

// ---- Plan -------------------------------------------------------------------

func smemPipePlan(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
	s := newSmemPipe(p, c, d)
	// Set the knobs that make no difference, so that configs that do the same have the same plan.
	c = c.With(set(kernels.Stages, int(s.stages)), set(kernels.FusedDW, s.fused))
	if c.Get(kernels.MinBlocks) == 0 && s.perSM > 1 {
		c = c.With(set(kernels.MinBlocks, int(s.perSM))) // or the compiler takes the registers of some
	}
	if s.each == 1 {
		c = c.With(set(kernels.RowOrder, 0))
	}
	if p.NoWeight {
		c = c.With(set(kernels.PartialType, 0))
	}
	ragged := s.ragged(p)
	if ragged {
		c = c.With(set(kernels.VectorBytes, 16))
	}
	k1 := kernels.Launch{
		Stage: "k1", Source: "bwd_smem_pipe.cu", Entry: "smem_pipe",
		Grid:   [3]int{int(s.clusters * s.cluster), 1, 1},
		Block:  32 * c.Get(kernels.Warps),
		Shared: int(s.shared(p, c)),
		Defines: common.Defines(p, c, kernels.Define{Name: "RAGGED", Value: kernels.Flag(ragged)}, kernels.Define{Name: "SHIFTS", Value: kernels.Flag(s.shifts)},
			kernels.Define{Name: "TAIL", Value: kernels.Flag(p.M%int64(c.Get(kernels.BlockRows)) != 0 || c.Get(kernels.RowOrder) == 2)}),
		Args: bwdArgs(p, c),
	}
	if s.cluster > 1 {
		k1.Cluster = int(s.cluster)
	}
	last := s.fused == fusedLast || s.fused == fusedGroups
	two := s.fused == fusedGroups
	k1.Args = append(k1.Args, common.Optional(last && p.Accumulate, "dw_in"), common.Optional(last && p.Accumulate && p.Bias, "db_in"),
		common.Optional(last, "dw"), common.Optional(last && p.Bias, "db"), common.Optional(two, "dw_leaders"), common.Optional(two && p.Bias, "db_leaders"),
		common.Optional(last, "counters"), kernels.Int64("group", s.group()))
	switch s.fused {
	case fusedLast, fusedGroups:
		return s.lastPlan(p, c, k1)
	case fusedAdd:
		return addPlan(p, c, k1)
	}
	return common.WithReduce(p, c, s.clusters, k1)
}

// lastPlan is k1 with counters, per CTA of a cluster one, or one for each
// group and one for all.
func (s *smemPipe) lastPlan(p kernels.Problem, c kernels.Config, k1 kernels.Launch) kernels.Plan {
	scratch, counters := common.Partials(p, c, s.clusters), s.cluster
	if s.fused == fusedGroups {
		counters *= s.groupsOfCTAs() + 1
		leaders := common.Partials(p, c.With(set(kernels.PartialType, 0)), s.groupsOfCTAs())
		for i := range leaders {
			leaders[i].Name = strings.TrimSuffix(leaders[i].Name, "partial") + "leaders"
		}
		scratch = append(scratch, leaders...)
	}
	scratch = append(scratch, kernels.Scratch{Name: "counters", DType: kernels.I32, Elems: counters})
	return kernels.Plan{
		Launches: []kernels.Launch{kernels.Zero("zero", "counters", 4*counters), k1},
		Scratch:  scratch, Rounds: common.Rounds(p, c),
	}
}

// addPlan is k1 with cleared sums: the gradients themselves where they are fp32
// and nothing is added to them, else one partial row, which k2 rounds.
func addPlan(p kernels.Problem, c kernels.Config, k1 kernels.Launch) kernels.Plan {
	direct := p.Weight == kernels.FP32 && !p.Accumulate
	names := map[string]string{"dw_partial": "dw_partial", "db_partial": "db_partial"}
	if direct {
		names = map[string]string{"dw_partial": "dw", "db_partial": "db"}
	}
	plan := kernels.Plan{Launches: []kernels.Launch{kernels.Zero("zero", names["dw_partial"], 4*p.N)}}
	if p.Bias {
		plan.Launches = append(plan.Launches, kernels.Zero("zero2", names["db_partial"], 4*p.N))
	}
	for i, a := range k1.Args {
		if to, ok := names[a.Name]; ok {
			k1.Args[i].Name = to
		}
	}
	plan.Launches = append(plan.Launches, k1)
	if !direct {
		plan.Scratch = common.Partials(p, c, 1)
		plan.Launches = append(plan.Launches, common.ReduceLaunch(p, c.With(common.ReduceTile(256, 1, 8)...), 1))
	}
	return plan
}

// ---- Base rule --------------------------------------------------------------

// A pipeRule is what is best for rows up to so many bytes: the copy path; groups of
// threads side by side and threads of a group, for 16-byte vectors; rows of a group;
// slots; CTAs per SM.
type pipeRule struct {
	row                                         int64
	path, groups, perGroup, rows, stages, perSM int
}

// The rules were read off an H200 (bf16, default group): each is the best single
// config of the shapes of a width. narrowRules are for rows without bulk copies, and
// for devices that have none, from a sketch of this design at N = 256, 384 and 1024
// to 4096.
//
// From 2 KiB on CTAs have one group of threads, two in layernorm: then their sums
// leave by bulk stores (bwd_pipe.cuh). At 16 KiB, and for slices of that in clusters,
// one CTA of an SM has two slots of a row.
var (
	narrowRules = []pipeRule{
		{512, 1, 8, 32, 1, 2, 4}, {768, 1, 8, 32, 1, 4, 2}, {1 << 10, 1, 8, 32, 1, 3, 2}, {2 << 10, 1, 4, 32, 1, 2, 3},
		{4 << 10, 1, 2, 256, 1, 2, 2}, {8 << 10, 1, 1, 128, 1, 2, 3}, {16 << 10, 1, 1, 256, 1, 2, 2}, {math.MaxInt64, 1, 1, 512, 1, 2, 1},
	}
	wideRules = map[kernels.Op][]pipeRule{
		kernels.RMSNorm: {
			{2 << 10, 1, 1, 128, 2, 2, 4}, {4 << 10, 1, 1, 128, 1, 2, 4}, {8 << 10, 1, 1, 512, 1, 2, 2}, {math.MaxInt64, 2, 1, 256, 1, 2, 1},
		},
		kernels.LayerNorm: {
			{2 << 10, 2, 2, 64, 2, 3, 2}, {4 << 10, 1, 1, 128, 2, 2, 2}, {8 << 10, 1, 1, 256, 1, 2, 2}, {math.MaxInt64, 2, 1, 512, 1, 3, 1},
		},
	}
)

// minWideRow is the narrowest row of wideRules in bytes, and maxRow the widest of one
// CTA: beyond it clusters share rows in slices of that.
const (
	minWideRow = 1<<10 + 2
	maxRow     = 16 << 10
)

// clustersFor is how many times a cluster doubles: until its slices are no longer
// than maxRow and, if the rows leave half of the SMs idle, until they
// do not.
func clustersFor(p kernels.Problem, d kernels.DeviceInfo) int {
	row, n := p.N*p.DType.Size(), 0
	for n < 4 && (row>>n > maxRow || p.M<<(n+1) <= int64(d.SMs) && row>>(n+1) >= minSlice) {
		n++
	}
	return n
}

// smemPipeBase is the rule for the row, or what of it fits: fewer CTAs, rows
// of a group and slots, then x and dy read again after the reduction, then other
// numbers of threads, and at last larger clusters.
func smemPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	row := p.N * p.DType.Size()
	gpu := d.Kind == kernels.KindCUDA
	rules, clusters := narrowRules, []int{1, 2, 4, 8, 16}
	switch {
	case !sm90(d):
		clusters = clusters[:1]
	case gpu:
		clusters = clusters[clustersFor(p, d):]
	}
	if gpu && sm90(d) && row >= minWideRow {
		rules = wideRules[p.Op]
	}
	for rules[0].row < row {
		rules = rules[1:]
	}
	path := rules[0].path
	if sm90(d) && (row%4 != 0 || row%16 != 0 && row >= minWideRow) {
		path = 2 // the only one for rows that start anywhere
	}
	r := rules[0].forVectors(p, path).forRows(p, d)
	startEarly := int(kernels.Flag(gpu && sm90(d)))
	var first kernels.Config
	tries := [][]int{clusters, {r.perGroup, 2 * r.perGroup, 4 * r.perGroup, r.perGroup / 2}, {0, 3}, append(down(r.stages), 3, 4), halves(r.rows), down(r.perSM)}
	for v := range cross(tries) {
		c := kernels.NewConfig(set(kernels.BlockRows, r.groups*v[4]), set(kernels.Warps, max(r.groups*v[1]/32, 1)), set(kernels.VectorBytes, 0),
			set(kernels.Unroll, v[4]), set(kernels.Stages, v[3]), set(kernels.CopyPath, path), set(kernels.Reload, v[2]), set(kernels.StatsAhead, int(kernels.Flag(p.NoWeight))), set(kernels.Cluster, v[0]),
			set(kernels.PerSM, v[5]), set(kernels.CTAs, 0), set(kernels.RowOrder, 0), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0),
			set(kernels.PartialType, 0), set(kernels.FusedDW, 0)).With(common.ReduceBase...).With(set(kernels.EarlyReduce, startEarly))
		if first == (kernels.Config{}) {
			first = c
		}
		if refuseSmemPipe(p, c, d) == nil {
			return c
		}
		if path == 1 && common.VectorBytes(p, c) < 4 {
			break // nothing helps
		}
	}
	return first
}

// forVectors fits a rule's threads to vectors narrower than 16 bytes, and to rows
// narrower than its groups; then more groups stand side by side.
func (r pipeRule) forVectors(p kernels.Problem, path int) pipeRule {
	vecs, vec := pipeVectors(p, kernels.NewConfig(set(kernels.CopyPath, path)))
	threads := r.groups * r.perGroup
	r.perGroup = min(r.perGroup*int(16/(vec*p.DType.Size())), 1024, max(int(kernels.CeilPow2(vecs)), 8))
	r.groups = min(max(r.groups, threads/r.perGroup), 1024/r.perGroup, 64/r.rows)
	return r
}

// forRows halves the tiles until each SM has one.
func (r pipeRule) forRows(p kernels.Problem, d kernels.DeviceInfo) pipeRule {
	for ; r.rows > 1 && int64(r.rows*r.groups*d.SMs) > p.M; r.rows /= 2 {
	}
	for ; r.groups > 1 && r.groups*r.perGroup > 32 && int64(r.groups*d.SMs) > p.M; r.groups /= 2 {
	}
	return r
}
