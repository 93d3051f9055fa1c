// Package families holds the kernel designs, each as one .go file (knobs, base
// rule, constraints, plan, host stages) and one .cu file (the CUDA entries). A
// new design is such a pair and its line in designs.
package families

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"

	"normbench/kernels"
)

//go:embed *.go *.cu *.cuh
var files embed.FS

// designs lists every design; each makes a family for either op.
var designs = []func(kernels.Op) *kernels.Family{
	fwdCTAReg,
	fwdTwoPass,
	fwdSmemPipe,
	fwdOneShot,
	fwdWarpSmem,
	fwdTile,
	fwdBand,
	fwdStatsFirst,
	bwdRegPersist,
	bwdSmemPipe,
	bwdTwoPass,
	bwdMixOrder,
	bwdFewRows,
	bwdSplit,
	bwdLockGroup,
	bwdAtomic,
	bwdLastCTA,
	fwdCoop,
	bwdCoop,
	fwdStream,
	bwdStream,
	fwdCopy,
	rulerEmpty,
	rulerPair,
	rulerSpin,
}

// New makes the registry of all families.
func New() *kernels.Registry {
	r := &kernels.Registry{Default: defaultFamily, File: File}
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, d := range designs {
			r.Families = append(r.Families, withRows(later(d(op))))
		}
	}
	return r
}

// withRows has f refuse a program without rows before f's own rules, which divide by them.
func withRows(f *kernels.Family) *kernels.Family {
	if !slices.ContainsFunc(f.Knobs, func(r kernels.Range) bool { return r.Knob == kernels.BlockRows }) {
		return f
	}
	refuse := f.Refuse
	f.Refuse = func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
		if c.Get(kernels.BlockRows) < 1 {
			return fmt.Errorf("a program has at least one row")
		}
		return refuse(p, c, d)
	}
	return f
}

// defaultFamily is the launch rule before any tuning. On a GPU fp8 with its transpose is
// made in one pass where bandedForward or tiledForward expect that to win, or behind the
// statistics of all rows where wideStats or fewStats do; narrow rows and
// few wide ones have the designs of oneShotChoice and fewRowsChoice. Else it is the pipeline
// through shared memory for backwards whose rows it can copy, and for the forwards of
// pipedForward; else one pass where a row fits into the registers of one program, and two
// passes where it does not.
//
// On an H200 (bf16, fast-llm shapes) the backward pipeline's base beats that of
// reg_persist and two_pass everywhere, by 1.05 to 1.8 times.
func defaultFamily(p kernels.Problem, d kernels.DeviceInfo) string {
	// runs says whether the base that New gives a family is one that it accepts.
	runs := func(f *kernels.Family) bool {
		return f.CheckServes(p) == nil && f.Refuse(p, later(f).Base(p, d), d) == nil
	}
	if band := fwdBand(p.Op); bandedForward(p, d) && runs(band) {
		return band.Name
	}
	stats := fwdStatsFirst(p.Op)
	if wideStats(p, d) && runs(stats) {
		return stats.Name
	}
	if tile := fwdTile(p.Op); tiledForward(p, d) && runs(tile) {
		return tile.Name
	}
	if fewStats(p, d) && runs(stats) {
		return stats.Name
	}
	if _, ok := oneShotChoice(p, d); ok {
		return fwdOneShot(p.Op).Name
	}
	if _, ok := fewRowsChoice(p, d); ok {
		return bwdFewRows(p.Op).Name
	}
	one, two, pipe := fwdCTAReg(p.Op), fwdTwoPass(p.Op), fwdSmemPipe(p.Op)
	piped, onePass := pipedForward(p, d), p.N*p.DType.Size() <= wideRow || p.Op == kernels.RMSNorm
	if p.Pass == kernels.Bwd {
		one, two, pipe = bwdRegPersist(p.Op), bwdTwoPass(p.Op), bwdSmemPipe(p.Op)
		piped, onePass = true, p.N*p.DType.Size() <= maxPersistBytes
	}
	switch {
	case piped && d.Kind == kernels.KindCUDA && runs(pipe):
		return pipe.Name
	case onePass && runs(one):
		return one.Name
	}
	return two.Name
}

// tiledForward says whether one pass for fp8 and its transpose beats k1 and a transpose
// of its own. On an H200 (bf16, te) it does by 1.06 to 1.30 times in rmsnorm, and in
// layernorm but for rows of 4 KiB and of more than 32, whose programs wait longer for
// their sums; as far as its rule gives half of the multiprocessors work.
func tiledForward(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	switch {
	case d.Kind != kernels.KindCUDA || !hasClusters(d) || servesTile(p) != nil:
		return false
	case p.Op == kernels.LayerNorm && (row > 2<<10 && row <= 4<<10 || row > 32<<10):
		return false
	}
	t := newTileBand(p, tileBase(p, d), d)
	return 2*t.groups*t.ranks >= int64(d.Units)
}

