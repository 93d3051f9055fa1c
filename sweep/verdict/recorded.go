package verdict

import (
	"fmt"
	"slices"
)

// JudgeRounds judges rounds that one run recorded: times of A and of B in the same rounds of
// random order, such as a sweep's finals. again are those of a second copy of A; it is of no use
// unless it has as many. step is the clock's. The cell is judged once, by all of its rounds. Its arms
// are two of so many choices by these rounds; each has its share of Alpha, because the best of equals
// looks better than it is.
func JudgeRounds(a, b, again []float64, step float64, choices int) Judgement {
	c := PairedRounds{Step: step}
	for i := range min(len(a), len(b)) {
		r := Round{A: a[i], B: b[i], A2: a[i]}
		if len(again) == len(a) {
			r.A2 = again[i]
		}
		c.Rounds = append(c.Rounds, r)
	}
	rule := Default()
	rule.Alpha /= float64(max(choices, 1))
	rule.Plan = Pocock(rule.Alpha, max(len(c.Rounds), 1))
	return Judge([]PairedRounds{c}, rule)[0]
}

// Speedup is B's speedup over A with its interval, "1.21x (1.20-1.22)"; "" without an effect.
func (j *Judgement) Speedup() string {
	if j.Effect == 0 {
		return ""
	}
	s := fmt.Sprintf("%.3fx", 1/j.Effect)
	if j.Lo > 0 {
		s += fmt.Sprintf(" (%.3f-%.3f)", 1/j.Hi, 1/j.Lo)
	}
	return s
}

// Reverse is the verdict on A in place of B.
func (j Judgement) Reverse() Judgement {
	turn := func(v Verdict) Verdict {
		switch v {
		case Faster:
			return Slower
		case Slower:
			return Faster
		}
		return v
	}
	j.Verdict, j.Gate = turn(j.Verdict), turn(j.Gate)
	if j.Modes != nil && j.Modes.Rounds { // B's slow rounds are fast ones of A over B
		m := *j.Modes
		m.Share = 1 - m.Share
		if j.Reason == j.Modes.String() {
			j.Reason = m.String()
		}
		j.Modes = &m
	}
	arms := map[string]string{"a": "b", "b": "a", "a2": "b2"}
	j.Late = slices.Clone(j.Late)
	for i := range j.Late {
		j.Late[i].Arm = arms[j.Late[i].Arm]
	}
	if j.Effect > 0 {
		j.Effect = 1 / j.Effect
	}
	if j.Lo > 0 {
		j.Lo, j.Hi = 1/j.Hi, 1/j.Lo
	}
	return j
}
