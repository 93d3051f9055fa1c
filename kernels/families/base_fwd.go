package families

import (
	"slices"

	"normbench/kernels"
)

// The later launch rules of forwards: see base.go.

// fwdPipeBase is fwdSmemPipeBase but for widths of 16-bit rows at which an H200 knows
// better (records of the default group and of neighbours/wide.jsonl.gz, bf16): both ops beyond
// 8192 columns by sharedRow, and rmsnorm of 2048 and 4096, layernorm to 8192, with a row to 32
// to 128 threads that read it again from shared memory, 1 to 5%; layernorm of 256 to 1024 columns by
// narrowLN; of 8192 by two programs for a row where y is no larger than two L2, 1 to 10%; by
// persistentRow; narrow rows of both by pipedNarrow, and odd ones by unevenRule.
func fwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row, ln := fwdSmemPipeBase(p, d), p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	if !measuredFwd(p, d) {
		return base
	}
	c := base.With(set(kernels.Stages, 1), set(kernels.Reload, 0), set(kernels.Cluster, 1))
	r, uneven := unevenRule(p, d)
	switch {
	case uneven && r.design == "smem_pipe":
		c = r.of(c).With(set(kernels.CopyPath, 1))
		if r.perSM == 2 {
			c = c.With(set(kernels.CacheHint, 2), set(kernels.Cluster, 1<<flag(row%4 == 0 && row > 36<<10)))
		}
	case pipedNarrow(p, d):
		c = narrowTile(c, p, d)
	case ln && row%16 == 0 && row >= 512 && row <= 2<<10 && p.M >= 8*int64(d.Units) && (row <= 1<<10 || p.M*row > d.CacheBytes/4):
		c = narrowLN(c, p, d)
	case persistentRow(p, d):
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 16), set(kernels.CopyPath, 1), set(kernels.PerSM, 1))
		switch {
		case row > 112<<10:
			c = c.With(set(kernels.Stages, 2), set(kernels.CopyPath, 2), set(kernels.Reload, 1), set(kernels.Cluster, 2))
		case row <= 64<<10:
			c = c.With(set(kernels.Stages, 2), set(kernels.CopyPath, 2), set(kernels.PerSM, 2), set(kernels.Reload, 1), set(kernels.Cluster, 2), set(kernels.CacheHint, 2))
		case row > 72<<10:
			c = c.With(set(kernels.Warps, 8), set(kernels.PerSM, 2), set(kernels.Cluster, 2))
		}
	case sharedRow(p, d) > 1:
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Reload, 1),
			set(kernels.Cluster, sharedRow(p, d)), set(kernels.CacheHint, 2))
		switch {
		case ln && row > 96<<10:
			c = c.With(set(kernels.Warps, 8), set(kernels.CacheHint, 0))
		case ln && row > 32<<10 && row <= 36<<10 && p.M >= 4*int64(d.Units):
			c = c.With(set(kernels.Warps, 8), set(kernels.Cluster, 1), set(kernels.Reload, 0), set(kernels.CacheHint, 0)) // 30.9 us, not 32.7, at 1567x17536
		}
	case ln && row%16 == 0 && row > 4<<10 && row <= 8<<10 && p.M < 8*int64(d.Units):
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 8))
	case ln && row%16 == 0 && row > 2<<10 && row <= 8<<10 && p.M >= 8*int64(d.Units):
		c = c.With(set(kernels.BlockRows, 2), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Reload, 1), set(kernels.CacheHint, 2))
	case ln && row == 16<<10 && p.M*row <= 2*d.CacheBytes && p.M >= 2*int64(d.Units):
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Cluster, 2))
	case ln && row%16 == 0 && row > 8<<10 && row <= 14<<10 && p.M > 8*int64(d.Units) && p.M <= 12*int64(d.Units):
		c = c.With(set(kernels.Warps, 8), set(kernels.CopyPath, 1)) // 9.6 us, not 12.2, at 1295x4544, and 11.0, not 12.5, at 1098x6400
		if row <= 10<<10 {
			c = c.With(set(kernels.BlockRows, 2), set(kernels.PerSM, 0))
		} else {
			c = c.With(set(kernels.BlockRows, 1), set(kernels.PerSM, 2), set(kernels.CacheHint, 2))
		}
	case ln && row%16 == 0 && row > 8<<10 && row <= 16<<10 && p.M >= 2*int64(d.Units):
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Reload, int(flag(p.M*row > d.CacheBytes))))
	case !ln && row%16 == 0 && row > 3<<10 && row <= 8<<10:
		rows, again := 4>>flag(row > 4<<10), row <= 4<<10 || row > 5<<10
		c = c.With(set(kernels.BlockRows, rows), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Reload, int(flag(again))))
		if !again {
			c = c.With(set(kernels.CacheHint, 2)) // 8.5 us, not 9.6, at 2698x2144
		}
	default:
		return base
	}
	if refuseFwdSmemPipe(p, c, d) == nil {
		return c
	}
	return base
}

