package cpu

import (
	"testing"

	"normbench/internal/assert"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"32768K": 32 << 20, "32M": 32 << 20, "48K": 48 << 10, "512": 512, "0K": 0,
		"2113929216K": 2113929216 << 10, // 2 TiB of memory, as GPU hosts have
		"":            0, "K": 0, "M": 0, "-1K": 0, "12 K": 0, "0x10K": 0, "12G": 0,
		"9999999999999999999K": 0,
	} {
		assert.Equal(t, ParseSize(s), want, "ParseSize", s)
	}
}
