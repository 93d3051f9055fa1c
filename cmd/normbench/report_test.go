package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/report"
	"normbench/tune"
)

// A folder stands for what its finals chose, as a tuned table does that was made from nothing, and is
// the same where that is the base.
func TestCompareChosen(t *testing.T) {
	from := filepath.Join("..", "..", "results", "nvidia-h100-80gb-hbm3")
	table, err := tune.Read(filepath.Join(from, tune.FileName))
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := normbench([]string{"compare", from + "#base", from, "--format", "json"})
	var c report.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != 0 ||
		len(c.Rows) != len(table.Entries) {
		t.Fatalf("exit code %d, %v, %d rows\n%s", code, err, len(c.Rows), stderr)
	}
	for _, r := range c.Rows {
		x, _ := table.Lookup(r.Problem)
		if v := (kernels.Variant{Family: r.B.Family, Config: r.B.Config}); v != x.Variant() {
			t.Errorf("%s: %s, the table has %s", r.Problem, v, x.Variant())
		}
		if r.A.Family == r.B.Family && r.A.Config == r.B.Config &&
			(r.Mark != report.Equal || r.Speedup != 1) {
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

// The plots of docs/performance.md are what its command draws of the live
// compares that are checked in, and the tables have both arms on every shape.
func TestPeersPlots(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, name := range []string{"rmsnorm-bwd", "layernorm-bwd", "rmsnorm-fwd", "layernorm-fwd"} {
		drawn := filepath.Join(t.TempDir(), "x.svg")
		args := []string{"report", filepath.Join(root, "results", "nvidia-h200", "peers",
			name+".json.gz"), "--over", "shape", "--plot", drawn}
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
			t.Errorf("%s is not what report draws (%v); go test ./cmd/normbench -run PeersPlots -update",
				doc, err)
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
	if code != 0 || strings.Count(stdout, "FASTER") != 2 ||
		!strings.Contains(stdout, "over 2 cells: 2 faster") {
		t.Errorf("a part: exit code %d, %s\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = normbench([]string{"report", file, "--pass", "fwd"})
	if code != 2 || stdout != "" || !strings.Contains(stderr, "has none of the problems asked for") ||
		!strings.Contains(stderr, "hint: ") {
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
				drawn, want := filepath.Join(t.TempDir(), "x.svg"),
					filepath.Join("docs", name+"-"+side+"-"+pass+".svg")
				if code, _, stderr := normbench(append([]string{"report", "--pass", pass, "--over", over,
					"--plot", drawn}, operands...)); code != 0 {
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
