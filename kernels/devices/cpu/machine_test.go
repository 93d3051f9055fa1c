package cpu

import (
	"fmt"
	"testing"

	"normbench/internal/assert"
)

// Sizes as Linux writes them, of caches and of 2 TiB of memory; 0 is none: testdata/sizes.txt.
func TestSizesAreReadAsLinuxWritesThem(t *testing.T) {
	assert.Lines(t, "testdata/sizes.txt", func(text string) string { return fmt.Sprint(ParseSize(text)) })
}
