package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/stats"
)

// A kind of trace is what a machine does to launch times while a cell is
// measured. The sizes are those of public raw data: 32 launches each of 30
// thousand convolution and dedispersion configs on A100, A4000, A6000 and
// MI250X (AutoTuningAssociation/benchmark_hub), and of the records of norm
// kernels on an H200 in results.
type kind struct {
	name string
	what string
	set  func(m *machine)

	noEffect bool // has no one effect to be found
	noClaim  bool // is not promised to be told from a change: shown only
}

var kinds = []kind{
	{name: "steady", what: "independent noise, as all kinds below have it: 0.3 to 3% per launch"},
	{name: "drift", what: "linear, by 2 to 12% in the time of 12 rounds, up or down",
		set: func(m *machine) {
			m.drift = m.sign() * m.between(0.02, 0.12) / span
		}},
	{name: "random walk", what: "by 1 to 4% in the time of 12 rounds", set: func(m *machine) {
		m.walk = m.between(0.01, 0.04) / math.Sqrt(span)
	}},
	{name: "autocorrelation", what: "noise with a lag-1 correlation of 0.15 to 0.87",
		set: func(m *machine) {
			m.rho = m.between(0.15, 0.87)
		}},
	{name: "level steps", what: "1 to 5 sudden changes of the clock by 3 to 10%",
		set: func(m *machine) {
			for range 1 + m.r.IntN(5) {
				m.jumpAt = append(m.jumpAt, m.r.IntN(2*span))
				m.jumpBy = append(m.jumpBy, m.sign()*m.between(0.03, 0.10))
			}
		}},
	{name: "first launch",
		what: "the first of a visit is off by -12.5 to +6.1%, each next by a third of that",
		set: func(m *machine) {
			m.first = m.between(-0.125, 0.061)
		}},
	{name: "heavy tails", what: "2 to 15% of the launches are late, by 10% on average",
		set: func(m *machine) {
			m.tail = m.between(0.02, 0.15)
		}},
	{name: "slow launches", what: "2 to 20% of the launches are in a mode that is 3 to 15% slower",
		set: func(m *machine) {
			m.slowLaunch, m.mode = m.between(0.02, 0.20), m.between(0.03, 0.15)
		}},
	{name: "alternation", what: "every other launch is slower by 1 to 6%", set: func(m *machine) {
		m.alternate = m.between(0.01, 0.06)
	}},
	{name: "1 us clock", what: "steps of 1 us, 1.1 to 10% of the time; 32 ns in all other kinds",
		set: func(m *machine) {
			m.step = 1
		}},
	{name: "two modes", what: "10 to 50% of the visits are in a mode that is 3 to 15% slower",
		noEffect: true, set: func(m *machine) {
			m.slowVisit, m.mode = m.between(0.10, 0.50), m.between(0.03, 0.15)
		}},
	{name: "all but modes",
		what: "drift, walk, autocorrelation, steps, first launch, tails and alternation at once",
		set: func(m *machine) {
			m.drift = m.between(-0.08, 0.08) / span
			m.walk = m.between(0, 0.02) / math.Sqrt(span)
			m.rho = m.between(0.15, 0.87)
			m.first = m.between(-0.10, 0.06)
			m.tail = m.between(0.02, 0.08)
			m.alternate = m.between(0, 0.03)
			for range m.r.IntN(3) {
				m.jumpAt = append(m.jumpAt, m.r.IntN(2*span))
				m.jumpBy = append(m.jumpBy, m.between(-0.10, 0.10))
			}
		}},
	{name: "placement",
		what: "each loaded copy of the code has a speed of its own, 0.3% standard " +
			"deviation", noClaim: true, set: func(m *machine) {
			for i := range m.place {
				m.place[i] = 0.003 * m.r.NormFloat64()
			}
		}},
}