// persistentRow says whether a multiprocessor should have one program, of 16 warps, that takes
// the next row into shared memory while it writes the last from registers: layernorm of
// many rows of 32768 to 36864 columns, 0.86 of the stream at 900x36864 (H200, bf16), where sharedRow
// has 0.79; and of the widest, in clusters of two for a row, as registers do not last: 0.87 at
// 751x53248, where sharedRow has 0.77, and 0.90 at 256x65536, from two slots that are read again.
func persistentRow(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	switch {
	case !measuredFwd(p, d) || p.Op != kernels.LayerNorm || row%16 != 0 || row > 128<<10:
		return false
	case row > 56<<10 && row <= 72<<10 && row != 64<<10: // 23.6 us, not 30.8, at 716x29312
		return p.M >= 4*int64(d.Units)
	}
	return row > 96<<10 && p.M >= int64(d.Units)
}

// narrowLN is c for layernorm's rows of 256 to 1024 columns: bulk copies of eight rows where
// they are many, which beyond 512 columns are read again from shared memory, and each thread's
// own copies below, of four rows beyond 512 bytes.
func narrowLN(c kernels.Config, p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	row := p.N * p.DType.Size()
	rows, path := 8, 2
	if p.M*row <= d.CacheBytes/4 {
		rows, path = 8>>flag(row > 512), 1
	}
	c = c.With(set(kernels.BlockRows, rows), set(kernels.Warps, 4), set(kernels.CopyPath, path), set(kernels.PerSM, 0))
	if row > 1<<10 {
		c = c.With(set(kernels.Reload, 1), set(kernels.CacheHint, 2))
	}
	return c
}

// pipedNarrow says whether a forward has many rows of whole vectors that one_shot and groups of
// lanes as wide as a warp do not suit: of 257 to 1536 columns that are no power of two, where
// lanes are left without a vector, and in rmsnorm of 512 to 1024 that are no multiple of a thread's
// four: 7.5 us by one_shot at 4001x1024, and 7.3.
func pipedNarrow(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	if !measuredFwd(p, d) || row%16 != 0 || p.M < 8*int64(d.Units) {
		return false
	}
	between := row > 512 && row <= 3<<10 && row&(row-1) != 0
	return between || p.Op == kernels.RMSNorm && row > 512 && row <= 2<<10 && p.M%4 != 0
}

// narrowTile is c for them: 16 lanes for a row, of eight rows, that read it again from shared
// memory from 512 columns on, and 32 for layernorm's beyond 1024. Copies are each thread's own, or bulk
// ones for rmsnorm's beyond 1024 columns and, of an x of a quarter of the L2, below 512, layernorm's of 768 to
// 1024, and of an x larger than the L2 below that. In us, one_shot, or two rows of 64 lanes, and this (H200, bf16,
// neighbours/between.jsonl.gz): rmsnorm 17011x640 14.0 and 13.0, 20011x768 17.4 and 16.7, 9973x1536 17.2 and
// 16.7, 4001x1024 8.1 and 7.5; layernorm 11003x1152 16.2 and 15.3, 9973x1536 18.0 and 17.2. Below 512
// columns y is better not kept, and rmsnorm's beyond 384 read again: 16.4 us at 30000x480, and 15.9 so.
func narrowTile(c kernels.Config, p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	row, ln, x := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, p.M*p.N*p.DType.Size()
	rows, path, again := 8, 1, row >= 1<<10
	if row < 1<<10 {
		again = !ln && row > 768
		c = c.With(set(kernels.CacheHint, 2))
	}
	switch {
	case ln && row > 2<<10:
		rows = 4
	case row > 2<<10, ln && row >= 3<<9, x > d.CacheBytes && ln, x > d.CacheBytes/4 && !ln && row < 1<<10:
		path = 2
	}
	return c.With(set(kernels.BlockRows, rows), set(kernels.Warps, 4), set(kernels.CopyPath, path), set(kernels.PerSM, 0),
		set(kernels.Reload, int(flag(again))))
}

