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
		spent Spent
		want  Allowance
	}{
		{Budget{Configs: 100}, Spent{}, Allowance{Configs: 10}},
		{Budget{Configs: 100}, Spent{Configs: 50}, Allowance{Configs: 5}},
		{Budget{Configs: 100}, Spent{Configs: 200}, Allowance{Configs: 1}},
		{Budget{Launches: 1000}, Spent{}, Allowance{Launches: 100}},
		{Budget{Time: 10 * time.Second}, Spent{Seconds: 5}, Allowance{Seconds: 0.5}},
		{Budget{Share: 0.25}, Spent{Configs: 1000}, Allowance{Configs: 25}},
		{Budget{}, Spent{}, Allowance{}},
	} {
		assert.Equal(t, test.b.Allow(100, 1000, test.spent), test.want, test.b, "after", test.spent)
	}
}
