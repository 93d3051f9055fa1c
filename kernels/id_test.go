package kernels

import (
	"strings"
	"testing"

	"normbench/internal/hint"
)

func TestCheckID(t *testing.T) {
	for _, id := range []string{"d", "nvidia-h200", "cpu-amd-epyc-2c", "replay-x_1.5", "CPU"} {
		if err := CheckID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"", ".", "..", "../../../victim", "a/b", `a\b`, "a..b", "/etc", "-x", "a b", "a\n", "a\x1b[2J", "é", strings.Repeat("a", 101)} {
		if err := CheckID(id); err == nil || hint.Of(err) == "" || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %v", id, err)
		}
	}
}
