// Package families holds the kernel designs, each as a manifest (knobs, base rule,
// constraints, launches) and a .cu file (the CUDA entries). The plain kernels, which
// are for every op, and what the ruler is tested with are in Go.
package families

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families/common"
)

//go:embed *.go *.cu *.cuh *.yaml
var files embed.FS

// New makes the registry of all families, with the maps embedded in the program as their defaults.
func New() *kernels.Registry { return extendRegistry(&kernels.Registry{File: File}, builtinMaps) }

// wideRow is the number of bytes of a row beyond which two_pass' CTAs take 32 warps.
const wideRow = 64 << 10

// analyticDefault names the design that serves p where no map does. On a GPU it is the pipeline through
// shared memory, for backwards whose rows it can copy and for forwards of middling width. Else it is one
// pass where a row fits into the registers of one CTA, and two passes where it does not. runs says
// whether the base of a design can run p.
//
// On an H200 (bf16, fast-llm shapes) the backward pipeline's base is faster than that of reg_persist and
// two_pass everywhere, by 1.05 to 1.8 times. For few rows few_rows' base is faster still.
func analyticDefault(p kernels.Problem, d kernels.DeviceInfo, runs func(design string) bool) string {
	one, piped := "cta_reg", pipedForward(p, d)
	onePass := p.N*p.DType.Size() <= wideRow || p.Op == kernels.RMSNorm
	if p.Pass == kernels.Bwd {
		one, piped = "reg_persist", true
		onePass = p.N*p.DType.Size() <= maxPersistBytes
	}
	gpu := d.Kind == kernels.KindCUDA
	switch {
	case p.Transpose && gpu && p.M >= int64(d.SMs) && runs("band"):
		return "band" // yt by whole tiles, not byte by byte
	case p.Transpose && gpu && p.M < int64(d.SMs) && runs("stats_first"):
		return "stats_first"
	case fewRows(p, d) && runs("few_rows"):
		return "few_rows"
	case piped && gpu && runs("smem_pipe"):
		return "smem_pipe"
	case onePass && runs(one):
		return one
	case runs("two_pass"):
		return "two_pass"
	}
	return "plain"
}

// fewRows says whether a backward has so few rows that one launch of few_rows' base is faster than the
// pipeline's two. In learn's records of an H200 it wins at 904 of 912 problems within these bounds, by
// 1.34x in the mean (0.91x at worst). In two runs on an H100 it wins at all 334, by 1.40x.
func fewRows(p kernels.Problem, d kernels.DeviceInfo) bool {
	if p.Pass != kernels.Bwd || d.Kind != kernels.KindCUDA || !hasClusters(d) || p.DType.Size() != 2 {
		return false
	}
	sms := int64(d.SMs)
	return 4*p.M <= sms || p.M <= sms && p.N <= 8<<10 || p.M <= 2*sms && p.N <= 4<<10
}

// pipedForward says whether smem_pipe's analytic base is faster than cta_reg's for a forward, by the
// width of its rows on an H200: 2 to 64 KiB in layernorm (from 0.5 KiB with 2-byte elements), as its
// second reduction reads the rows from shared memory; up to 8 KiB in rmsnorm. Where rows are so few that
// cta_reg, with eight of them to a CTA, has fewer CTAs than the device SMs, it is from 0.5 KiB on.
func pipedForward(p kernels.Problem, d kernels.DeviceInfo) bool {
	row, least, most := p.N*p.DType.Size(), int64(2<<10), int64(8<<10)
	switch {
	case row%16 != 0: // vectors narrower than 16 bytes take many threads, or many registers
		most = 2 << 10
	case p.Op == kernels.LayerNorm:
		most = wideRow
		if p.DType.Size() == 2 {
			least = 512
		}
	}
	if p.M < 8*int64(d.SMs) {
		least = 512
	}
	return row >= least && row <= most
}

// maxPersistBytes is the widest row that analyticDefault keeps in registers in a backward where the
// pipeline does not apply. Beyond it so few rows are in flight that reading them twice is faster: on an
// H200 87 us against 99 at 2048x16384 (bf16, rmsnorm).
const maxPersistBytes = 16 << 10

// packages has the Go files behind host stages, by the prefix of their names.
var packages = map[string]embed.FS{"": files, "kernels/": kernels.Sources, "common/": common.Sources}

// hostFiles lists the Go files that host stages run: those of this package whose names begin with host,
// and those of package kernels that they use. Plans are not among them: records have a hash of the plan.
func hostFiles() []string { return goFiles("host*.go", "") }

// goFiles lists the Go files of packages whose names match a pattern, and the two of package kernels
// that host stages use.
func goFiles(pattern string, from ...string) (names []string) {
	for _, from := range from {
		list, _ := fs.Glob(packages[from], pattern) // the pattern is sound
		for _, name := range list {
			if !strings.HasSuffix(name, "_test.go") {
				names = append(names, from+name)
			}
		}
	}
	return append(names, "kernels/dtype.go", "kernels/host.go")
}

// File returns the text of one of the families' source files, or of a Go file with its package's prefix.
func File(name string) (string, error) {
	from, file := path.Split(name)
	b, err := packages[from].ReadFile(file)
	return string(b), err
}

// addHeaders adds the headers that f's CUDA files include to its files.
func addHeaders(f *kernels.Family) {
	for _, name := range f.Files {
		src, err := nvrtc.ReadSource(File, name)
		if err != nil {
			panic(err) // they are part of the program
		}
		f.Files = slices.AppendSeq(f.Files, maps.Keys(src.Headers))
	}
	slices.Sort(f.Files)
}

// Hash hashes all families of r together, comments too: two programs with the same hash run the same
// kernels under the same names. [Identity] has the hashes that records keep.
func Hash(r *kernels.Registry) (string, error) {
	h := sha256.New()
	write := func(names []string) error {
		for _, name := range names {
			text, err := r.File(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		}
		return nil
	}
	if err := write(goFiles("*.go", "", "common/")); err != nil {
		return "", err
	}
	for _, f := range r.Families {
		fmt.Fprintln(h, f.Name, f.Version)
		if err := write(slices.Sorted(slices.Values(f.Files))); err != nil {
			return "", fmt.Errorf("source file of %s: %w", f.Name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
