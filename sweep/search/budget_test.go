package search

import (
	"fmt"
	"testing"
	"time"

	"normbench/internal/assert"
)

func TestParseBudget(t *testing.T) {
	assert.Lines(t, "testdata/budgets.txt", func(input string) string {
		b, err := ParseBudget(input)
		if err != nil {
			return assert.Refusal(t, err)
		}
		return fmt.Sprintf("%+v", b)
	})
	b, err := ParseBudget("")
	assert.That(t, err == nil && b == Budget{}, "none: %+v, %v", b, err)
}

// What a problem leaves goes to those after it, and no problem gets nothing.
func TestAllow(t *testing.T) {
	for _, test := range []struct {
		b     Budget
		spent Effort
		want  Effort
	}{
		{Budget{Configs: 100}, Effort{}, Effort{Configs: 10}},
		{Budget{Configs: 100}, Effort{Configs: 50}, Effort{Configs: 5}},
		{Budget{Configs: 100}, Effort{Configs: 200}, Effort{Configs: 1}},
		{Budget{Time: 10 * time.Second}, Effort{Seconds: 5}, Effort{Seconds: 0.5}},
		{Budget{Share: 0.25}, Effort{Configs: 1000}, Effort{Configs: 25}},
		{Budget{}, Effort{}, Effort{}},
	} {
		assert.Equal(t, test.b.Allow(100, 1000, test.spent), test.want, test.b, "after", test.spent)
	}
}
