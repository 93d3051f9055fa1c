package search

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// A budget as it is written, and what it leaves a problem of 100 variants, with 1000 to come, after so
// many seconds and configs: testdata/budgets.txt.
func TestBudgetsAreReadAndShared(t *testing.T) {
	assert.Lines(t, "testdata/budgets.txt", func(input string) string {
		text, after, allows := strings.Cut(input, " after ")
		b, err := ParseBudget(text)
		if err != nil {
			return assert.Refusal(t, err)
		}
		if !allows {
			return fmt.Sprintf("%+v", b)
		}
		spent, err := strconv.Atoi(after)
		assert.NoError(t, err)
		return fmt.Sprintf("%+v", b.Allow(100, 1000, Effort{Seconds: float64(spent), Configs: spent}))
	})
	b, err := ParseBudget("")
	assert.That(t, err == nil && b == Budget{} && b.Allow(100, 1000, Effort{}) == Effort{},
		"none: %+v, %v", b, err)
}
