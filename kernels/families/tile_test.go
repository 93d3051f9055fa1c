package families_test

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// tiles are the designs of fp8 with its transpose: problems whose bases, and beside them configs,
// one for each way through the kernel, compile without spilling. One pass over rms and ln each.
var tiles = map[string][2][]string{
	"band": {{
		"rmsnorm/fwd/8192x8192/bf16+fp8t", "layernorm/fwd/8192x8192/bf16+bias+fp8t",
		"rmsnorm/fwd/2048x16384/bf16+fp8t", "rmsnorm/fwd/4096x1024/bf16+fp8t",
		"rmsnorm/fwd/8192x4096/fp16+fp8t",
		"rmsnorm/fwd/8192x8192/bf16+noweight+fp8t", "layernorm/fwd/4096x12288/bf16+bias+zc+fp8t",
		"layernorm/fwd/16384x4096/bf16-wfp32+bias+fp8t", "rmsnorm/fwd/4112x2048/fp32+fp8t",
	}, {
		"br64.w16.st1.k1.cl8", "br64.w8.st2.k1.cl16", "br32.w8.st1.k2.cl8", "br32.w8.st2.k1.cl8",
		"br32.w8.st2.k2.cl1.cr8", "br64.w16.st2.k1.cl1.cr8", "ch3",
	}},
	"stats_first": {{
		"rmsnorm/fwd/8192x2048/bf16+fp8t", "layernorm/fwd/1001x2005/bf16+bias+fp8t",
		"rmsnorm/fwd/29x17389/bf16+fp8t", "layernorm/fwd/29x17389/bf16+bias+fp8t",
		"rmsnorm/fwd/256x65536/bf16+fp8t",
		"layernorm/fwd/256x65536/fp16+bias+zc+fp8t", "rmsnorm/fwd/1000x1004/fp32+fp8t",
		"layernorm/fwd/33x541/bf16-wfp32+bias+fp8t", "rmsnorm/fwd/7x130/bf16+noweight+fp8t",
	}, {
		"tr128.tc128.tw8", "tr128.tc64.tw4", "tr32.tc64.tw4", "br1.w4.cr2", "br4.w4.cr1", "ch2",
	}},
}

func TestTile(t *testing.T) {
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), compiler(t))
	r, d := families.With(), device("sm_90") // what a label leaves out is the analytic base's
	tried := 0
	for _, design := range []string{"band", "stats_first"} {
		list := tiles[design]
		for i, text := range list[0] {
			labels := []string{""}
			if i < 2 { // the first of each op
				labels = slices.Concat(labels, list[1])
			}
			for _, label := range labels {
				p := devicetest.Problem(t, text)
				v := devicetest.Variant(t, strings.Replace(p.Op.Spec().Short+"_fwd/"+design+"@"+
					label, "@@", "@", 1))
				f, v, plan, err := r.Resolve(p, v, d)
				if err != nil {
					t.Errorf("%s: %v", p, err)
					continue
				}
				valid(t, p, d, f, v.Config, plan)
				if tried++; !sampled(tried, 6) {
					continue
				}
				for i, u := range unitsOf(t, r, plan, d.Arch) {
					l := plan.Launches[i]
					b, err := cache.Compile(u.Source, u.Options)
					assert.NoError(t, err, p)
					k := b.Kernels[l.Entry]
					assert.That(t, k.SpillStoreBytes <= 0,
						"%s %s@%s: %d bytes spilled", l.Entry, p, v.Config, k.SpillStoreBytes)
				}
			}
		}
	}
}
