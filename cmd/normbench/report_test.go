package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/tune"
)

// The tables that are checked in are of today's sources, and what they choose is accepted and
// provably faster than the base; so are their maps.
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
	gone := 0
	for _, r := range c.Rows {
		x, _ := table.Lookup(r.Problem)
		if _, err := families.New().Lookup(r.B.Family); err != nil {
			gone++ // the table has the next best
			continue
		}
		if v := (kernels.Variant{Family: r.B.Family, Config: r.B.Config}); v != x.Variant() {
			t.Errorf("%s: %s, the table has %s", r.Problem, v, x.Variant())
		}
		if r.A.Family == r.B.Family && r.A.Config == r.B.Config && (r.Mark != report.Equal || r.Speedup != 1) {
			t.Errorf("%s: %gx %s of the base and the base", r.Problem, r.Speedup, r.Mark)
		}
	}
	if gone > 1 {
		t.Errorf("%d entries were won by designs that are gone", gone)
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

// The plots of docs/performance.md are what its commands draw of what is checked in: live compares,
// and growth alone and beside peers.
func TestPlots(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	const from = "results/nvidia-h200/"
	draw := func(doc string, args ...string) (stdout string) {
		drawn := filepath.Join(t.TempDir(), "x.svg")
		code, stdout, stderr := normbench(append(args, "--plot", drawn))
		got, err := os.ReadFile(drawn)
		if code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s", doc, code, err, stderr)
		}
		doc = filepath.Join("docs", doc+".svg")
		if *update {
			if err := os.WriteFile(doc, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(doc); err != nil || string(want) != string(got) {
			t.Errorf("%s is not what report draws (%v): go test ./cmd/normbench -run Plots -update", doc, err)
		}
		return stdout
	}
	row := regexp.MustCompile(`(?m)^ *\d+ +\d+( +[\d.]+){4} +[\d.]+x \(\S+\) +[A-Z]+$`)
	for _, name := range []string{"rmsnorm-bwd", "layernorm-bwd", "rmsnorm-fwd", "layernorm-fwd"} {
		stdout := draw("peers-"+name, "report", from+"peers/"+name+".json.gz", "--over", "shape")
		rows, legend, _ := strings.Cut(stdout, "\nA = ")
		if n := len(row.FindAllString(rows, -1)); n != 31 || !strings.HasPrefix(legend, "peer:best, B = tuned:") {
			t.Errorf("%s: %d rows, or it does not say who is who\n%s", name, n, stdout)
		}
	}
	for side, over := range map[string]string{"rows": "M", "cols": "N"} {
		for _, pass := range []string{"fwd", "bwd"} {
			args := []string{"report", "--pass", pass, "--over", over}
			draw("growth-"+side+"-"+pass, append(args, from+"growth#base", "--shapes", "growth-"+side)...)
			draw("growth-peers-"+side+"-"+pass, append(args, from+"growth-peers#base", from+"growth-peers#peers")...)
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
