package presets

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/cpu"
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

// What a preset picks is right, on the cpu device, for small problems of every
// option that it has.
func TestPicksAreRight(t *testing.T) {
	r := families.With()
	dev := cpu.New(r)
	picked := map[string]int{}
	for _, text := range []string{
		"rmsnorm/fwd/40x256/bf16", "rmsnorm/bwd/40x256/bf16", "layernorm/fwd/40x768/bf16+bias",
		"layernorm/bwd/40x768/bf16+bias",
		"rmsnorm/fwd/9x541/fp16+zc", "rmsnorm/bwd/9x541/fp16+zc", "rmsnorm/fwd/33x136/bf16+fp8t",
		"rmsnorm/bwd/6x9000/bf16",
		"layernorm/bwd/6x9216/fp32+bias", "rmsnorm/bwd/33x256/bf16+residual",
		"rmsnorm/bwd/33x256/bf16+bias+acc", "rmsnorm/bwd/33x256/bf16+noweight",
	} {
		p := devicetest.Problem(t, text)
		b, err := dev.Open(context.Background(), p, 3)
		assert.NoError(t, err)
		for _, s := range All() {
			vs, err := s.Variants(r, p, dev.Info())
			if err != nil {
				continue
			}
			picked[s.Name]++
			got, err := b.Check(context.Background(), vs[0], 2)
			assert.That(t, err == nil && got.OK() && !got.Breaks(),
				"%s: %s on %s: %v %s, %d differ", s.Name, vs[0], p, err, got.Reason(),
				got.Differing)
		}
	}
	for _, s := range All() {
		assert.That(t, picked[s.Name] >= 2,
			"%s picked a variant for %d problems only", s.Name, picked[s.Name])
	}
}
