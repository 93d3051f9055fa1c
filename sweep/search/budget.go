package search

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"normbench/internal/hint"
)

// A Budget bounds a search by one of its fields; if all are zero there is no bound.
type Budget struct {
	Time    time.Duration // that a person waits, compiling included, over all problems
	Configs int           // variants measured, over all problems
	Share   float64       // of the variants, on each problem
}

// configsUnit stands behind a number of configs. A bare number is refused: one person means configs by
// it, and another minutes.
const configsUnit = "configs"

// ParseBudget reads 5m (time), 300configs or 10% (of the configs). "" is no bound.
func ParseBudget(s string) (b Budget, err error) {
	if s == "" {
		return b, nil
	}
	if number, ok := strings.CutSuffix(s, configsUnit); ok {
		var n uint64
		n, err = strconv.ParseUint(number, 10, 31)
		b.Configs = int(n)
	} else if number, ok := strings.CutSuffix(s, "%"); ok {
		b.Share, err = strconv.ParseFloat(number, 64)
		b.Share /= 100
	} else {
		b.Time, err = time.ParseDuration(s)
	}
	if err == nil && !b.IsZero() && b.Time >= 0 && b.Share >= 0 && b.Share <= 1 && s[0] != '+' {
		return b, nil
	}
	if n, err := strconv.ParseUint(s, 10, 31); err == nil && n > 0 {
		return Budget{}, hint.Errorf(fmt.Sprintf("write %d%s, or %[1]dm for minutes", n, configsUnit),
			"budget %q has no unit", s)
	}
	return Budget{}, hint.Errorf("write a time such as 5m, or configs such as 300configs or 10%", "malformed budget %q", s)
}

// String writes the budget as ParseBudget reads it.
func (b Budget) String() string {
	switch {
	case b.Time > 0:
		return b.Time.String()
	case b.Configs > 0:
		return strconv.Itoa(b.Configs) + configsUnit
	case b.Share > 0:
		return strconv.FormatFloat(100*b.Share, 'g', -1, 64) + "%"
	}
	return ""
}

// IsZero says whether there is no bound.
func (b Budget) IsZero() bool { return b == Budget{} }

// An Effort is what a search has used, or what it may use; in the latter 0 is no bound.
type Effort struct {
	Seconds  float64 // in which the device was at work
	Launches int     // timed ones; what a visit drops is not counted
	Configs  int     // variants tried, failed ones included
}

// Allow computes what a search of one problem with so many variants may use. It divides what the budget has left
// after spent by numbers of variants: left is those of all problems still to come, this one included. So what
// one problem leaves goes to those after it. Without a budget nothing limits it: the zero Effort.
func (b Budget) Allow(variants, left int, spent Effort) Effort {
	share := float64(variants) / float64(max(left, variants, 1))
	part := func(total, used int) int {
		return max(int(math.Ceil(float64(total-used)*share)), 1)
	}
	switch {
	case b.Time > 0:
		return Effort{Seconds: max((b.Time.Seconds()-spent.Seconds)*share,
			math.SmallestNonzeroFloat64)}
	case b.Configs > 0:
		return Effort{Configs: part(b.Configs, spent.Configs)}
	case b.Share > 0:
		return Effort{Configs: max(int(math.Ceil(b.Share*float64(variants))), 1)}
	}
	return Effort{}
}
