package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A liveRow is one duel of a live compare.
type liveRow struct {
	*ab.Result
	sides  [2]Value
	judged *verdict.Judged // nil where it failed
	second *ab.Second      // nil where it had none
	peer   string          // that one of them is
	stage  string          // that moved, from was by so many microseconds
	was    float64
	by     float64
}

// Table has a row for each duel.
func (l *Live) Table() *Table {
	sides, m := l.Sides(), &l.Match
	a, b := sides[0], sides[1]
	pr := m.Run.Protocol
	title := fmt.Sprintf("A = %s, B = %s, live on %s\nrounds of %d %s launches per arm; speedup is A's time over B's, with its %.1f%% interval",
		m.A, m.B, m.Run.Device.Name, pr.Samples, pr.Name, 100*(1-m.Rule.Plan.Looks[0].Alpha))
	var rows []liveRow
	next := 0
	registers := len(m.Duels) == 0
	for _, d := range m.Duels {
		bytes := d.Problem.Bytes()
		r := liveRow{Result: d, sides: [2]Value{ValueOf(a.Cells[d.Problem], bytes),
			ValueOf(b.Cells[d.Problem], bytes)}}
		if d.Status == kernels.StatusOK {
			r.judged = &m.Judged[next]
			next++
			r.stage, r.was, r.by = moved(d, r.judged.Effect > 1)
		}
		if i := slices.IndexFunc(m.Gate, func(g ab.Second) bool { return g.Problem == d.Problem }); i >= 0 {
			r.second = &m.Gate[i]
		}
		registers = registers || d.CheckA.Main() != nil
		for _, v := range []kernels.Variant{d.B, d.A} { // the one of B only where A is none
			if name, ok := kernels.PeerName(v.Family); ok {
				r.peer = name
			}
		}
		rows = append(rows, r)
	}
	t := NewTable(strings.Join(append([]string{title}, Timer(m.Runs()...)...), "\n"), rows,
		liveColumns(m, registers))
	t.Notes, t.Group = l.notes(), ByProblem
	t.Drop = []string{"A/A' %", "rounds", "A CTAs/SM,B CTAs/SM", "A regs,B regs", "q", "A %stream",
		"peer", "what moved"}
	return t
}

