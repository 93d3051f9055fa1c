package families

import (
	"slices"

	"normbench/kernels"
)

// The later launch rules of forwards by smem_pipe and cta_reg: see base.go.

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
		c = r.of(c).With(set(kernels.CopyPath, 1), set(kernels.Cluster, max(r.cluster, 1)), set(kernels.Reload, r.reload))
		if r.hint > 0 {
			c = c.With(set(kernels.CacheHint, r.hint))
		}
	case pipedNarrow(p, d):
		c = narrowTile(c, p, d)
	case ln && row%16 == 0 && row >= 512 && row <= 2<<10 && p.M >= 8*int64(d.Units) && (row <= 1<<10 || p.M*row > d.CacheBytes/4):
		c = narrowLN(c, p, d)
	case persistentRow(p, d):
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 16), set(kernels.CopyPath, 1), set(kernels.PerSM, 1))
		switch {
		case row > 80<<10:
			c = c.With(set(kernels.Stages, 2), set(kernels.CopyPath, 2), set(kernels.Reload, 1), set(kernels.Cluster, 2), set(kernels.CacheHint, 2*int(flag(row <= 112<<10))))
		case row <= 64<<10:
			c = c.With(set(kernels.Stages, 2), set(kernels.CopyPath, 2), set(kernels.PerSM, 2), set(kernels.Reload, 1), set(kernels.Cluster, 2), set(kernels.CacheHint, 2))
		}
	case sharedRow(p, d) > 1:
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Reload, 1),
			set(kernels.Cluster, sharedRow(p, d)), set(kernels.CacheHint, 2))
		switch {
		case !ln && row > 64<<10 && row <= 96<<10 && p.M <= 2*int64(d.Units): // 9.3 us, not 10.5, at 163x34424
			c = c.With(set(kernels.Warps, 8), set(kernels.CopyPath, 2), set(kernels.Cluster, 4))
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
// has 0.79; and of the widest, in clusters of two for a row, from two slots that are read again, as registers do not last: 0.87 at
// 751x53248, where sharedRow has 0.77, and 0.90 at 256x65536, and 21.8 us at 294x54656, which is read once in 29.4; and of those of more than 28672 columns,
// whose four programs a row are more than run at once: 23.6 us at 716x29312, and 30.8 by sharedRow (gaps.jsonl.gz). Rows of
// 40961 to 49151 columns are like the widest: 142.5 us at 3039x45568, and 176.2 by sharedRow, but 72.2 and 69.8 at 1409x49152.
func persistentRow(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	switch {
	case !measuredFwd(p, d) || p.Op != kernels.LayerNorm || row%16 != 0 || row > 128<<10:
		return false
	case row > 56<<10 && row <= 72<<10 && row != 64<<10: // at 32768 columns sharedRow's four programs are as fast
		return p.M >= 4*int64(d.Units)
	case row > 80<<10 && row <= 96<<10:
		return row != 96<<10 && p.M >= 4*int64(d.Units)
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
// more than 49152 columns, but for fewer rows than multiprocessors, which four programs of 256 threads share: 10.2 us at
// 90x53152, and 12.6 by one_shot. It is 1 where there is no such rule.
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
// 30011x1411 (rmsnorm), and wide uneven ones with a program to each: 35.3 us, not 42.2, at 1952x16390. From 134 MB on x should be the last to leave (minKept), which is
// another 2 to 4%; but for asynchronous copies of rows that are no power of two, or of clusters, of which NVRTC makes
// illegal instructions (nvrtc.checkCopies): with the hint 5557x11776 ended by one in both ops. Whole rows of 513 to 5120 columns
// take bulk copies for it: 158 us, not 163, at 73784x2304 in both ops (neighbours/narrow.jsonl.gz).
func pastL2(base func(kernels.Problem, kernels.DeviceInfo) kernels.Config) func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
	return func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
		c, row := base(p, d), p.N*p.DType.Size()
		r, _ := unevenRule(p, d)
		switch {
		case !measuredFwd(p, d) || p.M*row <= d.CacheBytes || persistentRow(p, d):
			return c
		case r.design == "smem_pipe" && (row%4 != 0 || r.perSM == 0):
			return c // fwdPipeBase has chosen
		case keepsX(p, d) && (c.Get(kernels.CopyPath) != 1 || c.Get(kernels.Cluster) == 1 && isPow2(int(p.N))):
			return c.With(set(kernels.CacheHint, 6))
		case keepsX(p, d) && c.Get(kernels.Cluster) == 1 && row%16 == 0 && row > 1<<10 && row <= 10<<10:
			return c.With(set(kernels.CopyPath, 2), set(kernels.CacheHint, 6))
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
		r.fwdRule, ok = ruleFor(wholeRules[p.Op], row)
	}
	if ok && r.design == "cta_reg" {
		if c := r.of(base).With(set(kernels.Hoist, r.hoist)); refuseCTAReg(p, c, d) == nil {
			return c
		}
	}
	return base
}
