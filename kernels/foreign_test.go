package kernels

import (
	"strings"
	"testing"

	"normbench/internal/assert"
)

func TestDeviceInfoValidate(t *testing.T) {
	for _, id := range []string{"nvidia-h200", "cpu-amd-epyc-2c", "replay-nvidia-h200",
		"NVIDIA_A100.80GB"} {
		assert.NoError(t, (&DeviceInfo{ID: id}).Validate())
	}
	for _, d := range []DeviceInfo{
		{}, {ID: "../../../victim"}, {ID: ".."}, {ID: "."}, {ID: ".hidden"}, {ID: "a..b"},
		{ID: "a."}, {ID: "a/b"}, {ID: `a\b`}, {ID: "a b"},
		{ID: "a\x1b[2J"}, {ID: "a\n"}, {ID: "a:b"}, {ID: "gpü"}, {ID: strings.Repeat("a", 129)},
		{ID: "a", SMs: -1}, {ID: "a", CacheBytes: -1}, {ID: "a", PeakRate: -1},
	} {
		err := d.Validate()
		assert.That(t, err != nil && !strings.ContainsAny(err.Error(), "\n\x1b") &&
			len(err.Error()) <= 400, "%+v: %v", d, err)
	}
}

func TestPrintableIsShort(t *testing.T) {
	got := Printable(strings.Repeat("\x00", 1<<20), 4096)
	assert.That(t, len(got) <= 4096, "a megabyte is printed as %d bytes", len(got))
}
