//go:build cuda

package cuda

import (
	"fmt"
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

// What the spin ahead of a batch of 20 operations takes next, in ns: testdata/enqueue.txt. It follows
// from what it took, how long the host took in us, and whether the spin had ended before.
func TestNextEnqueue(t *testing.T) {
	assert.Lines(t, "testdata/enqueue.txt", func(input string) string {
		var given uint64
		var us int
		var late bool
		_, err := fmt.Sscan(input, &given, &us, &late)
		assert.NoError(t, err)
		return fmt.Sprint(nextEnqueue(given, time.Duration(us)*time.Microsecond, 20, late))
	})
}
