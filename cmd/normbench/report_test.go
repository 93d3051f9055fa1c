package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/report"
	"normbench/tune"
)

// The tables that are checked in are of today's sources, and what they choose is accepted and
// provably faster than the base. `make lint` does the same for the rules, which takes 20 s.
func TestCheckedIn(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("..", "..", "results", "*", tune.FileName))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if code, stdout, stderr := normbench([]string{"lint", name}); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
}

// A folder stands for what its finals chose, as its tuned table does, and is the same where that is
// the base.
func TestCompareChosen(t *testing.T) {
	from := filepath.Join("..", "..", "results", "nvidia-h200")
	table, err := tune.Read(filepath.Join(from, tune.FileName))
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := normbench([]string{"compare", from + "#base", from, "--format", "json"})
	var c report.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != 0 || len(c.Rows) != len(table.Entries) {
		t.Fatalf("exit code %d, %v, %d rows\n%s", code, err, len(c.Rows), stderr)
	}
	for _, r := range c.Rows {
		x, _ := table.Lookup(r.Problem)
		if v := (kernels.Variant{Family: r.B.Family, Config: r.B.Config}); v != x.Variant() {
			t.Errorf("%s: %s, the table has %s", r.Problem, v, x.Variant())
		}
		if r.A.Family == r.B.Family && r.A.Config == r.B.Config && (r.Mark != report.Equal || r.Speedup != 1) {
			t.Errorf("%s: %gx %s of the base and the base", r.Problem, r.Speedup, r.Mark)
		}
	}
}

