package families

import (
	"slices"

	"normbench/kernels"
)

// The later launch rules of forwards by smem_pipe and cta_reg: see base.go.

// fwdPipeBase is fwdSmemPipeBase but for widths of 16-bit rows at which an H200 knows better (records of the default group and
// of neighbours/, bf16): those of unevenFwds and of the tables below, with one slot to a program and each row read once, but for
// what its zone sets.
func fwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base := fwdSmemPipeBase(p, d)
	if !measuredFwd(p, d) {
		return base
	}
	c := base.With(onePipe.Settings()...)
	if r, _ := unevenRule(p, d); r.design == "smem_pipe" {
		c = c.With(oneUneven.Settings()...).With(r.set.Settings()...)
	} else {
		zones := pipes
		if inZone(narrowRows, p, d) {
			zones = narrowPipes
		}
		var ok bool
		if c, ok = firstConfig(zones, c, p, d); !ok {
			return base
		}
	}
	if refuseFwdSmemPipe(p, c, d) == nil {
		return c
	}
	return base
}

// What the zones of smem_pipe leave out, unevenFwds' more than the others', and those of cta_reg.
var (
	onePipe   = at("st1.rl0.cl1")
	oneUneven = at("br1.v0.k0.cp1")
	oneReg    = at("br1.v0.st1.k0.ho0")
)

var pipes = slices.Concat(narrowLN, persistentRows, sharedRows, rowPipes)

// narrowRows are many rows of whole vectors that one_shot and groups of lanes as wide as a warp do not suit: of 257 to 1536
// columns that are no power of two, where lanes are left without a vector, and in rmsnorm of 512 to 1024 that are no multiple of a
// thread's four: 7.5 us by one_shot at 4001x1024, and 7.3.
var narrowRows = []zoneConfig{
	{zone{over: 512, most: 3 << 10, aligned: 16, columns: otherwise, least: 8}, leave},
	{zone{op: rmsOp, over: 512, most: 2 << 10, aligned: 16, odd: 4, least: 8}, leave},
}

// narrowPipes are for them: 16 lanes for a row, of eight rows, that read it again from shared
// memory from 512 columns on, and 32 for layernorm's beyond 1024. Copies are each thread's own, or bulk
// ones for rmsnorm's beyond 1024 columns and, of an x of a quarter of the L2, below 512, layernorm's of 768 to
// 1024, and of an x larger than the L2 below that. In us, one_shot, or two rows of 64 lanes, and this (H200, bf16,
// neighbours/between.jsonl.gz): rmsnorm 17011x640 14.0 and 13.0, 20011x768 17.4 and 16.7, 9973x1536 17.2 and
// 16.7, 4001x1024 8.1 and 7.5; layernorm 11003x1152 16.2 and 15.3, 9973x1536 18.0 and 17.2. Below 512
// columns y is better not kept, and rmsnorm's beyond 384 read again: 16.4 us at 30000x480, and 15.9 so.
var narrowPipes = []zoneConfig{
	{zone{op: lnOp, over: 2 << 10}, at("br4.w4.k0.cp1.rl1")},
	{zone{op: lnOp, over: 3<<9 - 1}, at("br8.w4.k0.cp2.rl1")},
	{zone{op: lnOp, over: 1<<10 - 1, xOver: 1}, at("br8.w4.k0.cp2.rl1")},
	{zone{op: lnOp, over: 1<<10 - 1}, at("br8.w4.k0.cp1.rl1")},
	{zone{op: lnOp, xOver: 1}, at("br8.w4.k0.cp2.ch2")},
	{zone{op: lnOp}, at("br8.w4.k0.cp1.ch2")},
	{zone{over: 2 << 10}, at("br8.w4.k0.cp2.rl1")},
	{zone{over: 1<<10 - 1}, at("br8.w4.k0.cp1.rl1")},
	{zone{over: 768, xOver: 1. / 4}, at("br8.w4.k0.cp2.rl1.ch2")},
	{zone{over: 768}, at("br8.w4.k0.cp1.rl1.ch2")},
	{zone{xOver: 1. / 4}, at("br8.w4.k0.cp2.ch2")},
	{zone{}, at("br8.w4.k0.cp1.ch2")},
}

// narrowLN are layernorm's rows of 256 to 1024 columns: bulk copies of eight rows where
// they are many, which beyond 512 columns are read again from shared memory, and each thread's
// own copies below, of four rows beyond 512 bytes: 1 to 10%.
var narrowLN = []zoneConfig{
	{zone{op: lnOp, over: 1 << 10, most: 2 << 10, aligned: 16, least: 8, xOver: 1. / 4}, at("br8.w4.k0.cp2.rl1.ch2")},
	{zone{op: lnOp, over: 511, most: 1 << 10, aligned: 16, least: 8, xOver: 1. / 4}, at("br8.w4.k0.cp2")},
	{zone{op: lnOp, over: 511, most: 512, aligned: 16, least: 8}, at("br8.w4.k0.cp1")},
	{zone{op: lnOp, over: 512, most: 1 << 10, aligned: 16, least: 8}, at("br4.w4.k0.cp1")},
}