func liveColumns(m *ab.Match, registers bool) []Column[liveRow] {
	list := ProblemColumns(func(r liveRow) (kernels.Problem, int64) {
		return r.Problem, r.Problem.Bytes()
	}, "problem")
	add := func(head, name string, value func(liveRow) any) *Column[liveRow] {
		list = append(list, Column[liveRow]{Head: head, Name: name, Value: value})
		return &list[len(list)-1]
	}
	judged := func(head, name string, value func(*verdict.Judged) any) *Column[liveRow] {
		return add(head, name, func(r liveRow) any { return ifAny(r.judged, value) })
	}
	second := func(name string, value func(*ab.Second) any) {
		add("", name, func(r liveRow) any { return ifAny(r.second, value) })
	}
	faster := func(x float64) any { // B's speedup, of its time over A's
		if x == 0 {
			return nil
		}
		return 1 / x
	}
	add("", "a", func(liveRow) any { return m.A })
	add("", "b", func(liveRow) any { return m.B })
	groups := []string{"variant", "status", "us lo_us hi_us", "gbps", "stream_percent"}
	for _, names := range groups {
		for i, prefix := range []string{"a_", "b_"} {
			columns := ValueColumns(func(r liveRow) Value { return r.sides[i] }, letter(i), prefix,
				strings.Fields(names)...)
			columns[0].Means = map[string]string{"A us": "median over the rounds; B us likewise",
				"B %stream": "time of a copy of the same tensors over B's time; A %stream likewise"}[columns[0].Head]
			if names == "gbps" {
				columns[0].Head = ""
			}
			list = append(list, columns...)
		}
	}
	judged("rounds", "", func(j *verdict.Judged) any { return j.Rounds })
	judged("speedup", "speedup", func(j *verdict.Judged) any { return faster(j.Effect) }).Text = func(r liveRow) string {
		return fmt.Sprint(cmp.Or(ifAny(r.judged,
			func(j *verdict.Judged) any { return j.Speedup() }), ""))
	}
	judged("", "mark", func(j *verdict.Judged) any { return MarkOf(j.Verdict) })
	judged("", "p", func(j *verdict.Judged) any { return j.P })
	add("", "reason", func(r liveRow) any {
		return cmp.Or(ifAny(r.judged, func(j *verdict.Judged) any { return j.Reason }),
			any(r.Reason))
	})
	judged("", "speedup_lo", func(j *verdict.Judged) any { return faster(j.Hi) })
	judged("", "speedup_hi", func(j *verdict.Judged) any { return faster(j.Lo) })
	judged("verdict", "verdict", func(j *verdict.Judged) any { return j.Verdict }).Text = liveRow.verdict
	judged("", "gate", func(j *verdict.Judged) any { return j.Gate })
	judged("", "rounds", func(j *verdict.Judged) any { return j.Rounds })
	q := judged("q", "q", func(j *verdict.Judged) any { return j.Q })
	q.Format, q.Means = "%.4f", "p-value of the cell, corrected for the number of cells"
	judged("", "p_holm", func(j *verdict.Judged) any { return j.PHolm })
	floor := judged("A/A' %", "floor_percent", func(j *verdict.Judged) any { return 100 * j.Floor })
	floor.Format, floor.Means = "%.2f", "difference of two copies of A in the same rounds"
	judged("", "band_percent", func(j *verdict.Judged) any { return 100 * j.Band })
	what := add("what moved", "moved_stage", func(r liveRow) any { return r.stage })
	what.Text, what.Means = liveRow.moved, "the launch that changed most, or why there is no verdict"
	add("", "moved_us", func(r liveRow) any { return Known(r.by) })
	if m.A == bestPeer || m.B == bestPeer {
		add("peer", "", func(r liveRow) any { return r.peer })
	}
	for _, of := range []struct {
		head, name string
		value      func(*kernels.Resource) any
	}{{" regs", "regs", func(k *kernels.Resource) any { return k.Registers }},
		{" CTAs/SM", "ctas_per_sm", func(k *kernels.Resource) any { return k.Occupancy }}} {
		for i, prefix := range []string{"a_", "b_"} { // of each arm's main kernel
			c := add(letter(i)+of.head, prefix+of.name, func(r liveRow) any {
				return ifAny([]*kernels.Check{r.CheckA, r.CheckB}[i].Main(), of.value)
			})
			if !registers {
				c.Head = ""
			}
		}
	}
	second("gate_confirmed", func(g *ab.Second) any { return g.Confirmed })
	second("again_speedup", func(g *ab.Second) any { return faster(g.Again.Effect) })
	second("again_speedup_lo", func(g *ab.Second) any { return faster(g.Again.Hi) })
	second("again_speedup_hi", func(g *ab.Second) any { return faster(g.Again.Lo) })
	second("again_verdict", func(g *ab.Second) any { return g.Again.Verdict })
	second("again_reason", func(g *ab.Second) any { return g.Again.Reason })
	return list
}

// verdict is a row's for people, or why it has none.
func (r liveRow) verdict() string {
	switch j := r.judged; {
	case j == nil:
		return strings.ToUpper(string(r.Status)) + ": " + r.Reason
	case j.Gate != j.Verdict:
		return string(j.Verdict) + " (not beyond doubt among so many cells)"
	default:
		return string(j.Verdict)
	}
}

// moved is what a person should know of the stages, or why there is no verdict.
func (r liveRow) moved() string {
	switch j := r.judged; {
	case j == nil:
		return ""
	case j.Verdict == verdict.Inconclusive:
		return j.Reason
	case j.Verdict != verdict.Same && r.stage != "":
		return fmt.Sprintf("%s %+.1f us of %.1f", r.stage, r.by, r.was)
	}
	return ""
}

// moved is the stage that changed most, what it took of A, and by how much more it takes of B;
// "" where none is known to have changed. Stages are timed in a pass of their own, so they are no
// evidence against the rounds: they are told only where all together moved as B did, slower or not.
func moved(d *ab.Result, slower bool) (stage string, was, by float64) {
	sum := 0.0
	agrees := func(diff float64) bool { return diff != 0 && (diff > 0) == slower }
	for _, a := range d.StagesA {
		for _, b := range d.StagesB {
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