// bandedForward says whether bands of rows in registers beat the tiles of tiledForward. On an
// H200 (bf16) they do from 2048 columns on, by 1 to 12% in rmsnorm and 6 to 24% in layernorm where clusters share
// a row, and by 10 to 46% where programs that meet in global memory do; of 1024 columns by 4 and 22% at 32768 rows, but
// at 4096 tile is 2 and 4% faster.
func bandedForward(p kernels.Problem, d kernels.DeviceInfo) bool {
	if d.Kind != kernels.KindCUDA || !hasClusters(d) || p.DType.Size() != 2 || servesBand(p) != nil || p.N*p.DType.Size() < 2<<10 {
		return false
	}
	c, ok := bandChoice(p, d)
	return ok && 2*bandGroups(p, c, d)*bandRanks(c) >= int64(d.Units)
}

// wideStats and fewStats say whether statistics first, and y and yt from x again, beat what holds a
// row or its bytes, where bands are not taken: for rows too wide for slices of them, and for few elements, as there is a
// launch less than with a transpose of its own. On an H200 (bf16) 256x65536 takes 27.6 and 30.0 us
// (rmsnorm, layernorm), where tile took 28.4 and two passes 36; 500x40000 48.0 in layernorm, not
// 55.7, but 42.8 and not 41.2 in rmsnorm; 29x17389 9.2 and 10.7, not 14.2 and 15.4, 64x256 5.9 and
// 6.3, not 8.0 and 8.3, 1000x1004 8.4 and 8.5, not 9.7, 300x20481 22.9 and 29.6, not 28.8 and 34.2. From
// 20 MB of x on it depends on the width (0.93 to 1.37 times at five).
func wideStats(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	wide := row > 64<<10 && p.Op == kernels.LayerNorm || row >= 128<<10
	return d.Kind == kernels.KindCUDA && p.DType.Size() == 2 && wide && p.M*row <= d.CacheBytes
}

func fewStats(p kernels.Problem, d kernels.DeviceInfo) bool {
	return d.Kind == kernels.KindCUDA && p.M*p.N*p.DType.Size() <= d.CacheBytes/4
}

// pipedForward says whether a forward's rows are of the widths at which smem_pipe's
// base beats cta_reg's on an H200: 2 to 64 KiB in layernorm, whose second reduction
// the rows in shared memory outlast, or half a KiB where they are of 2 bytes, and up to 8
// in rmsnorm, and sharedRows, persistentRows and narrowRows; and narrower ones where rows are so few that
// cta_reg, with eight of them to a program, has less programs than the device has multiprocessors.
func pipedForward(p kernels.Problem, d kernels.DeviceInfo) bool {
	if r, ok := unevenRule(p, d); ok {
		return r.design == "smem_pipe"
	}
	row, least, most := p.N*p.DType.Size(), int64(2<<10), int64(8<<10)
	switch {
	case measuredFwd(p, d) && (inZone(sharedRows, p, d) || inZone(persistentRows, p, d) || inZone(narrowRows, p, d)):
		return true
	case row%16 != 0: // vectors narrower than 16 bytes take many threads, or many registers
		most = 2 << 10
	case p.Op == kernels.LayerNorm:
		most = wideRow
		if p.DType.Size() == 2 { // fwdPipeBase
			least = 512
		}
	}
	if p.M < 8*int64(d.Units) {
		least = 512
	}
	return row >= least && row <= most
}

// maxPersistBytes is the widest row that defaultFamily keeps in registers in a
// backward where the pipeline does not apply. Beyond it so few rows are in flight
// that reading them twice is faster: on an H200 87 us against 99 at 2048x16384
// (bf16, rmsnorm).
const maxPersistBytes = 16 << 10

// File returns one of the families' source files.
func File(name string) (string, error) {
	b, err := files.ReadFile(name)
	return string(b), err
}

// Hash identifies all families of r together, comments and launch rules too: two
// programs with the same hash run the same kernels under the same names. What a
// record is of, [Identity] says.
func Hash(r *kernels.Registry) (string, error) {
	h := sha256.New()
	for _, f := range r.Families {
		fmt.Fprintln(h, f.Name, f.Version)
		for _, name := range slices.Sorted(slices.Values(f.Files)) {
			text, err := r.File(name)
			if err != nil {
				return "", fmt.Errorf("source file of %s: %w", f.Name, err)
			}
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