// The tables that are checked in are what compare makes of the records beside them.
func TestTablesMade(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for _, from := range []string{"results/nvidia-h200", "results/nvidia-h100-80gb-hbm3"} {
		code, stdout, stderr := normbench([]string{"compare", from + "#base", from})
		name := filepath.Join(from, "table.txt")
		if *update && code == 0 {
			if err := os.WriteFile(name, []byte(stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if kept, err := os.ReadFile(name); err != nil || code != 0 || string(kept) != stdout {
			t.Errorf("%s is not what compare makes (%v, exit code %d)\n%s", name, err, code, stderr)
		}
	}
}

// The rules that the program brings along are what their command fits to the records that are checked in, the
// evidence of each with them.
func TestRulesMade(t *testing.T) {
	if os.Getenv("NORMBENCH_TEST_ALL") == "" {
		t.Skip("fits them, for ten seconds; make test-all runs it")
	}
	from, out := filepath.Join("..", "..", "results", "nvidia-h200"), filepath.Join(t.TempDir(), "rules.json")
	if code, _, stderr := normbench([]string{"tune", filepath.Join(from, "learn"), "--prior", filepath.Join(from, "zones.json"), "--out", out}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	tool := regexp.MustCompile(`"(tool|crc)": "[^"]*"`) // the version that fitted
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return tool.ReplaceAllString(string(b), "")
	}
	if read(out) != read(filepath.Join(from, "rules.json")) {
		t.Errorf("%s/rules.json is not what tune makes of learn/", from)
	}
	// What is held out is judged by the procedure that made the rules: it promises no more than the rules do on what they
	// have seen, and what it promises is worth having.
	set, err := launchrule.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	scores := map[[3]string]float64{}
	for _, s := range set.HeldOut {
		scores[[3]string{s.Class, s.Held, s.Chooser}] = s.Regret
	}
	reached, sum, classes := 0, 0.0, 0.0
	for i := range set.Lists {
		l := &set.Lists[i]
		for k := range l.Rules {
			if e := l.Rules[k].Evidence; e.Problems > 0 {
				reached++
			} else if e == (launchrule.Evidence{}) {
				t.Fatalf("%s: rule %d says nothing of what stands behind it", l.Title(), k+1)
			}
		}
		class := l.Class.String()
		if l.Origin != "" {
			continue
		}
		seen, byN, none := scores[[3]string{class, "", "rules"}], scores[[3]string{class, "n", "rules"}], scores[[3]string{class, "n", "default"}]
		if seen > byN || byN >= none || seen == 0 {
			t.Errorf("%s: %.4f in sample, %.4f with a number of columns held out, %.4f by the default", class, seen, byN, none)
		}
		sum, classes = sum+math.Log(byN), classes+1
	}
	if mean := math.Exp(sum / classes); mean > 1.03 {
		t.Errorf("with a number of columns held out %.4f in the mean of the classes", mean)
	}
	if reached < 400 {
		t.Errorf("%d rules have a measured problem", reached)
	}
}

// Time that two runs share counts once, and of a run with other classes beside only their part.
func TestSpent(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, x := range []struct {
		spans []span
		want  time.Duration
	}{
		{nil, 0},
		{[]span{{at(0), at(60), 10, 10}, {at(20), at(70), 10, 10}, {at(30), at(40), 5, 5}}, 70 * time.Second},
		{[]span{{at(100), at(110), 1, 1}, {at(0), at(60), 10, 10}}, 70 * time.Second},
		{[]span{{at(0), at(60), 30, 10}, {at(100), at(120), 4, 0}}, 20 * time.Second},
	} {
		if got := spent(x.spans); got != x.want {
			t.Errorf("%v took %s, not %s", x.spans, got, x.want)
		}
	}
}

// The plots of docs/performance.md are what its command draws of the live
// compares that are checked in, and the tables have both arms on every shape.
func TestPeersPlots(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, name := range []string{"rmsnorm-bwd", "layernorm-bwd", "rmsnorm-fwd", "layernorm-fwd"} {
		drawn := filepath.Join(t.TempDir(), "x.svg")
		args := []string{"report", filepath.Join(root, "results", "nvidia-h200", "peers", name+".json.gz"), "--over", "shape", "--plot", drawn}
		code, stdout, stderr := normbench(args)
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
			continue
		}
		rows, _, _ := strings.Cut(stdout, "\nA = ")
		if n := len(regexp.MustCompile(`(?m)^ *\d+ +\d+( +[\d.]+){4} +[\d.]+x \(\S+\) +[A-Z]+$`).FindAllString(rows, -1)); n != 31 {
			t.Errorf("%s: %d rows\n%s", name, n, stdout)
		}
		if !strings.Contains(stdout, "A = peer:best, B = tuned:") {
			t.Errorf("%s does not say who is who\n%s", name, stdout)
		}
		got, err := os.ReadFile(drawn)
		if err != nil {
			t.Fatal(err)
		}
		doc := filepath.Join(root, "docs", "peers-"+name+".svg")
		if *update {
			if err := os.WriteFile(doc, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(doc); err != nil || string(want) != string(got) {
			t.Errorf("%s is not what report draws (%v); go test ./cmd/normbench -run PeersPlots -update", doc, err)
		}
	}
}

// A live compare's own table comes back from its file: as it was then, or judged anew
// where only a part of it is asked for.
func TestReportLive(t *testing.T) {
	file := filepath.Join("..", "..", "results", "nvidia-h200", "peers", "layernorm-bwd.json.gz")
	printed, err := os.ReadFile(strings.TrimSuffix(file, "json.gz") + "txt")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := normbench([]string{"report", file, "--wide"})
	for line := range strings.Lines(string(printed)) {
		if code != 0 || !strings.Contains(stdout, line) {
			t.Errorf("exit code %d, %s, without %q\n%s", code, stderr, line, stdout)
			break
		}
	}
	code, stdout, stderr = normbench([]string{"report", file, "--shapes", "8192x1024,4096x2048"})
	if code != 0 || strings.Count(stdout, "FASTER") != 2 || !strings.Contains(stdout, "over 2 cells: 2 faster") {
		t.Errorf("a part: exit code %d, %s\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = normbench([]string{"report", file, "--pass", "fwd"})
	if code != 2 || stdout != "" || !strings.Contains(stderr, "has none of the problems asked for") || !strings.Contains(stderr, "hint: ") {
		t.Errorf("none: exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = normbench([]string{"report", file, "--format", "json"})
	if code != 0 || !strings.Contains(stdout, `"judged"`) {
		t.Errorf("json: exit code %d, %s", code, stderr)
	}
}

// The plots of growth, alone and beside peers, are what docs/performance.md says draws them.
func TestGrowthPlots(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	const from = "results/nvidia-h200/growth"
	for side, over := range map[string]string{"rows": "M", "cols": "N"} {
		for name, operands := range map[string][]string{
			"growth":       {from + "#base", "--shapes", "growth-" + side},
			"growth-peers": {from + "-peers#base", from + "-peers#peers"},
		} {
			for _, pass := range []string{"fwd", "bwd"} {
				drawn, want := filepath.Join(t.TempDir(), "x.svg"), filepath.Join("docs", name+"-"+side+"-"+pass+".svg")
				if code, _, stderr := normbench(append([]string{"report", "--pass", pass, "--over", over, "--plot", drawn}, operands...)); code != 0 {
					t.Errorf("%s: exit code %d\n%s", want, code, stderr)
					continue
				}
				got, err := os.ReadFile(drawn)
				if err != nil {
					t.Fatal(err)
				}
				if kept, err := os.ReadFile(want); err != nil || string(kept) != string(got) {
					t.Errorf("%s is not what `normbench report` draws (%v)", want, err)
				}
			}
		}
	}
}