// sharedRow is how many programs of 128 threads share a wide row of whole vectors, each slice
// once, which they read again from shared memory: slices are of 8 to 20 KiB. On an H200 (bf16)
// that is 0.97 to 1.02 of the stream from 10240 to 65536 columns in rmsnorm, and one program for
// a row was 1 to 12% slower; in layernorm 0.88 to 1.00 as far as 49152 but for 0.78 at 285x36864, and
// up to 11%. Of as many as 900 rows of 36864 one row at a time is better (persistentRow), and of
// more than 49152 columns. It is 1 where there is no such rule.
func sharedRow(p kernels.Problem, d kernels.DeviceInfo) int {
	row, ln := p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	switch {
	case !measuredFwd(p, d) || row%16 != 0 || row <= 16<<10 || row > 128<<10 || ln && row > 96<<10 && p.M >= int64(d.Units):
		return 1
	case ln && row > 96<<10:
		return 4
	case row <= 32<<10:
		return 2
	case row <= 64<<10 || !ln && row <= 80<<10:
		return 4
	}
	return 8
}

// pastL2 is a base rule that leaves the streaming hint out of the stores of a y larger than
// the L2. With the hint y leaves it while x is still read; without, the last of it stays.
// On an H200 (bf16, default group, the same configs with and without) that is 1.7% faster at
// 67 MB, 2% at 100, 1% from 134 on, and 0 to 1% slower up to 34 MB. Layernorm's persistentRow
// is 1 to 7% slower without it. smem_pipe's odd rows are faster with it: 49.2 us, not 55.3, at
// 30011x1411 (rmsnorm). From 134 MB on x should be the last to leave (minKept), which is
// another 2 to 4%; but for asynchronous copies of rows that are no power of two, or of clusters, of which NVRTC makes
// illegal instructions (nvrtc.checkCopies): with the hint 5557x11776 ended by one in both ops.
func pastL2(base func(kernels.Problem, kernels.DeviceInfo) kernels.Config) func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
	return func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
		c, row := base(p, d), p.N*p.DType.Size()
		r, _ := unevenRule(p, d)
		switch {
		case !measuredFwd(p, d) || p.M*row <= d.CacheBytes || persistentRow(p, d):
			return c
		case row%4 != 0 && r.design == "smem_pipe":
			return c
		case keepsX(p, d) && (c.Get(kernels.CopyPath) != 1 || c.Get(kernels.Cluster) == 1 && isPow2(int(p.N))):
			return c.With(set(kernels.CacheHint, 6))
		}
		return c.With(set(kernels.CacheHint, 2))
	}
}

// measuredFwd says whether later rules were read off such a forward, or one like it.
func measuredFwd(p kernels.Problem, d kernels.DeviceInfo) bool {
	return p.Pass == kernels.Fwd && d.Kind == kernels.KindCUDA && sm90(d) && p.DType.Size() == 2 && !p.Residual && !p.FP8
}

// A fwdRule is what is best for rows up to so many bytes: the design, the rows of a program,
// its warps, the bytes of a vector (16 are those around the row: ragged.cuh), slots, programs
// per multiprocessor (0 for one to a tile), and whether the weights are hoisted.
type fwdRule struct {
	row                                    int64
	design                                 string
	rows, warps, vec, stages, perSM, hoist int
}

