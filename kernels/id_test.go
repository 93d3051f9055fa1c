package kernels

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

// The ID that a device makes of its name is one, whatever stands in the name.
func TestSlug(t *testing.T) {
	for name, want := range map[string]string{"NVIDIA H200": "nvidia-h200",
		"NVIDIA A100-SXM4-80GB": "nvidia-a100-sxm4-80gb",
		"GRID V100D/8Q (vGPU)":  "grid-v100d-8q-vgpu", "../../x": "x"} {
		got := Slug(name)
		assert.That(t, got == want && CheckID(got) == nil, "%q: %q, %v", name, got, CheckID(got))
	}
}

func TestCheckID(t *testing.T) {
	for _, id := range []string{"d", "nvidia-h200", "cpu-amd-epyc-2c", "replay-x_1.5", "CPU"} {
		err := CheckID(id)
		assert.That(t, err == nil, "%v", err)
	}
	for _, id := range []string{"", ".", "..", "../../../victim", "a/b", `a\b`, "a..b", "/etc",
		"-x", "a b", "a\n", "a\x1b[2J", "é", strings.Repeat("a", 101)} {
		err := CheckID(id)
		assert.That(t, err != nil && hint.Of(err) != "" &&
			!strings.ContainsAny(err.Error(), "\n\x1b"), "%q: %v", id, err)
	}
}
