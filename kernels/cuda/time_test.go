//go:build cuda

package cuda

import (
	"testing"
	"time"

	"normbench/internal/assert"
)

// All samples are taken, few enough at a time to be out of each other's way.
func TestBatches(t *testing.T) {
	for operations := 3; operations <= 30; operations++ {
		for samples := 1; samples <= 60; samples++ {
			taken := 0
			for i, n := range batches(samples, operations) {
				led := n + min(i, 1)
				assert.That(t, n >= 1 && (led <= 2 || led*operations <= queue),
					"%d samples of %d operations: batch %d has %d behind %d", samples, operations,
					i, n, led-n)
				taken += n
			}
			assert.Equal(t, taken, samples, "samples", operations, "operations", "taken")
		}
	}
}

func TestNextEnqueue(t *testing.T) {
	for _, c := range []struct {
		given uint64
		took  time.Duration
		late  bool
		want  uint64
	}{
		{0, 20 * time.Microsecond, false, enqueueNS},         // a fast host
		{4000, 200 * time.Microsecond, false, 15_000},        // a slow one: 10 us each, and half
		{4000, 200 * time.Microsecond, true, 15_000},         // the spin had ended
		{40_000, 200 * time.Microsecond, true, 80_000},       // as it had before
		{1_000_000, 20 * time.Microsecond, false, enqueueNS}, // a pause is forgotten
		{4000, 20 * time.Millisecond, true, 1_500_000},       // a pause
	} {
		assert.Equal(t, nextEnqueue(c.given, c.took, 20, c.late), c.want, c)
	}
}