// of is c with what designs have in common of the rule.
func (r fwdRule) of(c kernels.Config) kernels.Config {
	return c.With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.VectorBytes, r.vec),
		set(kernels.Stages, r.stages), set(kernels.PerSM, r.perSM))
}

// ruleFor is the first of rules that goes as far as the row, if it has a design.
func ruleFor(rules []fwdRule, row int64) (r fwdRule, ok bool) {
	i := slices.IndexFunc(rules, func(r fwdRule) bool { return row <= r.row })
	if i < 0 || rules[i].design == "" {
		return r, false
	}
	return rules[i], true
}

// wholeRules are for rows of whole vectors, of 16-bit types, at widths that are not
// smem_pipe's: at 256 bytes a warp for eight rows, and hoisted weights; beyond smem_pipe's
// best widths in rmsnorm few threads to a row, whose vectors are then many and waste none.
// Of the records of an H200 (bf16, default group) they are within 0 to 3% of the best at
// N = 128 and 8192 to 16384, where fwdCTARegBase is 1 to 18% behind, and within 1 to 2% at
// 32768 and 65536.
var wholeRules = map[kernels.Op][]fwdRule{
	kernels.RMSNorm: {
		{128, "", 0, 0, 0, 0, 0, 0}, {256, "cta_reg", 8, 1, 0, 1, 0, 1}, {8 << 10, "", 0, 0, 0, 0, 0, 0},
		{32 << 10, "cta_reg", 1, 4, 0, 1, 0, 1}, {48 << 10, "cta_reg", 1, 8, 0, 1, 0, 0}, {112 << 10, "cta_reg", 1, 16, 0, 1, 0, 0},
	},
	kernels.LayerNorm: {{128, "", 0, 0, 0, 0, 0, 0}, {256, "cta_reg", 8, 1, 0, 1, 0, 1}},
}

// fwdRegBase is fwdCTARegBase but for the rows of unevenRule and wholeRules.
func fwdRegBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row := fwdCTARegBase(p, d), p.N*p.DType.Size()
	r, ok := unevenRule(p, d)
	if row%16 == 0 && measuredFwd(p, d) && (row > 256 || p.M >= 64*int64(d.Units)) {
		r, ok = ruleFor(wholeRules[p.Op], row)
	}
	if ok && r.design == "cta_reg" {
		if c := r.of(base).With(set(kernels.Hoist, r.hoist)); refuseCTAReg(p, c, d) == nil {
			return c
		}
	}
	return base
}

// A oneShotRule is what is best for rows up to so many bytes, of an x up to so many eighths
// of the L2 (0 for any): the rows of a program, its warps, the rows of a thread, and the cache
// hint. One without rows leaves them to the other designs.
type oneShotRule struct {
	row, most                 int64
	rows, warps, unroll, hint int
}

// The rules were read off an H200 (bf16, default group), whole grids beside the bases of that
// day: rmsnorm's rows up to 2 KiB are 1 to 6% faster than in cta_reg and smem_pipe, and of 8192
// columns 2 to 4%; layernorm's of 64 and 128 columns 2 to 10%, of 256 and 512 3 to 6% where x has a
// quarter of the L2 or less, and of 2048 1 to 3% where it has more than twice of it. Elsewhere
// smem_pipe is as good or better.
var oneShotRules = map[kernels.Op][]oneShotRule{
	kernels.RMSNorm: {
		{128, 1, 16, 4, 1, 0}, {128, 0, 16, 2, 1, 2}, {256, 0, 8, 1, 2, 2}, {512, 1, 8, 4, 1, 2}, {512, 0, 8, 1, 4, 2},
		{1 << 10, 2, 8, 2, 1, 2}, {1 << 10, 0, 4, 2, 4, 2}, {2 << 10, 8, 4, 4, 4, 2}, {2 << 10, 0, 4, 2, 4, 2},
		{14 << 10, 0, 0, 0, 0, 0}, {16 << 10, 0, 1, 4, 1, 2},
	},
	kernels.LayerNorm: {
		{128, 1, 16, 4, 1, 0}, {128, 0, 16, 1, 2, 0}, {256, 8, 16, 2, 4, 2}, {256, 0, 8, 1, 4, 2}, {512, 2, 8, 1, 2, 0}, {512, 0, 0, 0, 0, 0},
		{1 << 10, 2, 8, 2, 2, 0}, {2 << 10, 0, 0, 0, 0, 0},
		{4 << 10, 16, 0, 0, 0, 0}, {4 << 10, 0, 1, 2, 1, 2}, {8 << 10, 0, 0, 0, 0, 0},
		{12 << 10, 2, 0, 0, 0, 0}, {10 << 10, 8, 1, 4, 1, 0}, {12 << 10, 3, 0, 0, 0, 0}, {12 << 10, 6, 1, 8, 1, 0},
	},
}

