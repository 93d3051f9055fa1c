package report

import (
	"testing"

	"normbench/internal/assert"
)

func TestNameOf(t *testing.T) {
	for text, want := range map[string]string{
		"results/nvidia-h200#base": "normbench default", "base": "normbench default",
		"results/nvidia-h200": "nvidia-h200", "results/x/live.json.gz#A": "live.json.gz#A",
		"peer:best": "best other library", "a#peers": "best other library",
		"tuned:results/nvidia-h200/tuned.json": "normbench tuned", "tuned:a/b.json": "tuned:b.json",
		"rms_fwd/cta_reg@br4.w2": "rms_fwd/cta_reg@br4.w2",
	} {
		assert.Equal(t, NameOf(text), want, text)
	}
}
