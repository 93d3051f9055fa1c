package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// checked says of the rows what a reader of times should know first.
const checked = "Every answer was checked against float64 before it was timed."

// aboveStream explains a share of more than 100%, in a table that has one.
const aboveStream = "above 100 %stream: the stream is a plain copy in one config for all shapes, a yardstick and no " +
	"bound. A kernel may overlap its reads and writes better, and both times scatter."

// sideWord says in words what an operand is, "" where its own text says as much.
func sideWord(label string) string {
	name, choice, _ := strings.Cut(label, "#")
	switch peer, ok := strings.CutPrefix(label, "peer:"); {
	case label == "peer:best" || choice == "peers" || choice == "peer:best":
		return "the best other library"
	case ok:
		return peer
	case label == "base" || choice == "base":
		return "the base"
	case strings.HasPrefix(name, "tuned:"):
		return "our tuned kernels"
	case label == "best":
		return "the best found"
	}
	return ""
}

// meanings returns a line on what two operands are for, "" where both say as much themselves.
func meanings(a, b string) string {
	var parts []string
	for i, label := range []string{a, b} {
		means := ""
		switch _, choice, _ := strings.Cut(label, "#"); {
		case label == "peer:best" || choice == "peers" || choice == "peer:best":
			means = "the fastest other library at each problem"
		case label == "base" || choice == "base":
			means = "what runs untuned"
		case label == "best":
			means = "what the sweep chose, the base where no other is proven faster"
		case i == 1 && b+"#base" == a:
			means = "what was chosen there"
		case strings.HasPrefix(label, "tuned:"):
			means = "our kernels as tuned"
		}
		if means != "" && (i == 0 || a != b) {
			parts = append(parts, letter(i)+" is "+means)
		}
	}
	return strings.Join(parts, "; ")
}

// withMeanings returns the line that names both sides, with what they are for below it.
func withMeanings(line, a, b string) string {
	if text := meanings(a, b); text != "" {
		return line + "\n" + text
	}
	return line
}

// Words returns what the sides are called in sentences and legends.
func (c *Comparison) Words() (a, b string) { return wordsOf(c.A, c.B) }

// wordsOf returns what two operands are, where that tells them apart, else their own texts.
func wordsOf(a, b string) (string, string) {
	x, y := sideWord(a), sideWord(b)
	if x == y {
		return a, b
	}
	return cmp.Or(x, a), cmp.Or(y, b)
}

// Ending returns what the comparison comes to.
func (c *Comparison) Ending() Ending { return Ending{Found: c.Found(), Next: c.Next} }

// Found says in one sentence what the rows come to, "" of none.
func (c *Comparison) Found() string {
	m, mean := c.All, ""
	faster, same, slower, unclear := m.Faster, m.Same, m.Slower, m.Unclear
	if m.N > 0 {
		mean = fmt.Sprintf("%.3fx in the geometric mean", m.Speedup)
		if m.Lo > 0 {
			mean += fmt.Sprintf(" (95%% %.3f-%.3f)", m.Lo, m.Hi)
		}
	}
	if c.live != nil {
		s := c.live.Summary
		if s.Cells == 0 {
			return ""
		}
		mean = fmt.Sprintf("%.3fx in the geometric mean%s", 1/s.Mean, meanInterval(s))
	}
	if m.N == 0 {
		return ""
	}
	if c.A == "base" && c.B == "best" || c.A == c.B+"#base" || strings.HasSuffix(c.A, OwnDefault) {
		return c.foundBySweep()
	}
	a, b := c.Words()
	var parts []string
	add := func(n int, word string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d", word, n))
		}
	}
	add(slower, "slower")
	add(same, "the same")
	add(unclear, "undecided")
	add(m.Unpaired, "not measured in turns")
	add(m.Equal, "one variant on both sides")
	in := fmt.Sprintf("%d of %s", faster, console.Count(m.N, "problem"))
	if faster == m.N && m.N > 1 {
		in = fmt.Sprintf("all %d problems", m.N)
	}
	text := fmt.Sprintf("B (%s) is faster than A (%s) in %s", b, a, in)
	if len(parts) > 0 {
		text += ", " + strings.Join(parts, ", ")
	}
	text += ": " + mean
	if c.Worst != nil && m.N > 1 {
		text += fmt.Sprintf(", %.3fx at the least", c.Worst.Speedup)
	}
	return text + "."
}

// OwnDefault stands behind a family's name where its own default is the side that it is held against.
const OwnDefault = " by its own default"

// foundBySweep says what a sweep found: what it proved, and what it did not.
func (c *Comparison) foundBySweep() string {
	var gains []float64
	kept, unproven := 0, 0
	for i := range c.Rows {
		switch r := &c.Rows[i]; {
		case r.Verdict == verdict.Faster:
			gains = append(gains, r.Speedup)
		case r.isOneVariant():
			kept++
			if r.Unproven.medianUS() > 0 {
				unproven++
			}
		}
	}
	n, base := console.Count(c.All.N, "problem"), "the base"
	if family, ok := strings.CutSuffix(c.A, OwnDefault); ok {
		base = "the default of " + family
	}
	text := fmt.Sprintf("no config is proven faster than %s, in %s", base, n)
	if len(gains) > 0 {
		text = fmt.Sprintf("a config faster than %s is proven in %d of %s, by %s", base, len(gains), n, Ratio(slices.Min(gains)))
		if len(gains) > 1 {
			text += " to " + Ratio(slices.Max(gains))
		}
	}
	if kept > 0 {
		text += fmt.Sprintf("; %s stays in %d", base, kept)
	}
	if unproven > 0 {
		text += fmt.Sprintf(", and in %d of these another config had a shorter median, which chance explains as well", unproven)
	}
	if n := c.All.Unpaired; n > 0 {
		text += fmt.Sprintf("; %d have no verdict, as nothing measured both in turns", n)
	}
	if n := c.All.Unclear; n > 0 {
		text += fmt.Sprintf("; %d are undecided", n)
	}
	return text + "."
}

// above says whether a side of a row is faster than the stream by more than what its share is rounded to.
func (c *Comparison) aboveStream() bool {
	return slices.ContainsFunc(c.Rows, func(r Row) bool {
		return max(r.A.streamPercent(), r.B.streamPercent()) >= 100.05
	})
}

// BestGain returns the problem with the greatest speedup that is proven, nil where there is none.
func (c *Comparison) BestGain() *kernels.Problem {
	var best *Row
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Verdict == verdict.Faster && (best == nil || r.Speedup > best.Speedup) {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	return &best.Problem
}

// deviceIDs returns the devices of runs, with commas.
func deviceIDs(runs []*record.Run) string {
	return strings.Join(words(func(r *record.Run) string { return r.Device.ID }, runs), ",")
}