// What is launched: visits of one launch that is dropped and ten that are kept.
const (
	kept  = 10
	visit = 1 + kept
	span  = 12 * 3 * visit // launches in 12 rounds
)

// The arms.
const (
	armA = iota
	armB
	armA2
)

// A machine times launches one after the other. It knows of an arm only what
// place and effect say.
type machine struct {
	r      *rand.Rand
	us     float64 // 10 to 90
	sd     float64 // of the log of a launch
	step   float64 // of the clock, us
	effect float64 // of B, log

	drift, walk, rho, first, tail, mode, slowLaunch, slowVisit, alternate float64
	jumpAt                                                                []int
	jumpBy                                                                []float64
	place                                                                 [3]float64

	now    int // launches so far
	level  float64
	ar     float64
	places float64 // sqrt(1-rho²)
	parity int
	slow   bool
}

func newMachine(k kind, seed uint64, effect float64) *machine {
	m := &machine{r: rand.New(rand.NewPCG(seed, 1)), step: 0.032}
	m.us = 10 * math.Pow(9, m.r.Float64())
	m.sd = 0.003 * math.Pow(10, m.r.Float64())
	m.effect = m.sign() * effect
	if k.set != nil {
		k.set(m)
	}
	m.ar, m.places = m.r.NormFloat64(), math.Sqrt(1-m.rho*m.rho)
	return m
}

func (m *machine) between(lo, hi float64) float64 { return lo + (hi-lo)*m.r.Float64() }

func (m *machine) sign() float64 { return float64(2*m.r.IntN(2) - 1) }

// launch times the i-th launch of a visit of an arm.
func (m *machine) launch(arm, i int) float64 {
	if i == 0 {
		m.parity = m.r.IntN(2)
		m.slow = m.slowVisit > 0 && m.r.Float64() < m.slowVisit
	}
	m.ar = m.rho*m.ar + m.places*m.r.NormFloat64()
	m.level += m.drift
	if m.walk > 0 {
		m.level += m.walk * m.r.NormFloat64()
	}
	for k, at := range m.jumpAt {
		if at == m.now {
			m.level += m.jumpBy[k]
		}
	}
	m.now++
	x := m.level + m.sd*m.ar + m.place[arm]
	if arm == armB {
		x += m.effect
	}
	if m.slow || m.slowLaunch > 0 && m.r.Float64() < m.slowLaunch {
		x += m.mode
	}
	if (i+m.parity)%2 == 1 {
		x += m.alternate
	}
	if m.first != 0 && i < 5 {
		x += m.first * [5]float64{1, 1. / 3, 1. / 9, 1. / 27, 1. / 81}[i]
	}
	if m.tail > 0 && m.r.Float64() < m.tail {
		x += 0.1 * m.r.ExpFloat64()
	}
	// Both ends of a span are read off the clock, and the launch starts anywhere
	// between two of its ticks.
	return m.step * math.Floor(m.us*exp(x)/m.step+m.r.Float64())
}

// exp is near enough and a third of what this test would else take.
func exp(x float64) float64 {
	if math.Abs(x) > 0.1 {
		return math.Exp(x)
	}
	return 1 + x*(1+x/2*(1+x/3*(1+x/4)))
}

// visit is the median of the launches that are kept.
func (m *machine) visit(arm int) float64 {
	var x [kept]float64
	m.launch(arm, 0)
	for i := range x {
		v := m.launch(arm, i+1)
		j := i
		for ; j > 0 && x[j-1] > v; j-- {
			x[j] = x[j-1]
		}
		x[j] = v
	}
	return (x[kept/2-1] + x[kept/2]) / 2
}

// round visits the arms in a random order, or in A B A' and A' B A by turns.
func (m *machine) round(n int, shuffled bool, r *rand.Rand) Round {
	arms := [3]int{armA, armB, armA2}
	if shuffled {
		for i := 2; i > 0; i-- {
			j := r.IntN(i + 1)
			arms[i], arms[j] = arms[j], arms[i]
		}
	} else if n%2 == 1 {
		arms[0], arms[2] = arms[2], arms[0]
	}
	var t [3]float64
	for _, arm := range arms {
		t[arm] = m.visit(arm)
	}
	return Round{t[armA], t[armB], t[armA2]}
}

