package shapes_test

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/shapes"
)

// A selection lays out its shapes with types and options, each problem once; a filter takes those
// of the flags that were given.
func TestSelection(t *testing.T) {
	yes := func(flags ...string) map[string]bool {
		m := map[string]bool{}
		for _, f := range flags {
			m[f] = true
		}
		return m
	}
	for _, test := range []struct {
		s    shapes.Selection
		want string // problems, or an error
	}{
		{shapes.Selection{Shapes: "8x64,8x64@fp16,8x64", Op: "rmsnorm", Pass: "fwd"},
			"rmsnorm/fwd/8x64/bf16 rmsnorm/fwd/8x64/fp16"},
		{shapes.Selection{Shapes: "16x128@fp8,8x64", Op: "rmsnorm"},
			"rmsnorm/fwd/16x128/bf16+fp8 rmsnorm/fwd/8x64/bf16 rmsnorm/bwd/8x64/bf16"},
		{shapes.Selection{Shapes: "8x64", Op: "layernorm", On: yes("accumulate", "residual"),
			Weight: "fp32"},
			"layernorm/fwd/8x64/bf16-wfp32+bias+residual " +
				"layernorm/bwd/8x64/bf16-wfp32+bias+residual+acc"},
		{shapes.Selection{Shapes: "8x64", Op: "layernorm", Pass: "fwd", On: yes("no-weight")},
			"layernorm/fwd/8x64/bf16+noweight"},
		{shapes.Selection{Shapes: "8x64", Pass: "bwd", Quant: "fp8"},
			"no problems: fp8 outputs belong to the forward"},
		{shapes.Selection{Shapes: "8x64", Op: "nosuch"}, `unknown op "nosuch"`},
		{shapes.Selection{Shapes: "8x64@fp9"}, `unknown type "fp9" of shapes "8x64@fp9"`},
	} {
		ps, err := test.s.Problems("smoke")
		var got []string
		for _, p := range ps {
			got = append(got, p.String())
		}
		if err != nil {
			got = []string{err.Error()}
		}
		assert.Equal(t, strings.Join(got, " "), test.want, test.s, got)
	}
	s := shapes.Selection{Op: "rmsnorm", DType: "bf16", Bias: "no", Quant: "none", Given: yes("op",
		"bias", "quant")}
	fits, err := s.Filter()
	assert.NoError(t, err)
	for text, want := range map[string]bool{"rmsnorm/fwd/8x64/fp16": true,
		"rmsnorm/fwd/8x64/bf16+bias": false,
		"layernorm/fwd/8x64/bf16":    false, "rmsnorm/fwd/16x128/bf16+fp8": false} {
		p, err := kernels.ParseProblem(text)
		assert.That(t, err == nil && fits(p) == want, "%s: %t, %v", text, fits(p), err)
	}
}
