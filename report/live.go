package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// Comparison is the compare with the verdicts of its rounds, in the order of its duels.
func (l *LiveFile) Comparison() *Comparison {
	sides := l.Sides()
	var order []kernels.Problem
	for _, d := range l.Duels {
		order = append(order, d.Problem)
	}
	c := newComparison(sides[0], sides[1], order)
	c.live, c.Runs = l, l.Runs()
	next := 0
	for i, d := range l.Duels {
		r := &c.Rows[i]
		if r.duel = d; d.Status == kernels.StatusOK {
			r.setPaired(l.Judged[next])
			next++
		}
		if k := slices.IndexFunc(l.Gate,
			func(g ab.Confirmation) bool { return g.Problem == d.Problem }); k >= 0 {
			r.second = &l.Gate[k]
		}
	}
	c.summarize(sides[0], sides[1])
	c.Timer = Timer(c.Runs)
	return c
}

// describe makes a table of rows that of a live compare.
func (l *LiveFile) describe(t *Table, timer []string) {
	pr := l.Run.Protocol
	first := withMeanings(fmt.Sprintf("A = %s, B = %s, live on %s", l.A, l.B, l.Run.Device.Name), l.A, l.B)
	title := fmt.Sprintf("%s\nrounds of %d %s launches per arm; "+
		"speedup is A's time over B's, with its %.1f%% interval\n%s", first,
		pr.Samples, pr.Name, 100*(1-l.Rule.Plan.Looks[0].Alpha), checked)
	t.Title = strings.Join(append([]string{title}, timer...), "\n")
	t.Notes, t.Group = l.notes(), ByProblem
	if l.Gated() {
		t.Outcome = l.Outcome()
		t.Notes = slices.DeleteFunc(t.Notes, func(n string) bool { return slices.Contains(t.Outcome.lines(), n) })
	}
	t.Drop = []string{"A/A' %", "rounds", "A CTAs/SM,B CTAs/SM", "A regs,B regs", "q", "A %stream",
		"peer", "what moved"}
}

// liveColumns are those that a live compare has beside a recorded one's.
func liveColumns(m *ab.Experiment) (list []Column[Row]) {
	add := func(head, name string, value func(Row) any) *Column[Row] {
		list = append(list, Column[Row]{Head: head, Name: name, Value: value})
		return &list[len(list)-1]
	}
	judged := func(head, name string, value func(*verdict.Judgement) any) *Column[Row] {
		return add(head, name, func(r Row) any { return ifAny(r.judged, value) })
	}
	second := func(name string, value func(*ab.Confirmation) any) {
		add("", name, func(r Row) any { return ifAny(r.second, value) })
	}
	judged("", "gate", func(j *verdict.Judgement) any { return j.Gate })
	q := judged("q", "q", func(j *verdict.Judgement) any { return j.Q })
	q.Format, q.Means = "%.4f", "p-value of the cell, corrected for the number of cells"
	judged("", "p_holm", func(j *verdict.Judgement) any { return j.PHolm })
	floor := judged("A/A' %", "floor_percent", func(j *verdict.Judgement) any { return 100 * j.Floor })
	floor.Format, floor.Means = "%.2f", "difference of two copies of A in the same rounds"
	judged("", "band_percent", func(j *verdict.Judgement) any { return 100 * j.Band })
	what := add("what moved", "moved_stage",
		func(r Row) any { stage, _, _ := r.movedStage(); return stage })
	what.Text, what.Means = Row.movedText, "the launch that changed most, or why there is no verdict"
	add("", "moved_us", func(r Row) any { _, _, by := r.movedStage(); return NonZero(by) })
	if m.A == "peer:best" || m.B == "peer:best" {
		add("peer", "peer", func(r Row) any { return r.peer() })
	}
	registers := len(m.Duels) == 0 || slices.ContainsFunc(m.Duels,
		func(d *ab.DuelResult) bool { return d.CheckA.Main() != nil })
	for _, of := range []struct {
		head, name string
		value      func(*kernels.Resource) any
	}{{" regs", "regs", func(k *kernels.Resource) any { return k.Registers }},
		{" CTAs/SM", "ctas_per_sm", func(k *kernels.Resource) any { return k.Occupancy }}} {
		for i, prefix := range []string{"a_", "b_"} { // of each arm's main kernel
			c := add(letter(i)+of.head, prefix+of.name, func(r Row) any {
				return ifAny([]*kernels.Check{r.duel.CheckA, r.duel.CheckB}[i].Main(), of.value)
			})
			if !registers {
				c.Head = ""
			}
		}
	}
	second("gate_confirmed", func(g *ab.Confirmation) any { return g.Confirmed })
	second("again_speedup", func(g *ab.Confirmation) any { return speedupOf(g.Again.Effect) })
	second("again_speedup_lo", func(g *ab.Confirmation) any { return speedupOf(g.Again.Hi) })
	second("again_speedup_hi", func(g *ab.Confirmation) any { return speedupOf(g.Again.Lo) })
	second("again_verdict", func(g *ab.Confirmation) any { return g.Again.Verdict })
	second("again_reason", func(g *ab.Confirmation) any { return g.Again.Reason })
	return list
}

// peer is the other library that one of the row's sides is of, A's where both are.
func (r *Row) peer() string {
	for _, v := range []Measurement{r.A, r.B} {
		if name, ok := kernels.PeerName(v.Variant.Family); ok {
			return name
		}
	}
	return ""
}

// movedText is what a person should know of the stages, or why there is no verdict.
func (r Row) movedText() string {
	stage, was, by := r.movedStage()
	switch j := r.judged; {
	case j == nil:
		return ""
	case j.Verdict == verdict.Inconclusive:
		return j.Reason
	case j.Verdict != verdict.Same && stage != "":
		return fmt.Sprintf("%s %+.1f us of %.1f", stageName(r.duel.StagesBy, r.duel.StagesA, stage), by, was)
	}
	return ""
}

// movedStage is the stage that changed most, what it took of A, and by how much more it takes of B;
// "" where none is known to have changed. Stages are timed in a pass of their own, so they are no
// evidence against the rounds: they are told only where all together moved as B did, slower or not.
func (r Row) movedStage() (stage string, was, by float64) {
	if r.judged == nil {
		return "", 0, 0
	}
	slower, sum := r.judged.Effect > 1, 0.0
	agrees := func(diff float64) bool { return diff != 0 && (diff > 0) == slower }
	for _, a := range r.duel.StagesA {
		for _, b := range r.duel.StagesB {
			if a.Stage != b.Stage {
				continue
			}
			ma, mb := stats.Median(a.SamplesUS), stats.Median(b.SamplesUS)
			diff := mb - ma
			if sum += diff; agrees(diff) && math.Abs(diff) > math.Abs(by) {
				stage, was, by = a.Stage, ma, diff
			}
		}
	}
	if !agrees(sum) {
		return "", 0, 0
	}
	return stage, was, by
}
