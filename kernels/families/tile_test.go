package families_test

import (
	"os"
	"testing"

	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// bandProblems are what the base of band is held to, and bandLabels configs beside it, one for each
// way through the kernel; statsProblems and statsLabels are the same for stats_first.
var (
	bandProblems = []string{
		"rmsnorm/fwd/2048x16384/bf16+fp8t",
		"rmsnorm/fwd/4096x1024/bf16+fp8t",
		"rmsnorm/fwd/8192x4096/fp16+fp8t",
		"rmsnorm/fwd/8192x8192/bf16+noweight+fp8t",
		"layernorm/fwd/8192x8192/bf16+bias+fp8t",
		"layernorm/fwd/4096x12288/bf16+bias+zc+fp8t",
		"layernorm/fwd/16384x4096/bf16-wfp32+bias+fp8t",
		"rmsnorm/fwd/4112x2048/fp32+fp8t",
	}
	bandLabels    = []string{"br64.w16.st1.k1.cl8", "br64.w8.st2.k1.cl16", "br32.w8.st1.k2.cl8", "br32.w8.st2.k1.cl8", "br32.w8.st2.k2.cl1.cr8", "br64.w16.st2.k1.cl1.cr8", "ch3"}
	statsProblems = []string{
		"rmsnorm/fwd/29x17389/bf16+fp8t",
		"layernorm/fwd/29x17389/bf16+bias+fp8t",
		"rmsnorm/fwd/256x65536/bf16+fp8t",
		"layernorm/fwd/256x65536/fp16+bias+zc+fp8t",
		"rmsnorm/fwd/1000x1004/fp32+fp8t",
		"layernorm/fwd/33x541/bf16-wfp32+bias+fp8t",
		"rmsnorm/fwd/7x130/bf16+noweight+fp8t",
	}
	statsLabels = []string{"tr128.tc128.tw8", "tr128.tc64.tw4", "tr32.tc64.tw4", "br1.w4.cr2", "br4.w4.cr1", "ch2"}
)

// The rules' configs are ones that work, and compile without spilling; so do others.
func TestTile(t *testing.T) {
	c, err := nvrtc.Find()
	if err != nil && os.Getenv("NORMBENCH_REQUIRE_NVRTC") != "" {
		t.Fatal(err)
	}
	r, d := families.New(), device("sm_90")
	tried := 0
	check := func(design, text, label string) {
		p, op := problem(t, text), "rms"
		if p.Op == kernels.LayerNorm {
			op = "ln"
		}
		v, err := kernels.ParseVariant(op + "_fwd/" + design + "@" + label)
		if err != nil {
			t.Fatal(err)
		}
		f, v, plan, err := r.Resolve(p, v, d)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			return
		}
		valid(t, p, d, f, v.Config, plan)
		if tried++; c == nil || !sampled(tried, 6) {
			return
		}
		for _, l := range plan.Launches {
			u, err := cuda.NewUnit(r, &l, d.Arch)
			if err != nil {
				t.Fatal(err)
			}
			b, err := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c).Compile(u.Source, u.Options)
			if err != nil {
				t.Errorf("%s: %v", p, err)
				return
			}
			k := b.Kernels[l.Entry]
			t.Logf("%s %s@%s: %d CTAs of %d threads, %d+%d bytes, %d registers", l.Entry, p, v.Config, l.Grid[0], l.Block, l.Shared, k.SharedBytes, k.Registers)
			if k.SpillStoreBytes > 0 {
				t.Errorf("%s %s@%s: %d bytes spilled", l.Entry, p, v.Config, k.SpillStoreBytes)
			}
		}
	}
	for _, of := range []struct {
		design           string
		problems, labels []string
		on               []string // of labels
		most             int      // configs of a space
	}{
		{"band", bandProblems, bandLabels, []string{"rmsnorm/fwd/8192x8192/bf16+fp8t", "layernorm/fwd/8192x8192/bf16+bias+fp8t"}, 200},
		{"stats_first", statsProblems, statsLabels, []string{"rmsnorm/fwd/8192x2048/bf16+fp8t", "layernorm/fwd/1001x2005/bf16+bias+fp8t"}, 320},
	} {
		for _, text := range of.problems {
			check(of.design, text, "")
			p := problem(t, text)
			f, err := r.Lookup(map[kernels.Op]string{kernels.RMSNorm: "rms_fwd/", kernels.LayerNorm: "ln_fwd/"}[p.Op] + of.design)
			if err != nil {
				t.Fatal(err)
			}
			if configs, _ := f.Configs(p, d); len(configs) > of.most {
				t.Errorf("%s: a space of %d configs", p, len(configs))
			}
		}
		for _, label := range of.labels {
			for _, text := range of.on {
				check(of.design, text, label)
			}
		}
	}
}
