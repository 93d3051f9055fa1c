package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/families/common"
)

// The stream moves the tensors of a problem and does nothing else, as the bound
// that every time is divided by: y = x for a forward, dx = x + dy for a
// backward, and likewise with the tensors of residuals, gates and fp8. It leaves
// weights and statistics alone, which are far below 1% of the bytes from a few
// rows on.

// stream makes the family that moves the tensors of a problem and does nothing else, as the bound that
// every time is divided by: y = x for a forward, dx = x + dy for a backward, and likewise with the
// tensors of residuals and fp8. It leaves out weights and statistics, which are far below 1% of the
// bytes from a few rows on.
func stream(op kernels.Op, pass kernels.Pass) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, pass, "stream"),
		Op:     op,
		Pass:   pass,
		Doc:    "moves the bytes of the problem and does nothing else: the bound",
		Origin: "normbench",
		Hidden: true,
		Stream: true,
		Bits:   kernels.Bitwise,
		Files:  []string{"stream.cu"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.Warps, 4, 8, 16, 32),
			kernels.Values(kernels.PerSM, 0, 8),
			kernels.Values(kernels.Unroll, 1, 2, 4, 8),
			kernels.Values(kernels.CacheHint, 0, 2),
		},
		Serves: servesAll,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			// On an H200 one vector per thread moves 1 GiB at 4265 GB/s (the driver's
			// copy: 4250), four at 4122; a backward's two inputs do not care. Stores with the
			// streaming hint take 1 to 2% longer in a forward of 32Mi elements, and are the same
			// in a backward: what leaves L2 early is written while the rest is still read.
			return kernels.NewConfig(set(kernels.Warps, 8), set(kernels.PerSM, 0), set(kernels.Unroll, 1),
				set(kernels.CacheHint, 2))
		},
		Refuse: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
			if w := c.Get(kernels.Warps); !kernels.IsPow2(w) || w > 32 {
				return fmt.Errorf("warps are a power of two up to 32")
			}
			if u := c.Get(kernels.Unroll); u < 1 || u > 16 {
				return fmt.Errorf("a thread has 1 to 16 vectors in flight")
			}
			if h := c.Get(kernels.CacheHint); h&^2 != 0 {
				return fmt.Errorf("the stream's cache hint is 0 or 2")
			}
			return nil
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			threads := c.Get(kernels.Warps) * 32
			count := p.M * p.N
			unroll := int64(c.Get(kernels.Unroll))
			tile := int64(threads) * unroll * 16 / p.DType.Size()
			ctas := kernels.CeilDiv(count, tile)
			if k := c.Get(kernels.PerSM); k > 0 || d.Kind == kernels.KindCPU {
				ctas = min(ctas, int64(max(k, 1)*d.SMs))
			}
			out, second := "y", "" // a second output of x's type
			switch {
			case pass == kernels.Bwd && p.IsGated():
				out, second = "dx", "dz"
			case pass == kernels.Bwd:
				out = "dx"
			case p.Residual:
				second = "resout"
			}
			l := kernels.Launch{
				Stage: "stream", Source: "stream.cu", Entry: "stream",
				Grid:  [3]int{int(ctas), 1, 1},
				Block: threads,
				Defines: []kernels.Define{
					{Name: "X_TYPE", Value: int64(p.DType)},
					{Name: "Y_TYPE", Value: int64(p.OutType())},
					{Name: "W_TYPE", Value: int64(p.Weight)},
					{Name: "INPUTS", Value: int64(len(p.Full(kernels.Input)))},
					{Name: "TRANSPOSED", Value: kernels.Flag(p.Transpose)},
					{Name: "SUM_OUT", Value: kernels.Flag(second != "")},
					{Name: "WARPS", Value: int64(c.Get(kernels.Warps))},
					{Name: "UNROLL", Value: unroll},
					{Name: "CACHE_HINT", Value: int64(c.Get(kernels.CacheHint))},
				},
			}
			l.Args = kernels.Buffers("", "", "")
			for i, in := range p.Full(kernels.Input) {
				l.Args[i].Name = in.Name
			}
			l.Args = append(append(l.Args, kernels.Buffers(out)...), common.Optional(p.Transpose, "yt"),
				common.Optional(second != "", second), kernels.Int64("count", count))
			return kernels.Plan{Launches: []kernels.Launch{l}}
		},
		Host: map[string]kernels.HostStage{"stream": hostStream},
	}
}

// driverCopy makes the family of the driver's own copy of x to y, which tells whether the stream is as
// fast as the device moves bytes.
func driverCopy(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "copy"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "the driver's own copy of x to y, which the stream is held against",
		Origin: "normbench",
		Hidden: true,
		Stream: true,
		Bits:   kernels.Bitwise,
		Serves: func(p kernels.Problem) error {
			if p.FP8 || p.Residual {
				return fmt.Errorf("a copy moves one tensor to another of its type")
			}
			return nil
		},
		Base:   func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return kernels.Config{} },
		Refuse: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil },
		Plan: func(p kernels.Problem, _ kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return kernels.Plan{Launches: []kernels.Launch{{
				Stage: "copy", Entry: kernels.Memcpy,
				Grid: [3]int{1, 1, 1},
				Args: append(kernels.Buffers("x", "y"), kernels.Int64("bytes", p.M*p.N*p.DType.Size())),
			}}}
		},
		Host: map[string]kernels.HostStage{kernels.Memcpy: hostMemcpy},
	}
}