// compare is a live A/B.
func compare(k kind, seed uint64, effect float64, shuffled bool, rule Rule) (PairedRounds, Judgement) {
	m := newMachine(k, seed, effect)
	order := rand.New(rand.NewPCG(seed, 2))
	c := PairedRounds{Step: m.step, Rounds: make([]Round, 0, rule.Plan.Rounds())}
	for {
		j, more := rule.judgeInterim(c, 1)
		if !more {
			return c, j
		}
		c.Rounds = append(c.Rounds, m.round(len(c.Rounds), shuffled, order))
	}
}

// block is launches of one arm in a row.
func (m *machine) block(arm, n int) []float64 {
	x := make([]float64, n)
	m.launch(arm, 0)
	for i := range x {
		x[i] = m.launch(arm, i+1)
	}
	return x
}

// medians judges the same machine as is usual: all of A, then all of B, as many launches as in 12
// rounds, of which the medians differ by more than 1%.
func medians(k kind, seed uint64, effect float64) Verdict {
	m := newMachine(k, seed, effect)
	a, b := m.block(armA, 12*kept), m.block(armB, 12*kept)
	switch d := math.Log(stats.Median(b) / stats.Median(a)); {
	case d > math.Log1p(0.01):
		return Slower
	case d < -math.Log1p(0.01):
		return Faster
	}
	return Same
}

// recorded judges 20 launches of A, and 20 of B after the time of 12 rounds;
// twice, without and with 20 launches of the same code beside each.
func recorded(k kind, seed uint64, effect float64, rule Rule) (alone, controlled Verdict) {
	m := newMachine(k, seed, effect)
	control, a := m.block(armA2, 20), m.block(armA, 20)
	m.block(armA, span)
	again, b := m.block(armA2, 20), m.block(armB, 20)
	judge := func(controlA, controlB float64) Verdict {
		band := rule.RecordedBand(rule.Unpaired, controlA, controlB)
		return JudgeMedians(stats.Summarize(a), stats.Summarize(b), rule.Unpaired, band)
	}
	return judge(0, 0), judge(stats.Median(control), stats.Median(again))
}

// A tally counts what cells of one kind and one effect were called, by name: cells whose clock
// resolves the effect, of which right, wrong and same, and their rounds; coarse ones and
// coarseCalled; fixed of fixedCells in the order A B A'; and of usualCells and recordedCells what
// medians call.
type tally map[string]int

func (t tally) add(o tally) {
	for name, n := range o {
		t[name] += n
	}
}

// rate is the share of a count.
func (t tally) rate(n, of string) float64 { return float64(t[n]) / float64(max(t[of], 1)) }

func claimed(v Verdict) bool { return v == Faster || v == Slower }