// oneShotRuleFor is the rule for the row, or for few of them. Few uneven ones (fewUneven)
// have a program each: 4.1, 4.5 and 4.5 us on an H200 (rmsnorm 173x409, 229x541, 71x3571), where
// smem_pipe took 4.3, 4.7 and 4.7 on that day; layernorm 4.3, 4.7 and 4.9, not 4.7, 4.9 and 5.2.
func oneShotRuleFor(p kernels.Problem, d kernels.DeviceInfo) (r oneShotRule, ok bool) {
	row := p.N * p.DType.Size()
	switch {
	case !measuredFwd(p, d):
		return r, false
	case fewUneven(p, d):
		r = oneShotRule{rows: 1, warps: 16, unroll: 1}
		switch {
		case row <= 1<<10:
			r.warps = 1
		case row <= 2<<10 && p.Op == kernels.LayerNorm && p.M > 100:
			r.rows, r.warps = 2, 2 // 4.1 us, not 4.7, at 200x900
		case row <= 2<<10 && p.Op == kernels.LayerNorm:
			r.warps = 4
		case row <= 4<<10:
			r.warps = 8
		}
		return r, true
	case row%16 != 0 || p.M < 8*int64(d.Units), pipedNarrow(p, d) && p.Op == kernels.RMSNorm:
		return r, false
	case p.Op == kernels.LayerNorm && row >= 512 && row <= 1<<10 && p.M%8 != 0:
		return r, false // 9.0 us at 20011x256 and 8.9 at 9001x512, where smem_pipe has 8.4 and 7.9
	}
	rules := oneShotRules[p.Op]
	i := slices.IndexFunc(rules, func(r oneShotRule) bool {
		return row <= r.row && (r.most == 0 || 8*p.M*row <= r.most*d.CacheBytes)
	})
	if i < 0 || rules[i].rows == 0 {
		return r, false
	}
	r = rules[i]
	// Four rows to a program of one warp as long as all of them run at once: 7.2 us at 16384x256, not
	// 7.5; and at 20011x256 9.0, where eight rows have 8.2.
	if r.warps == 1 && p.Op == kernels.RMSNorm && row > 256 && p.M <= 4*32*int64(d.Units) {
		r.rows = 4
	}
	return r, true
}

// oneShotChoice is the config of one_shot where it is the one to take.
func oneShotChoice(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	if c, ok = fewWide(p, d); !ok {
		c, ok = fewWhole(p, d)
	}
	if !ok {
		c, ok = unevenOneShot(p, d)
	}
	if !ok {
		r, found := oneShotRuleFor(p, d)
		if !found {
			return c, false
		}
		if r.hint == 2 && keepsX(p, d) {
			r.hint = 6 // as in pastL2
		}
		c = fwdOneShotBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.Unroll, r.unroll),
			set(kernels.Cluster, 1), set(kernels.CacheHint, r.hint))
	}
	return c, refuseOneShot(p, c, d) == nil
}

