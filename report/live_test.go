package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// Stages that were timed in a pass of their own are not told against the rounds: testdata/moved.txt,
// the stages of both sides, whether B is slower by the rounds, and the stage that is told.
func TestStagesTimedApartAreNotToldAgainstRounds(t *testing.T) {
	assert.Lines(t, "testdata/moved.txt", func(input string) string {
		x := assert.Value[struct {
			A, B   map[string]float64
			Effect float64
		}](t, input)
		stages := func(us map[string]float64) (list []record.Stage) {
			for _, name := range slices.Sorted(maps.Keys(us)) {
				list = append(list, record.Stage{Stage: name, SamplesUS: []float64{us[name]}})
			}
			return list
		}
		r := Row{duel: &ab.DuelResult{StagesA: stages(x.A), StagesB: stages(x.B)},
			judged: &verdict.Judgement{Effect: x.Effect}}
		stage, _, by := r.movedStage()
		return fmt.Sprintf("%s %g", stage, by)
	})
}

// smallLive is a recorded live compare with two of its duels, after change.
func smallLive(t testing.TB, change func(*LiveFile)) []byte {
	t.Helper()
	run, err := ReadLive("../results/nvidia-h200/peers/layernorm-bwd.json.gz")
	assert.NoError(t, err)
	run.Duels = run.Duels[:2]
	run.Decide()
	change(run)
	data, err := json.Marshal(run)
	assert.NoError(t, err)
	return data
}

// A gate says first what came of it and why, in every format but csv, and its exit code is of the same
// words: testdata/outcomes.txt, by what was asked for, the verdicts, and what the second run said.
func TestAGateSaysItsOutcomeFirst(t *testing.T) {
	whole, err := ReadLive("../results/nvidia-h200/peers/layernorm-bwd.json.gz")
	assert.NoError(t, err)
	assert.Lines(t, "testdata/outcomes.txt", func(input string) string {
		x := assert.Value[struct {
			Policy   ab.GatePolicy
			Verdicts []verdict.Verdict
			Statuses []kernels.Status // of the first cells, in place of ok
			Again    []verdict.Verdict
			Missing  int
		}](t, input)
		l := &LiveFile{whole.Experiment}
		l.Policy, l.Duels, l.Judged, l.Summary = x.Policy, nil, nil, verdict.Aggregate{}
		for i := range max(len(x.Verdicts), len(x.Statuses)) {
			d := *whole.Duels[i]
			if i < len(x.Statuses) {
				d.Status, d.Reason = x.Statuses[i], "as asked"
			} else {
				j := whole.Judged[i]
				j.Verdict, j.Gate, j.Reason = x.Verdicts[i], x.Verdicts[i], "noise"
				l.Judged = append(l.Judged, j)
			}
			l.Duels = append(l.Duels, &d)
		}
		l.Summary = verdict.Summarize(l.Judged)
		for i, d := range l.SlowerDuels()[:min(len(x.Again), len(l.SlowerDuels()))] {
			l.Gate = append(l.Gate, ab.Confirmation{Problem: d.Problem, Confirmed: x.Again[i] == verdict.Slower,
				Status: kernels.StatusOK, Again: verdict.Judgement{Verdict: x.Again[i]}})
		}
		l.Asked = len(l.Duels) + x.Missing
		o := l.Outcome()
		said := fmt.Sprintf("%s %s, %d lines", o.Kind, o, len(o.Lines))
		c := l.Comparison()
		for _, format := range Formats() {
			var b bytes.Buffer
			assert.NoError(t, Render(&b, c, format))
			line, _, _ := strings.Cut(b.String(), "\n")
			if format == FormatJSON {
				line, _, _ = strings.Cut(strings.TrimPrefix(b.String(), "{\n  "), "\n")
				assert.That(t, json.Valid(b.Bytes()), "%s", &b)
				assert.That(t, strings.HasPrefix(line, `"gate": {"outcome": "`+o.Kind.Word()) == l.Gated(), "%s", line)
			} else if format != FormatCSV {
				assert.That(t, strings.HasSuffix(line, o.String()) == l.Gated(), "%s: %s", format, line)
			}
		}
		var page bytes.Buffer
		assert.NoError(t, c.Page("").Write(&page))
		at := strings.Index(page.String(), o.String())
		assert.That(t, (at > 0 && at < strings.Index(page.String(), `<ul class="tally"`)) == l.Gated(),
			"the page has its outcome at %d", at)
		return said
	})
}

