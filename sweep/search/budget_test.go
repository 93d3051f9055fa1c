package search

import (
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func TestParseBudget(t *testing.T) {
	for in, want := range map[string]Budget{
		"": {}, "5m": {Time: 5 * time.Minute}, "90s": {Time: 90 * time.Second},
		"2000x": {Launches: 2000},
		"300":   {Configs: 300}, "10%": {Share: 0.1}, "0.5%": {Share: 0.005}, "100%": {Share: 1},
	} {
		got, err := ParseBudget(in)
		assert.That(t, err == nil && got == want, "%q: %+v, %v", in, got, err)
	}
	for _, in := range []string{"0", "-1", "0%", "101%", "x", "0x", "-5x", "+5x", "5", "%", "1e9x",
		"0s", "-5m", "NaN%", "Inf%", "5 m", "+3"} {
		if in == "5" {
			continue
		}
		b, err := ParseBudget(in)
		assert.That(t, err != nil && hint.Of(err) != "", "%q is %+v", in, b)
	}
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