// count judges n cells of a kind. Of identical arms every call is wrong.
func count(k kind, effect float64, n int, rule Rule) tally {
	parts := make([]tally, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for w := range parts {
		parts[w] = tally{}
		wg.Go(func() {
			for seed := w; seed < n; seed += len(parts) {
				parts[w].judge(k, effect, uint64(seed), seed < n/4, rule)
			}
		})
	}
	wg.Wait()
	for _, p := range parts[1:] {
		parts[0].add(p)
	}
	return parts[0]
}

// judge counts one cell; more judges it by the other methods too.
func (t tally) judge(k kind, effect float64, seed uint64, more bool, rule Rule) {
	truth := Same
	if effect > 0 {
		if truth = Faster; newMachine(k, seed, effect).effect > 0 {
			truth = Slower
		}
	}
	score := func(v Verdict, right, wrong string) {
		if claimed(v) && v == truth {
			t[right]++
		} else if claimed(v) {
			t[wrong]++
		}
	}
	if c, j := compare(k, seed, effect, true, rule); j.Step > rule.Resolve && effect > 0 {
		t["coarse"]++
		score(j.Verdict, "coarseCalled", "coarseCalled")
	} else {
		t["cells"]++
		t["rounds"] += len(c.Rounds)
		score(j.Verdict, "right", "wrong")
		if j.Verdict == Same {
			t["same"]++
		}
	}
	if effect == contrasted || effect == 0 && more {
		t["usualCells"]++
		score(medians(k, seed, effect), "medians", "mediansWrong")
	}
	if effect == 0 && more {
		t["fixedCells"]++
		t["recordedCells"]++
		_, j := compare(k, seed, 0, false, rule)
		alone, controlled := recorded(k, seed, 0, rule)
		score(j.Verdict, "fixed", "fixed")
		score(alone, "recorded", "recorded")
		score(controlled, "controlled", "controlled")
	}
}

// The demands on Default, over 10000 cells of identical arms and 2500 of each
// effect for every kind of trace.
const (
	mostFalse  = 0.005
	leastFound = 0.95
	contrasted = 0.02 // effect that is to be found
)

func TestErrorRatesOnTracesHold(t *testing.T) {
	identical, changed := 10000, 2500
	if !assert.All && !*assert.Update {
		identical, changed = identical/20, changed/20
		t.Logf("%d and %d cells per kind, traces.md is not compared", identical, changed)
	}
	rule := Default()
	assert.NoError(t, rule.CheckValid())
	var null, two, half []tally
	all, found := tally{}, tally{}
	for _, k := range kinds {
		n, c, h := count(k, 0, identical, rule), count(k, contrasted, changed, rule), count(k,
			0.005, changed, rule)
		null, two, half = append(null, n), append(two, c), append(half, h)
		if k.noClaim {
			continue
		}
		all.add(n)
		r := n.rate("wrong", "cells")
		assert.That(t, r <= mostFalse,
			"%s: %.2f%% of identical arms are FASTER or SLOWER", k.name, 100*r)
		assert.That(t, c["wrong"]+c["same"] <= 0,
			"%s: %d changes of 2%% have the wrong sign, %d are SAME", k.name, c["wrong"], c["same"])
		if r := c.rate("coarseCalled", "coarse"); r > mostFalse {
			t.Errorf("%s: %.2f%% are FASTER or SLOWER by less than the clock's step", k.name, 100*r)
		}
		if k.noEffect {
			continue
		}
		found.add(c)
		if r := c.rate("right", "cells"); r < leastFound {
			t.Errorf("%s: %.1f%% of the changes of 2%% are found", k.name, 100*r)
		}
	}
	if !assert.All && !*assert.Update {
		return
	}
	got := "# Error rates\n\n[lab/notes/verdicts.md](../../lab/notes/verdicts.md#what-was-simulated) says what is " +
		"simulated.\n`go test ./sweep/verdict -update` writes this page.\n" +
		tables(null, two, half, all, found) + powers(rule) + legend()
	if old := string(assert.File(t, "traces.md")); *assert.Update || !alike(got, old) {
		assert.Golden(t, "traces.md", got)
	}
}

// table is one of the page's. align is that of all columns but the first.
func table(title, align, header string, rows [][]string) string {
	columns := strings.Count(header, " | ")
	text := "\n" + title + "\n\n| " + header + " |\n|---" + strings.Repeat("|"+align, columns) + "|\n"
	for _, r := range rows {
		text += "| " + strings.Join(r, " | ") + " |\n"
	}
	return text
}

// percent is a share of a tally, nothing of none.
func (t tally) percent(n, of string, digits int) string {
	if t[of] == 0 {
		return ""
	}
	return fmt.Sprintf("%.*f%%", digits, 100*t.rate(n, of))
}

// powers is how cells of the hardest kind with one effect are called.
func powers(rule Rule) string {
	var rows [][]string
	hardest := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "all but modes" })]
	for _, effect := range []float64{0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05} {
		c := count(hardest, effect, 1000, rule)
		c["called"] = c["right"] + c["wrong"]
		c["other"] = c["cells"] - c["called"] - c["same"]
		rows = append(rows, []string{fmt.Sprintf("%.1f%%", 100*effect), c.percent("called", "cells", 1),
			c.percent("same", "cells", 1), c.percent("other", "cells", 1),
			fmt.Sprintf("%.1f", c.rate("rounds", "cells"))})
	}
	return table("By the size of the change, 1000 cells each of \"all but modes\":", "--:",
		"change | FASTER or SLOWER | SAME | INCONCLUSIVE | rounds", rows)
}

