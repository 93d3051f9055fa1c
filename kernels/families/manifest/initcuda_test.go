package manifest

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/compile/nvrtc"
)

// A kernel's declaration becomes a manifest: names that mean one thing have values, all else is TODO.
func TestDeclarationBecomesAManifest(t *testing.T) {
	src := nvrtc.Source{Name: "k.cu", Text: `namespace mine {
template <typename T, typename LOAD>
__global__ void __launch_bounds__(256) layer_norm_bwd(LOAD load, const T *__restrict__ dout, const T *x, T *out, T *output,
    T *grad_gamma, const float epsilon, int C, unsigned int rows, float *weight) { extern __shared__ float s[]; }
__global__ void other(int n) {}
__global__ void rms_layernorm(float *output, float *residual, float *res_out, int elems_per_row, int n_rows) {}
}`}
	got, err := InitCUDA(src, "layer_norm_bwd")
	assert.NoError(t, err)
	for _, want := range []string{"name: layer_norm_bwd\nop: layernorm\npass: bwd\n",
		"entry: mine::layer_norm_bwd<TODO, TODO> # template <typename T, typename LOAD>", "shared: TODO",
		"- TODO # LOAD load", "- dy # const T * dout", "- x # const T * x", "- TODO # T * out", "- TODO # T * output",
		"- dw # T * grad_gamma", "- {float32: epsilon, value: eps}", "- {int32: C, value: TODO}",
		"- {uint32: rows, value: M}", "- w # float * weight"} {
		assert.That(t, strings.Contains(got, want), "no %q in\n%s", want, got)
	}
	got, err = InitCUDA(src, "other")
	assert.That(t, err == nil && strings.Contains(got, "op: TODO") && strings.Contains(got, "pass: TODO") &&
		!strings.Contains(got, "shared"), "%v: %s", err, got)
	got, err = InitCUDA(src, "rms_layernorm")
	assert.NoError(t, err)
	for _, want := range []string{"op: rmsnorm\npass: fwd\n", "- res # float * residual", "- resout # float * res_out",
		"value: N} # int elems_per_row", "value: M} # int n_rows"} {
		assert.That(t, strings.Contains(got, want), "no %q in\n%s", want, got)
	}
	_, err = InitCUDA(src, "third")
	assert.Error(t, err, "k.cu has no kernel third, but mine::layer_norm_bwd, mine::other, mine::rms_layernorm")
}