// persistentRows have one program of 16 warps for each multiprocessor, that takes the next row into shared memory while it writes the
// last from registers: layernorm of many rows of 32768 to 36864 columns, 0.86 of the stream at 900x36864 (H200, bf16), where sharedRows
// have 0.79; and of the widest, in clusters of two for a row, from two slots that are read again, as registers do not last: 0.87 at
// 751x53248, where sharedRows have 0.77, and 0.90 at 256x65536, and 21.8 us at 294x54656, which is read once in 29.4; and of those of more than
// 28672 columns, whose four programs a row are more than run at once: 23.6 us at 716x29312, and 30.8 by sharedRows (gaps.jsonl.gz), but at
// 32768 those are as fast. Rows of 40961 to 49151 columns are like the widest: 142.5 us at 3039x45568, and 176.2 by sharedRows, but
// 72.2 and 69.8 at 1409x49152.
var persistentRows = []zoneConfig{
	{zone{op: lnOp, over: 56 << 10, most: 64<<10 - 1, aligned: 16, least: 4}, at("br1.w16.st2.k2.cp2.rl1.cl2.ch2")},
	{zone{op: lnOp, over: 64 << 10, most: 72 << 10, aligned: 16, least: 4}, at("br1.w16.k1.cp1")},
	{zone{op: lnOp, over: 80 << 10, most: 96<<10 - 1, aligned: 16, least: 4}, at("br1.w16.st2.k1.cp2.rl1.cl2.ch2")},
	{zone{op: lnOp, over: 96 << 10, most: 112 << 10, aligned: 16, least: 1}, at("br1.w16.st2.k1.cp2.rl1.cl2.ch2")},
	{zone{op: lnOp, over: 112 << 10, most: 128 << 10, aligned: 16, least: 1}, at("br1.w16.st2.k1.cp2.rl1.cl2.ch0")},
}

// sharedRows are wide rows of whole vectors that programs of 128 threads share, each slice
// once, which they read again from shared memory: slices are of 8 to 20 KiB. On an H200 (bf16)
// that is 0.97 to 1.02 of the stream from 10240 to 65536 columns in rmsnorm, and one program for
// a row was 1 to 12% slower; in layernorm 0.88 to 1.00 as far as 49152 but for 0.78 at 285x36864, and
// up to 11%. Fewer rows of more than 49152 columns than multiprocessors have four programs of 256 threads: 10.2 us at
// 90x53152, and 12.6 by one_shot.
var sharedRows = []zoneConfig{
	{zone{op: rmsOp, over: 64 << 10, most: 96 << 10, aligned: 16, upTo: 2}, at("br1.w8.k0.cp2.rl1.cl4.ch2")}, // 9.3 us, not 10.5, at 163x34424
	{zone{op: lnOp, over: 96 << 10, most: 128 << 10, aligned: 16, below: 1}, at("br1.w8.k0.cp1.rl1.cl4.ch0")},
	{zone{op: lnOp, over: 32 << 10, most: 36 << 10, aligned: 16, least: 4}, at("br1.w8.k0.cp1.ch0")}, // 30.9 us, not 32.7, at 1567x17536
	{zone{over: 16 << 10, most: 32 << 10, aligned: 16}, at("br1.w4.k0.cp1.rl1.cl2.ch2")},
	{zone{over: 32 << 10, most: 64 << 10, aligned: 16}, at("br1.w4.k0.cp1.rl1.cl4.ch2")},
	{zone{op: rmsOp, over: 64 << 10, most: 80 << 10, aligned: 16}, at("br1.w4.k0.cp1.rl1.cl4.ch2")},
	{zone{op: rmsOp, over: 80 << 10, most: 128 << 10, aligned: 16}, at("br1.w4.k0.cp1.rl1.cl8.ch2")},
	{zone{op: lnOp, over: 64 << 10, most: 96 << 10, aligned: 16}, at("br1.w4.k0.cp1.rl1.cl8.ch2")},
}

