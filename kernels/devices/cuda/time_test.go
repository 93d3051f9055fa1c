//go:build cuda

package cuda

import (
	"fmt"
	"testing"
	"time"

	"normbench/internal/assert"
)

// All samples are taken, few enough at a time to be out of each other's way.
func TestBatchesTakeAllSamples(t *testing.T) {
	for operations := 3; operations <= 30; operations++ {
		for samples := 1; samples <= 60; samples++ {
			taken := 0
			for i, n := range batchSizes(samples, operations) {
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
func TestSpinFollowsTheTimeOfEnqueueing(t *testing.T) {
	assert.Lines(t, "testdata/enqueue.txt", func(input string) string {
		var given uint64
		var us int
		var late bool
		_, err := fmt.Sscan(input, &given, &us, &late)
		assert.NoError(t, err)
		return fmt.Sprint(nextEnqueue(given, time.Duration(us)*time.Microsecond, 20, late))
	})
}

// Where stages are timed, each sample runs the plan's first launch, then its first two, and so on, and
// all of it last: exposed k2 is the difference of the last two.
func TestStagesAreTimedByGrowingRuns(t *testing.T) {
	assert.Same(t, runLengths(1, true), []int{1})
	assert.Same(t, runLengths(2, true), []int{1, 2})
	assert.Same(t, runLengths(3, true), []int{1, 2, 3})
	assert.Same(t, runLengths(3, false), []int{3})
}