// fewWide shares wide rows that are less than half as many as the multiprocessors among clusters of
// up to eight programs, of a thread for eight elements and of at least 128 threads; and whole ones of 12288
// columns and more, that are no more than the multiprocessors, among four or eight of 128 threads. On an
// H200 (bf16) 29x17389 takes 5.5 us in rmsnorm and 6.1 in layernorm, a program for each row 6.7 and 8.3; 1x8192
// 4.1 and 4.5, and 4.6 and 5.0. Four programs of 512 threads took 5.5 and 7.5 us at 64x20000, and those of 128
// 5.2 (eight) and 5.8 (neighbours/few-fwd.jsonl.gz).
func fewWide(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row, ln, cluster, warps := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, 1, 1
	whole, shared := row%16 == 0 && row >= 24<<10, row%16 != 0 && row > 12000
	switch {
	case !measuredFwd(p, d) || fewUneven(p, d) || row < 4<<10 || p.M > int64(d.Units):
		return c, false
	case whole && row > 96<<10 && 2*p.M > int64(d.Units):
		return c, false // 8.5 us by smem_pipe at 90x53152 (rmsnorm), and 10.1
	case shared && (2*p.M <= int64(d.Units) || 4*p.M <= 3*int64(d.Units) && row > 32<<10):
		cluster, warps = 8, 8<<flag(p.M <= 16 && !ln)>>flag(2*p.M > int64(d.Units) && ln) // 7.3 us, not 9.6, at 36x47007 (rmsnorm) by four of 1024 threads
	case !whole && 2*p.M > int64(d.Units):
		return c, false
	case whole && ln && row >= 48<<10 && 4*p.M <= int64(d.Units):
		cluster, warps = 8, 4 // 4.5 us, not 4.9, at 2x26176
	case ln && row%16 == 0 && row <= 8<<10 && p.M > 8:
		return c, false // 4.1 us at 23x2048 by a program for each, and 4.4 by two
	case whole && (ln && row < 64<<10 || p.M > 3*int64(d.Units)/4):
		cluster, warps = 4, 4 // 128x16384: 6.7 us in layernorm, and 7.6 with eight
		switch nearlyAll := ln && 8*p.M > 7*int64(d.Units); {
		case nearlyAll && row > 40<<10:
			cluster, warps = 1, 16 // 128x27648: 8.2 us, and 9.4 by four
		case nearlyAll && row > 32<<10:
			cluster, warps = 2, 8 // 128x18432: 6.8 us, and 7.8
		}
	case whole:
		cluster, warps = 8, 4
	default:
		for cluster < 8 && 2*int64(cluster)*p.M <= 2*int64(d.Units) && 2*cluster*1024 <= int(p.N) {
			cluster *= 2
		}
		for warps < 32 && 2*warps*32*8*cluster <= int(p.N) {
			warps *= 2
		}
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 1), set(kernels.Warps, warps), set(kernels.Unroll, 1), set(kernels.Cluster, cluster)), true
}

// A smallRule is what is best for a small x of rows up to so many bytes: the rows of a program, its warps, and
// the programs of a row.
type smallRule struct {
	row                  int64
	rows, warps, cluster int
}

// smallRules are for an x of no more than 5 MB (6 in layernorm's rows below 1024 columns): up to 512
// columns programs of 64 to 128 threads, a lane for each vector of a row as far as a warp goes, and from
// 1024 columns on a program for each row, or two of the widest. On an H200 (bf16,
// neighbours/few-fwd.jsonl.gz) that is 0 to 8% behind the best of a grid, where the rules for more rows
// were up to 24%: 2003x512 5.0 us, not 5.9, in rmsnorm and 5.0, not 5.1, in layernorm; 256x4096 4.9, not
// 5.6, and 4.9, not 5.5.
var smallRules = map[kernels.Op][]smallRule{
	kernels.RMSNorm: {
		{256, 16, 4, 1}, {1<<10 - 1, 8, 4, 1}, {2<<10 - 1, 4, 4, 1}, {6 << 10, 1, 4, 1}, {10 << 10, 1, 8, 1},
		{24 << 10, 1, 16, 1}, {32 << 10, 1, 16, 2},
	},
	kernels.LayerNorm: {
		{128, 8, 2, 1}, {2<<10 - 1, 8, 4, 1}, {2 << 10, 2, 4, 1}, {8 << 10, 1, 4, 1}, {10 << 10, 1, 8, 1},
		{16 << 10, 1, 16, 1}, {32 << 10, 1, 4, 2},
	},
}

