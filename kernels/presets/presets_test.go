package presets

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// What every preset picks on an H200, for narrow, middle, wide and odd rows, or
// why it has nothing.
func TestPicks(t *testing.T) {
	r := families.With()
	var b strings.Builder
	for _, s := range All() {
		fmt.Fprintf(&b, "%s\n", s.Name)
		for _, text := range []string{
			"rmsnorm/fwd/32768x256/bf16", "rmsnorm/fwd/8192x4096/bf16",
			"rmsnorm/fwd/1024x32768/bf16", "rmsnorm/fwd/29x17389/bf16",
			"rmsnorm/fwd/8192x4096/bf16+fp8t", "layernorm/fwd/4096x12288/bf16+bias",
			"rmsnorm/bwd/32768x256/bf16", "rmsnorm/bwd/32768x1024/bf16",
			"rmsnorm/bwd/8192x4096/bf16", "rmsnorm/bwd/4096x12288/bf16",
			"rmsnorm/bwd/2048x16384/fp32", "rmsnorm/bwd/256x65536/bf16",
			"rmsnorm/bwd/29x17389/bf16", "rmsnorm/bwd/1x8192/fp16",
			"layernorm/bwd/8192x4096/bf16+bias", "layernorm/bwd/576000x384/bf16+bias",
		} {
			vs, err := s.Variants(r, devicetest.Problem(t, text), devicetest.H200())
			switch {
			case err != nil:
				fmt.Fprintf(&b, "  %s: %v\n", text, err)
			case len(vs) > 1:
				fmt.Fprintf(&b, "  %s: %s and %d more\n", text, vs[0], len(vs)-1)
			default:
				fmt.Fprintf(&b, "  %s: %s\n", text, vs[0])
			}
		}
	}
	assert.Golden(t, "testdata/picks_h200.txt", b.String())
}
