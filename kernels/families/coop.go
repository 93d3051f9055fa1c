package families

import (
	"fmt"

	"normbench/kernels"
)

// fwdCoop and bwdCoop share this file: rows are spread over CTAs that wait for
// each other, as apex FastLayerNorm and TransformerEngine do it.

// coopKnobs: apex's table has WARPS_M 1 and 4, WARPS_N 1, 4 and 8, 1 to 8
// CTAS_PER_ROW and loads of 16, 8 and 4 bytes (its 26 widths; TransformerEngine's
// are a part of them). Loads of 4 bytes are not in the grid, only taken where asked
// for. There as many CTAs run as fit, which k says here.
func coopKnobs(perSM, hints []int) []kernels.Range {
	return []kernels.Range{
		kernels.Values(kernels.BlockRows, 1, 4),
		kernels.Values(kernels.Warps, 1, 4, 8, 16, 32),
		kernels.Values(kernels.VectorBytes, 0, 8),
		kernels.Values(kernels.PerSM, perSM...),
		kernels.Values(kernels.CTAsPerRow, 1, 2, 4, 5, 8),
		kernels.Values(kernels.MinBlocks, 0),
		kernels.Values(kernels.CacheHint, hints...),
	}
}

// coop.cuh: words between counters, floats of a slot.
const (
	coopCounter = 32
	coopSlot    = 16
)

// coopGroups is how many groups of CTAs walk over the rows, never more than
// there are rows for, nor than k CTAs per SM make (of a device that has
// not even one group, one).
func coopGroups(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	tiles := ceilDiv(p.M, int64(c.Get(kernels.BlockRows)))
	return min(tiles, max(int64(c.Get(kernels.PerSM))*int64(d.SMs)/int64(c.Get(kernels.CTAsPerRow)), 1))
}

// coopLaunch is k1, with the launch that zeroes its counters and their scratch
// where CTAs wait for each other.
func coopLaunch(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo, k1 kernels.Launch) ([]kernels.Launch, []kernels.Scratch) {
	ranks, groups := c.Get(kernels.CTAsPerRow), coopGroups(p, c, d)
	k1.Stage = "k1"
	k1.Grid = [3]int{int(groups) * ranks, 1, 1}
	k1.Block = c.Get(kernels.Warps) * 32
	k1.Args = append(k1.Args, optional(ranks > 1, "arrived"), optional(ranks > 1, "exchange"))
	// CTAs are meant to be there all at once, and where they wait for each
	// other they must: the compiler is told how many have to fit.
	fit := int(ceilDiv(int64(k1.Grid[0]), int64(d.SMs)))
	k1.Defines = rowDefines(p, c.With(set(kernels.MinBlocks, max(c.Get(kernels.MinBlocks), fit))))
	if ranks == 1 {
		return []kernels.Launch{k1}, nil
	}
	k1.Resident = true
	counters := kernels.Scratch{Name: "arrived", DType: kernels.I32, Elems: groups * coopCounter}
	sums := kernels.Scratch{Name: "exchange", DType: kernels.FP32, Elems: groups * 2 * coopSlot}
	return []kernels.Launch{kernels.Zero("zero", counters.Name, counters.Bytes()), k1}, []kernels.Scratch{counters, sums}
}

// coopVectors is the vectors of a row in a CTA and in a thread, and the words
// of one in registers: an element narrower than a word still takes one when it
// is loaded alone.
func coopVectors(p kernels.Problem, c kernels.Config) (slice, each, words int64) {
	vecs, vec := vectors(p, c)
	slice = ceilDiv(vecs, int64(c.Get(kernels.CTAsPerRow)))
	return slice, ceilDiv(slice, int64(c.Get(kernels.Warps)*32/c.Get(kernels.BlockRows))), max(vec*p.DType.Size()/4, 1)
}

// coopMasks is registers for what is not the same for all threads: vectors that
// do not divide among them.
func coopMasks(p kernels.Problem, c kernels.Config) int64 {
	vecs, _ := vectors(p, c)
	slice, each, _ := coopVectors(p, c)
	ranks, threads := int64(c.Get(kernels.CTAsPerRow)), int64(c.Get(kernels.Warps)*32/c.Get(kernels.BlockRows))
	if slice*ranks == vecs && each*threads == slice {
		return 0
	}
	return 8
}