// someWide says whether there are two to four rows of 5121 to 8192 columns for each multiprocessor, a program each: less
// threads are better then than smallRules has for fewer. 400x5376 5.7 us in rmsnorm, and 6.6 with 16 warps, 300x7168 6.2 in
// layernorm, and 7.7 (H200, bf16, neighbours/few-hundred.jsonl.gz).
func someWide(p kernels.Problem, d kernels.DeviceInfo) bool {
	row, units := p.N*p.DType.Size(), int64(d.Units)
	return row > 10<<10 && row <= 16<<10 && p.M > 2*units && p.M <= 4*units
}

// twoRows is one_shot with two rows to a program, and to a thread from 15 for each multiprocessor on, for rows of 1025 to 1536
// columns: 5.9 us at 1744x1336 and 7.7 at 3000x1448 in rmsnorm, and 6.7 and 8.4 with one (few-hundred). In
// layernorm the pipeline is as good from 20 on.
func twoRows(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	units, most := int64(d.Units), int64(27)
	if p.Op == kernels.LayerNorm {
		most = 20
	}
	if p.N*p.DType.Size() <= 2<<10 || p.M < 11*units || p.M > most*units {
		return c, false
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 2), set(kernels.Warps, 2), set(kernels.Unroll, 1+int(flag(p.M >= 15*units))),
		set(kernels.Cluster, 1)), true
}

// fewWhole is one_shot by smallRules, for rows of whole vectors. rmsnorm's of 1025 to 4096 columns have a
// program each up to 10 MB, of fewer threads.
func fewWhole(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row, ln := p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	x, narrow := p.M*row, row < 2<<10
	rules := smallRules[p.Op]
	i := slices.IndexFunc(rules, func(r smallRule) bool { return row <= r.row })
	if !measuredFwd(p, d) || row%16 != 0 || row <= 64 || i < 0 {
		return c, false
	}
	if narrow && p.M >= 8*int64(d.Units) && (p.M%16 == 0 && row&(row-1) == 0 || p.M > 32*int64(d.Units)) {
		return c, false // oneShotRules were read off whole tiles of powers of two: 5.8 us at 4096x512 in layernorm, and 6.6 by this
	}
	r := rules[i]
	if !ln && row <= 512 && p.M <= 16 { // of a warp each: 3.5 us, not 4.0, at 4x128
		r = smallRule{rows: int(max(512/ceilPow2(row), 1)), warps: 1, cluster: 1}
	}
	if row > 512 && row <= 2<<10 && p.M <= 2*int64(d.Units) && (narrow || ln) { // 4.0 us, not 4.3, at 200x480 in rmsnorm
		r = smallRule{rows: 1, warps: 1 << (flag(ln) + flag(!narrow)), cluster: 1}
		if ln && narrow && row > 1<<10 {
			r.rows = 2 // 4.08 us, not 4.16, at 40x1000
		}
	}
	some := someWide(p, d)
	switch {
	case some:
		r = smallRule{rows: 1, warps: 8 >> flag(ln), cluster: 1}
	case r.rows == 1 && row <= 3<<10:
		if c, ok := twoRows(p, d); ok {
			return c, true
		}
	}
	if units := int64(d.Units); !ln && row > 4<<10 && row <= 6<<10 && p.M > 8*units && p.M <= 15*units {
		return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 2), set(kernels.Warps, 4), set(kernels.Unroll, 2), set(kernels.Cluster, 1),
			set(kernels.CacheHint, 2)), true // 6.6 us, not 7.1, at 1600x2176
	}
	if most := d.CacheBytes / 12; x > most && !(ln && narrow && x <= d.CacheBytes/10) && !(ln && some && x <= d.CacheBytes/9) {
		switch {
		case x > 2*most || ln && (row <= 4<<10 || row > 5<<10) || row <= 2<<10 || row > 8<<10:
			return c, false
		case !ln && row > 4<<10 && p.M > 8*int64(d.Units):
			return c, false // more programs than run at once: 8.4 us at 1311x3328, and 7.6 by smem_pipe
		}
		r.warps = 2 << flag(row > 4<<10 && !ln)
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.Unroll, 1), set(kernels.Cluster, r.cluster)), true
}