func legend() string {
	var rows [][]string
	for _, k := range kinds {
		rows = append(rows, []string{k.name, k.what})
	}
	return table("The traces:", "---", "trace | ", rows)
}

// tables are how the kinds are called, by this tool and as usual.
func tables(null, two, half []tally, all, found tally) string {
	var rows, usual [][]string
	usualRow := func(name string, n, c tally) {
		usual = append(usual, []string{name, n.percent("mediansWrong", "usualCells", 1),
			c.percent("medians", "usualCells", 1), c.percent("mediansWrong", "usualCells", 1),
			n.percent("recorded", "recordedCells", 1), n.percent("controlled", "recordedCells", 1)})
	}
	for i, k := range kinds {
		name := k.name
		switch {
		case k.noClaim:
			name += " (no promise)"
		case k.noEffect:
			name += " (nothing to find)"
		}
		n, c, h := null[i], two[i], half[i]
		coarse := ""
		if c["coarse"] > 0 {
			coarse = fmt.Sprintf("%.0f%%", 100*float64(c["coarse"])/float64(c["cells"]+c["coarse"]))
		}
		h["called"] = h["right"] + h["wrong"]
		rows = append(rows, []string{name, n.percent("wrong", "cells", 2),
			n.percent("fixed", "fixedCells", 2), n.percent("same", "cells", 0),
			c.percent("right", "cells", 1), fmt.Sprint(c["wrong"]),
			fmt.Sprintf("%.1f", c.rate("rounds", "cells")), coarse,
			c.percent("coarseCalled", "coarse", 1), h.percent("called", "cells", 1)})
		usualRow(name, n, c)
	}
	rows = append(rows, []string{"**promised**", "**" + all.percent("wrong", "cells", 2) + "**",
		all.percent("fixed", "fixedCells", 2), "", "**" + found.percent("right", "cells", 1) + "**",
		fmt.Sprint(found["wrong"]), "", "", "", ""})
	usualRow("**promised**", all, found)
	title := fmt.Sprintf("This tool, %d cells of identical arms and %d each of a change per row:",
		null[0]["cells"], two[0]["cells"]+two[0]["coarse"])
	return table(title, "--:", "trace | identical: called | in order A B A' | SAME | 2%: found | "+
		"wrong sign | rounds | clock too coarse | of these called | 0.5%: called", rows) +
		table("The same machines as usually judged:", "--:", "trace | medians > 1%: identical called | "+
			"2%: found | wrong sign | recorded: identical called | with a control", usual)
}

// alike says whether two texts differ in nothing but numbers, and in those by
// what a few cells of thousands make: processors with a fused multiply-add round
// otherwise.
func alike(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	return slices.EqualFunc(x, y, func(x, y string) bool {
		u, err1 := strconv.ParseFloat(strings.Trim(x, "*%"), 64)
		v, err2 := strconv.ParseFloat(strings.Trim(y, "*%"), 64)
		return x == y || err1 == nil && err2 == nil && math.Abs(u-v) <= 0.3
	})
}
