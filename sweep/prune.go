package sweep

import (
	"fmt"
	"strings"

	"normbench/kernels"
)

// MaxSpill is the most bytes per thread that a variant may spill and still be
// worth a launch. Spilling as such is no reason: on an H200 the best variant of
// rmsnorm/bwd/4096x12288 spills 100 bytes, and those that spill 8 to 12 tie with
// the best elsewhere.
const MaxSpill = 256

// Refuse implements search.Bench: it prunes what cannot win, by what is known
// without the device.
func (m *measurer) Refuse(v kernels.Variant, incumbent float64) string {
	run := m.v.run
	plan, err := m.plan(v)
	if err != nil {
		return err.Error()
	}
	// The bound: the tensors and the scratch that does not fit in the cache are
	// moved at least once, at no more than the stream's rate. On an H200's grids
	// this keeps out 411 of 30308 variants; none was less than 31% slower than the
	// best, nor faster than 1.21 times its bound.
	if extra := plan.ScratchBytes() - run.info.CacheBytes; m.stream > 0 && extra > 0 {
		if us := m.stream * (1 + float64(extra)/float64(m.j.Problem.Bytes())); us > incumbent {
			return fmt.Sprintf("bound: moving the tensors and %s of scratch takes %.1f us at the "+
				"stream's rate, and the fastest so far takes %.1f",
				kernels.FormatBytes(extra), us, incumbent)
		}
	}
	// The same code on a problem of as many columns has been compiled before.
	for _, l := range plan.Launches {
		run.mu.Lock()
		r, ok := run.searched.code[codeOf(l)]
		run.mu.Unlock()
		if ok {
			if why := wasteful(r, run.info); why != "" {
				return "resources: " + why
			}
		}
	}
	return ""
}

// remember keeps the resources of a plan's code, for searches.
func (r *run) remember(plan kernels.Plan, c *kernels.Check) {
	if r.o.Search == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range plan.Launches {
		for _, x := range c.Resources {
			if x.Stage == l.Stage {
				r.searched.code[codeOf(l)] = x
			}
		}
	}
}

// codeOf identifies the compiled code of a launch with its block: what its
// registers, spills and residents depend on.
func codeOf(l kernels.Launch) string {
	var b strings.Builder
	fmt.Fprint(&b, l.Source, " ", l.Entry, " ", l.Block, " ", l.Shared)
	for _, d := range l.Defines {
		fmt.Fprint(&b, " ", d.Name, "=", d.Value)
	}
	return b.String()
}

// wasteful says why code with such resources need not run, or is "".
func wasteful(r kernels.Resource, d kernels.DeviceInfo) string {
	switch {
	case r.Spill > MaxSpill:
		return fmt.Sprintf("%s spills %d bytes per thread, more than %d", r.Stage, r.Spill, MaxSpill)
	case d.RegsPerSM > 0 && r.Registers*r.Threads > d.RegsPerSM:
		return fmt.Sprintf("%s takes %d registers in %d threads, more than the %d of an SM", r.Stage,
			r.Registers, r.Threads, d.RegsPerSM)
	case d.Kind == kernels.KindCUDA && r.Occupancy == 0 && r.Registers > 0:
		return fmt.Sprintf("no CTA of %s fits on an SM", r.Stage)
	}
	return ""
}