// refuseCoop holds what both passes need; registers is an estimate for one
// thread.
func refuseCoop(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo, registers func(kernels.Problem, kernels.Config) int64) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	rows, warps, k, ranks := c.Get(kernels.BlockRows), c.Get(kernels.Warps), c.Get(kernels.PerSM), c.Get(kernels.CTAsPerRow)
	switch {
	case k < 1 || k > 32:
		return fmt.Errorf("CTAs stay for all rows: 1 to 32 per SM")
	case ranks < 1 || ranks > 8:
		return fmt.Errorf("1 to 8 CTAs share a row")
	case warps < rows:
		return fmt.Errorf("a row takes whole warps: fewer warps than rows")
	case rows > 1 && ranks > 1:
		return fmt.Errorf("rows stand side by side only in CTAs that hold whole rows")
	}
	vecs, _ := vectors(p, c)
	slice, each, _ := coopVectors(p, c)
	threads := int64(warps * 32)
	switch {
	case slice*int64(ranks-1) >= vecs:
		return fmt.Errorf("the %d vectors of a row leave one of %d CTAs without any", vecs, ranks)
	case threads/int64(rows) > max(ceilPow2(slice), 32):
		return fmt.Errorf("%d threads for %d vectors of a row leave half of them idle", threads/int64(rows), slice)
	case each > 32:
		return fmt.Errorf("%d vectors per thread do not fit in its registers", each)
	case d.Kind == kernels.KindCUDA && k*d.SMs < ranks:
		return fmt.Errorf("%d CTAs fit on the device at once, fewer than share a row", k*d.SMs)
	}
	return refuseResidents(c, d, registers(p, c))
}

// refuseResidents refuses more CTAs per SM than fit into its
// registers and 2048 threads.
func refuseResidents(c kernels.Config, d kernels.DeviceInfo, registers int64) error {
	threads, most := int64(c.Get(kernels.Warps)*32), int64(max(c.Get(kernels.PerSM), c.Get(kernels.MinBlocks)))
	have := int64(65536)
	if d.RegsPerSM > 0 {
		have = int64(d.RegsPerSM)
	}
	// Warps are dealt to the four parts of an SM, registers to a warp
	// in eights.
	warps := ceilDiv(threads*most, 4*32)
	switch {
	case threads*most > 2048:
		return fmt.Errorf("%d CTAs of %d threads are more than an SM runs", most, threads)
	case registers > 240:
		return fmt.Errorf("about %d registers per thread, too close to 255", registers)
	case warps*32*ceilDiv(registers, 8)*8 > have/4:
		return fmt.Errorf("%d CTAs of %d threads with about %d registers do not fit on an SM", most, threads, registers)
	}
	return nil
}

// coopBase is the smallest CTA that a row needs at up to each bytes per
// thread, and as many of them as fit: one warp to a row, four rows side by side,
// while that holds it; then most warps to a row, and then more CTAs. That is
// the shape of apex's table. Rows too wide for it take more.
func coopBase(p kernels.Problem, d kernels.DeviceInfo, each int64, most int, refuse func(kernels.Config) error) kernels.Config {
	row := p.N * p.DType.Size()
	fill := func(rows, warps, ranks int) kernels.Config {
		c := kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
			set(kernels.CTAsPerRow, ranks), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
		for k := max(64/warps, 1); ; k-- {
			if c = c.With(set(kernels.PerSM, k)); k == 1 || refuse(c) == nil {
				return c
			}
		}
	}
	if c := fill(4, 4, 1); row <= 32*each && refuse(c) == nil {
		return c
	}
	var c kernels.Config
	for ; each <= 1024; each *= 2 {
		for ranks := 1; ranks <= 8; ranks *= 2 {
			for warps := 1; warps <= most; warps *= 2 {
				if c = fill(1, warps, ranks); ceilDiv(row, int64(ranks*warps*32)) <= each && refuse(c) == nil {
					return c
				}
			}
		}
		most = 32
	}
	return c
}

// hostCoop calls f with each row of CTA pid's group, if it is the group's
// first: the others' work is done with it.
func hostCoop(h *kernels.HostRun, pid int, f func(i int64)) (group int64, first bool) {
	ranks, rows := h.Launch.Define("CTAS_PER_ROW"), h.Launch.Define("BLOCK_ROWS")
	group = int64(pid) / ranks
	if int64(pid)%ranks != 0 {
		return group, false
	}
	for lo := group * rows; lo < h.Problem.M; lo += int64(h.Launch.Grid[0]) / ranks * rows {
		for i := lo; i < min(lo+rows, h.Problem.M); i++ {
			f(i)
		}
	}
	return group, true
}