// Of several comparisons the worst outcome is that of all, with the cells of all.
func TestWorstOutcomeIsThatOfAll(t *testing.T) {
	pass := &GateOutcome{Kind: Passed, Reason: "0 of 3 slower", VerdictCounts: VerdictCounts{3, 1, 2, 0, 0}}
	fresh := &GateOutcome{Kind: Passed, Reason: ab.NewFamily}
	slow := &GateOutcome{Kind: Slower, Reason: "1 slower, confirmed, of 2 cells", Lines: []string{"gate: x"},
		VerdictCounts: VerdictCounts{2, 0, 1, 1, 0}}
	unfit := &GateOutcome{Kind: Unfit, Reason: "the machine was unfit in 1 cell"}
	for _, c := range []struct {
		list []*GateOutcome
		want string
	}{
		{[]*GateOutcome{pass, fresh}, "PASS: 0 of 3 slower; new family, nothing to compare {3 1 2 0 0} []"},
		{[]*GateOutcome{pass, slow, unfit}, "FAIL: 1 slower, confirmed, of 2 cells {5 1 3 1 0} [gate: x]"},
		{[]*GateOutcome{unfit, pass}, "UNDECIDED: the machine was unfit in 1 cell {3 1 2 0 0} []"},
	} {
		o := Join(c.list)
		assert.Equal(t, fmt.Sprint(o, " ", o.VerdictCounts, " ", o.Lines), c.want)
	}
}

// What a pull request is told begins with its mark and what came of it, and is never longer than the host
// takes: the rows are left out from the end, and a line of a compiler is cut. Less cannot be told.
func TestGateTextFitsWhatTheHostTakes(t *testing.T) {
	whole, err := ReadLive("../results/nvidia-h200/peers/layernorm-bwd.json.gz")
	assert.NoError(t, err)
	whole.Policy = ab.GatePolicy{Gate: true}
	one := GatePart{Family: "a", Outcome: whole.Outcome(), Comparison: whole.Comparison()}
	broken := GatePart{Family: "b|<i>", Outcome: &GateOutcome{Kind: Broken, Reason: "it failed",
		Lines: []string{"x: launch, " + strings.Repeat("é", 9000)}}}
	const mark = "<!-- mark -->\n"
	text := func(limit int, parts ...GatePart) string {
		var list []*GateOutcome
		for _, p := range parts {
			list = append(list, p.Outcome)
		}
		s, err := GateText(mark, "about", Join(list), parts, limit)
		assert.NoError(t, err)
		assert.That(t, len(s) <= limit, "%d bytes of %d", len(s), limit)
		return s
	}
	s := text(1<<16, one)
	assert.That(t, strings.HasPrefix(s, mark+"### PASS: 0 of 31 slower\n\nabout\n\n**A = peer:best"), "%.200s", s)
	assert.That(t, strings.Contains(s, "<details><summary>31 rows</summary>\n\n| problem ") &&
		strings.Index(s, "geometric mean 1.65") < strings.Index(s, "<details>"), "%s", s)
	s = text(1<<16, one, broken)
	assert.That(t, strings.HasPrefix(s, mark+"### FAIL: it failed\n\n- x: launch, é") &&
		strings.Contains(s, "\n#### a: PASS: 0 of 31 slower\n") &&
		strings.Contains(s, "\n#### b\\|&lt;i>: FAIL: it failed\n"), "%.500s", s)
	// What is about several families stands in the headline of a gate that passes, else below it.
	gone := GatePart{Outcome: &GateOutcome{Kind: Passed, Reason: "x is gone"}}
	s = text(1<<16, one, gone)
	assert.That(t, strings.HasPrefix(s, mark+"### PASS: 0 of 31 slower; x is gone\n") &&
		strings.Count(s, "x is gone") == 1 && !strings.Contains(s, "#### "), "%.500s", s)
	s = text(1<<16, broken, gone)
	assert.That(t, strings.Contains(s, "\nx is gone\n") && !strings.Contains(s, "#### "), "%.500s", s)
	s = text(len(text(1<<20, one, one))-1, one, one)
	assert.That(t, strings.Count(s, "<details>") == 1 && strings.Contains(s, "The rows are left out"), "%s", s)
	s = text(2000, one, one)
	assert.That(t, !strings.Contains(s, "<details>") && strings.HasPrefix(s, mark+"### PASS"), "%s", s)
	_, err = GateText(mark, "about", one.Outcome, []GatePart{one}, 20)
	assert.Error(t, err, "characters, and may have 20")
}