// rowPipes are rmsnorm's rows of 1537 to 4096 columns and layernorm's of 1025 to 8192, of 32 to 128 threads each that read them again from
// shared memory, 1 to 5%; layernorm's of 8192 have two programs where y is no larger than two L2, 1 to 10%.
var rowPipes = []zoneConfig{
	{zone{op: lnOp, over: 4 << 10, most: 8 << 10, aligned: 16, below: 8}, at("br1.w4.k8.cp1")},
	{zone{op: lnOp, over: 2 << 10, most: 8 << 10, aligned: 16, least: 8}, at("br2.w4.k0.cp1.rl1.ch2")},
	{zone{op: lnOp, over: 16<<10 - 1, most: 16 << 10, least: 2, xMost: 2}, at("br1.w4.k0.cp1.cl2")},
	{zone{op: lnOp, over: 8 << 10, most: 10 << 10, aligned: 16, above: 8, upTo: 12}, at("br2.w8.k0.cp1")},      // 9.6 us, not 12.2, at 1295x4544
	{zone{op: lnOp, over: 10 << 10, most: 14 << 10, aligned: 16, above: 8, upTo: 12}, at("br1.w8.k2.cp1.ch2")}, // 11.0 us, not 12.5, at 1098x6400
	{zone{op: lnOp, over: 8 << 10, most: 16 << 10, aligned: 16, least: 2, xOver: 1}, at("br1.w4.k0.cp1.rl1")},
	{zone{op: lnOp, over: 8 << 10, most: 16 << 10, aligned: 16, least: 2}, at("br1.w4.k0.cp1")},
	{zone{op: rmsOp, over: 3 << 10, most: 4 << 10, aligned: 16}, at("br4.w4.k0.cp1.rl1")},
	{zone{op: rmsOp, over: 4 << 10, most: 5 << 10, aligned: 16}, at("br2.w4.k0.cp1.ch2")}, // 8.5 us, not 9.6, at 2698x2144
	{zone{op: rmsOp, over: 5 << 10, most: 8 << 10, aligned: 16}, at("br2.w4.k0.cp1.rl1")},
}

// pastL2 is a base rule that leaves the streaming hint out of the stores of a y larger than
// the L2. With the hint y leaves it while x is still read; without, the last of it stays.
// On an H200 (bf16, default group, the same configs with and without) that is 1.7% faster at
// 67 MB, 2% at 100, 1% from 134 on, and 0 to 1% slower up to 34 MB. Layernorm's persistentRows
// are 1 to 7% slower without it. smem_pipe's odd rows are faster with it: 49.2 us, not 55.3, at
// 30011x1411 (rmsnorm), and wide uneven ones with a program to each: 35.3 us, not 42.2, at 1952x16390. From 134 MB on x should be the last to leave (minKept), which is
// another 2 to 4%; but for asynchronous copies of rows that are no power of two, or of clusters, of which NVRTC makes
// illegal instructions (nvrtc.checkCopies): with the hint 5557x11776 ended by one in both ops. Whole rows of 513 to 5120 columns
// take bulk copies for it: 158 us, not 163, at 73784x2304 in both ops (neighbours/narrow.jsonl.gz).
func pastL2(base func(kernels.Problem, kernels.DeviceInfo) kernels.Config) func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
	return func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
		c, row := base(p, d), p.N*p.DType.Size()
		r, _ := unevenRule(p, d)
		switch {
		case !measuredFwd(p, d) || p.M*row <= d.CacheBytes || inZone(persistentRows, p, d):
			return c
		case r.design == "smem_pipe" && (row%4 != 0 || r.set.Get(kernels.PerSM) <= 0):
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

// wholeRegs are cta_reg's for rows of whole vectors, of 16-bit types, at widths that are not
// smem_pipe's: at 256 bytes a warp for eight rows, and hoisted weights; beyond smem_pipe's
// best widths in rmsnorm few threads to a row, whose vectors are then many and waste none.
// Of the records of an H200 (bf16, default group) they are within 0 to 3% of the best at
// N = 128 and 8192 to 16384, where fwdCTARegBase is 1 to 18% behind, and within 1 to 2% at
// 32768 and 65536.
var wholeRegs = []zoneConfig{
	{zone{uneven: 16}, leave},
	{zone{over: 128, most: 256, least: 64}, at("br8.w1.ho1")},
	{zone{op: rmsOp, over: 8 << 10, most: 32 << 10}, at("w4.ho1")},
	{zone{op: rmsOp, over: 32 << 10, most: 48 << 10}, at("w8")},
	{zone{op: rmsOp, over: 48 << 10, most: 112 << 10}, at("w16")},
}

// fwdRegBase is fwdCTARegBase but for the rows of unevenFwds and wholeRegs, with one slot to a program and a row to each, but for what
// the zone sets.
func fwdRegBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base := fwdCTARegBase(p, d)
	if !measuredFwd(p, d) {
		return base
	}
	one := base.With(oneReg.Settings()...)
	c, ok := firstConfig(wholeRegs, one, p, d)
	if r, _ := unevenRule(p, d); r.design == "cta_reg" {
		c, ok = one.With(r.set.Settings()...), true
	}
	if ok && refuseCTAReg(p, c, d) == nil {
		return c
	}
	return base
}