// The texts of a live compare's file come from anywhere. None makes a line of its own in a table, acts
// on a terminal, or is a formula of a spreadsheet; what is no verdict is refused.
func TestTextsOfALiveFileDoNoHarm(t *testing.T) {
	const forged = "x\nforged: FASTER\r\u2028forged \x1b[31m\u202e|<script>"
	data := smallLive(t, func(r *LiveFile) {
		r.A, r.B, r.Run.Protocol.Name = "= cmd|calc", forged, forged
		r.Run.Device.Name, r.Peers, r.Run.Tool = forged, []string{forged}, forged
		for i := range r.Judged {
			r.Judged[i].Reason = "@SUM(1)" + forged
		}
		r.Duels[1].Reason = forged
		r.Run.Env = map[string]string{forged: forged}
	})
	path := filepath.Join(t.TempDir(), "compare-x.json")
	assert.NoError(t, os.WriteFile(path, data, 0o644))
	run, err := ReadLive(path)
	assert.NoError(t, err)
	for _, format := range Formats() {
		var text bytes.Buffer
		assert.NoError(t, Render(&text, run.Comparison(), format))
		for line := range strings.Lines(text.String()) {
			plain := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsGraphic(r) }) < 0
			assert.That(t, plain && !strings.HasPrefix(strings.TrimSpace(line), "forged"), "%s: %q", format, line)
		}
		if format != FormatCSV {
			continue
		}
		rows, err := csv.NewReader(&text).ReadAll()
		assert.NoError(t, err)
		for _, cell := range slices.Concat(rows...) {
			assert.That(t, !strings.HasPrefix(cell, "=") && !strings.HasPrefix(cell, "@"), "%q", cell)
		}
	}
	for _, field := range []string{"verdict", "gate"} {
		word := regexp.MustCompile(`"`+field+`":"[A-Z]+"`).ReplaceAll(data, []byte(`"`+field+`":"=cmd"`))
		assert.NoError(t, os.WriteFile(path, word, 0o644))
		_, err := ReadLive(path)
		assert.Refused(t, err, `"=cmd" is no verdict`, field)
	}
}

// Whatever is accepted can be printed, and judged again.
func FuzzParseLive(f *testing.F) {
	good := smallLive(f, func(*LiveFile) {})
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"status":"ok"`), []byte(`"status":"wrong"`), 1))
	f.Add([]byte(`{"schema":1,"duels":[null]}`))
	f.Add(smallLive(f, func(r *LiveFile) { r.Summary.Worst = nil }))
	f.Add(bytes.Replace(good, []byte(`"id":"`), []byte(`"id":"../../`), 1))
	f.Add(bytes.Replace(good, []byte(`"a":`), []byte(`"a":NaN,"a":`), 1))
	f.Add(bytes.Replace(good, []byte(`"rounds":[`), []byte(`"rounds":null,"x":[`), 1))
	f.Add(append([]byte("\xef\xbb\xbf"), good...))
	f.Add([]byte(`{"schema":1,"duels":` + strings.Repeat("[", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ab.Parse(data)
		if err != nil {
			return
		}
		run := &LiveFile{Experiment: *m}
		assert.NoError(t, Render(io.Discard, run.Comparison(), FormatText))
		if len(run.Duels) > 20 || run.Duels[0].Status == kernels.StatusOK &&
			len(run.Duels[0].Rounds) > 100 {
			return // judging takes the square of the rounds
		}
		run.Decide()
	})
}
