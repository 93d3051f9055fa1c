package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/shlex"

	"normbench/internal/durable"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/verdict"
)

// A measured number of a page carries a marker, which GitHub does not show:
//
//	1.68x<!--= peers/layernorm-bwd.json.gz mean speedup-->
//
// A marker is a file below results/nvidia-h200 (a pattern, or a path in the repository), a query and
// what it asks for. `go test ./cmd/normbench -run TestClaims -update` writes the numbers anew.
//
//	mean, least, most COLUMN [WORDS]   of the rows of a table that have all WORDS
//	cell COLUMN WORDS                  of the only such row
//	count [WORDS]                      the number of such rows; a|b is either
//	run FIELD                          of a live compare's run, such as tool or driver_version
//	text PATTERN                       the number that a regular expression captures
//	set                                chosen and not measured: a constant of the rule or protocol
//
// A block from <!--= FILES peers--> to <!-- end --> is a table of live compares, written whole, as
// is what `normbench report results/...` prints in a console block.
var (
	claim = regexp.MustCompile(`([^\s(|*]+)<!--= (.+?)-->`)
	block = regexp.MustCompile(`(?s)(<!--= (\S+) peers-->\n).*?(<!-- end -->)`)
	// A figure is a number with a unit of measurement. Numbers without one are counts and shapes.
	figure = regexp.MustCompile(`\d(?:x|%|\s?us|\s?GB/s)(?:[^\w]|$)`)
	number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
)

// claimPages hold measured numbers.
var claimPages = []string{"README.md", "docs/performance.md", "docs/verdicts.md", "results/README.md", "results/*/README.md", "results/*/*/README.md"}

func TestClaims(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	claims := 0
	for _, pattern := range claimPages {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatal(pattern, err)
		}
		for _, page := range pages {
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			claims += len(claim.FindAllString(text, -1))
			want, faults := answerClaims(text)
			want = rerun(want)
			for _, f := range append(faults, unmarked(want)...) {
				t.Errorf("%s: %s", page, f)
			}
			if want == text {
				continue
			}
			if *update {
				if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			is, was := strings.Split(want, "\n"), strings.Split(text, "\n")
			for i := range min(len(is), len(was)) {
				if is[i] != was[i] {
					t.Errorf("%s line %d is\n%s\nand the files have\n%s\n(-update writes it)", page, i+1, was[i], is[i])
				}
			}
			if len(is) != len(was) {
				t.Errorf("%s: a block has other rows (-update writes it)", page)
			}
		}
	}
	if claims < 30 {
		t.Errorf("%d claims", claims)
	}
}

// A changed number, a figure without a marker and a marker without an answer are found.
func TestClaimsFound(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	const right = "9.70<!--= verdicts/same-rms_bwd-two_pass.txt least A us-->"
	if got, faults := answerClaims(right); got == right || len(faults) > 0 || len(unmarked(got)) > 0 {
		t.Errorf("%q, %q", got, faults)
	}
	for _, wrong := range []string{"1<!--= no.txt count-->", "1<!--= selftest.txt text (no) such-->", "1<!--= selftest.txt least no column-->"} {
		if _, faults := answerClaims(wrong); len(faults) != 1 {
			t.Errorf("%s: %q", wrong, faults)
		}
	}
	for _, figure := range []string{"1.5x as fast", "takes 12 us.", "by 3%", "400 GB/s", "5us<!--= a b--> and 6 us"} {
		if len(unmarked(figure)) != 1 {
			t.Error(figure)
		}
	}
	if faults := unmarked("4096x8192, 3 warps, `--target 2%` and 5%<!--= set-->"); len(faults) > 0 {
		t.Error(faults)
	}
}

// TestSealed reads every file below results that has checksums, so that a changed byte is noticed.
func TestSealed(t *testing.T) {
	files := 0
	if err := filepath.WalkDir(filepath.Join("..", "..", "results"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".gz") {
			return err
		}
		files++
		data, err := textfile.Read(path, textfile.Large) // a .gz has a checksum of its own
		if err == nil && textfile.Ext(path) == ".json" {
			err = durable.Verify(data)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	}); err != nil || files < 8 {
		t.Fatal(files, err)
	}
}

// answerClaims is a page with the numbers that the files have, and the markers without an answer.
func answerClaims(text string) (string, []string) {
	var faults []string
	text = block.ReplaceAllStringFunc(text, func(m string) string {
		parts := block.FindStringSubmatch(m)
		table, err := peersTable(parts[2])
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", parts[1], err))
		}
		return parts[1] + table + parts[3]
	})
	text = claim.ReplaceAllStringFunc(text, func(m string) string {
		parts := claim.FindStringSubmatch(m)
		value, err := answer(parts[2])
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", m, err))
			return m
		}
		if x, ok := value.(float64); ok {
			old := number.FindString(parts[1])
			_, digits, _ := strings.Cut(old, ".")
			return strings.Replace(m, old, strconv.FormatFloat(x, 'f', len(digits), 64), 1)
		}
		if s, ok := value.(string); ok {
			return s + m[len(parts[1]):]
		}
		return m
	})
	return text, faults
}

// rerun is a page with what its commands on the checked-in results print, as many lines as it shows.
func rerun(text string) string {
	for _, c := range commands(text) {
		args, err := shlex.Split(c.text)
		shown := strings.Count(c.output, "\n")
		if err != nil || shown == 0 || len(args) < 3 || args[0] != "normbench" || args[1] != "report" || !strings.HasPrefix(args[2], "results/") {
			continue
		}
		if code, out, _ := normbench(args[1:]); code == 0 {
			lines := strings.SplitAfter(out, "\n")
			text = strings.Replace(text, c.output, strings.Join(lines[:min(shown, len(lines))], ""), 1)
		}
	}
	return text
}

// unmarked are the figures of a page that no marker and no command answers for.
func unmarked(text string) (faults []string) {
	text = fenced.ReplaceAllString(text, "") // what a command printed: TestReadme
	text = quoted.ReplaceAllString(block.ReplaceAllString(text, ""), "")
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains(paragraph, "<!--= set-->") {
			continue
		}
		rest := claim.ReplaceAllString(paragraph, "")
		if m := figure.FindStringIndex(rest); m != nil {
			faults = append(faults, fmt.Sprintf("a figure without a marker: %q", rest[max(m[0]-30, 0):m[1]]))
		}
	}
	return faults
}

// answer is what a marker asks for: a float64, a string, or nil for what is chosen.
func answer(query string) (any, error) {
	if query == "set" {
		return nil, nil
	}
	words := strings.Fields(query)
	if len(words) < 2 {
		return nil, fmt.Errorf("no query")
	}
	files, err := claimFiles(words[0])
	if err != nil {
		return nil, err
	}
	rest := strings.TrimSpace(strings.SplitN(query, words[1], 2)[1])
	switch words[1] {
	case "run":
		return runField(files[0], rest)
	case "text":
		data, err := textfile.Read(files[0], textfile.Large)
		if err != nil {
			return nil, err
		}
		m := regexp.MustCompile(rest).FindSubmatch(data)
		if len(m) != 2 {
			return nil, fmt.Errorf("the pattern does not capture one number")
		}
		return strconv.ParseFloat(string(m[1]), 64)
	}
	var rows []map[string]string
	for _, f := range files {
		more, err := tableRows(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		rows = append(rows, more...)
	}
	column := ""
	if words[1] != "count" {
		for name := range rows[0] { // the longest name that the query begins with
			if strings.HasPrefix(rest, name) && len(name) > len(column) {
				column = name
			}
		}
		if column == "" {
			return nil, fmt.Errorf("the columns are %q", slices.Sorted(maps.Keys(rows[0])))
		}
		rest = rest[len(column):]
	}
	rows = slices.DeleteFunc(rows, func(r map[string]string) bool {
		line := strings.Join(slices.Collect(maps.Values(r)), " ")
		return slices.ContainsFunc(strings.Fields(rest), func(w string) bool {
			return !slices.ContainsFunc(strings.Split(w, "|"), func(w string) bool { return strings.Contains(line, w) })
		})
	})
	if words[1] == "count" {
		return float64(len(rows)), nil
	}
	var values []float64
	for _, r := range rows {
		if r[column] == "" { // a cell without a time
			continue
		}
		x, err := strconv.ParseFloat(number.FindString(r[column]), 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number", r[column])
		}
		values = append(values, x)
	}
	switch {
	case len(values) == 0 || words[1] == "cell" && len(values) > 1:
		return nil, fmt.Errorf("%d rows fit", len(values))
	case words[1] == "mean":
		return geometric(values), nil
	case words[1] == "least", words[1] == "cell":
		return slices.Min(values), nil
	case words[1] == "most":
		return slices.Max(values), nil
	}
	return nil, fmt.Errorf("no such query")
}

func geometric(values []float64) float64 {
	sum := 0.0
	for _, x := range values {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(values)))
}

// claimFiles are the files of a pattern.
func claimFiles(pattern string) ([]string, error) {
	for _, dir := range []string{"", "results/nvidia-h200"} {
		if files, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(files) > 0 {
			return files, err
		}
	}
	return nil, fmt.Errorf("no file %s", pattern)
}

// runField is a word of the run of a live compare.
func runField(path, field string) (string, error) {
	run, err := report.ReadLive(path)
	if err != nil {
		return "", err
	}
	s, ok := map[string]string{"tool": run.Run.Tool, "driver_version": run.Run.Device.DriverVersion,
		"date": run.Run.Time.UTC().Format("2006-01-02"), "peers": strings.Join(run.Peers, "; ")}[field]
	if !ok {
		return "", fmt.Errorf("a run has no %s here", field)
	}
	return s, nil
}

// tableRows are the rows of a live compare, of a CSV file, or of the first table of a text file,
// by column. A row of a table in groups has its group's name too.
func tableRows(path string) ([]map[string]string, error) {
	var records [][]string
	switch {
	case textfile.Ext(path) == ".json":
		code, out, stderr := normbench([]string{"report", path, "--format", "csv"})
		if code != 0 {
			return nil, fmt.Errorf("report: %s", stderr)
		}
		path = out
		fallthrough
	case textfile.Ext(path) == ".csv":
		text := path
		if textfile.Ext(path) == ".csv" {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		first, _, _ := strings.Cut(text, "\n\n")
		r := csv.NewReader(strings.NewReader(first))
		r.Comment, r.FieldsPerRecord = '#', -1
		var err error
		if records, err = r.ReadAll(); err != nil {
			return nil, err
		}
	default:
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		records = aligned(string(data))
	}
	var rows []map[string]string
	group := ""
	for _, r := range records[min(1, len(records)):] {
		if len(r) < len(records[0]) || len(r) > 1 && strings.Join(r[1:], "") == "" {
			group = r[0]
			continue
		}
		row := map[string]string{"group": group}
		for i, name := range records[0] {
			row[name] = r[i]
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no table")
	}
	return rows, nil
}

// aligned are the cells of a table whose columns are underlined.
func aligned(text string) (records [][]string) {
	lines := strings.Split(text, "\n")
	rule := regexp.MustCompile(`^─+(  ─+)+\s*$`)
	at := slices.IndexFunc(lines, rule.MatchString)
	if at < 1 {
		return nil
	}
	bounds := regexp.MustCompile(`─+`).FindAllStringIndex(strings.ReplaceAll(lines[at], " ", "…"), -1)
	for _, line := range append([]string{lines[at-1]}, lines[at+1:]...) {
		if line == "" {
			break
		}
		runes := []rune(line)
		var cells []string
		for _, b := range bounds { // ─ and … have three bytes each
			from, to := min(b[0]/3, len(runes)), min(b[1]/3, len(runes))
			cells = append(cells, strings.TrimSpace(string(runes[from:to])))
		}
		records = append(records, cells)
	}
	return records
}

// peersTable is a row for every op and pass of live compares.
func peersTable(pattern string) (string, error) {
	files, err := claimFiles(pattern)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| | speedup (range) | FASTER | SLOWER | ours, of the stream | best peer, of the stream | peers |\n|---|---|---|---|---|---|---|\n")
	for _, file := range files {
		run, err := report.ReadLive(file)
		if err != nil {
			return "", err
		}
		type tally struct {
			gain, a, b     []float64
			faster, slower int
		}
		rows, sides := map[string]*tally{}, run.Sides()
		i := 0
		for _, d := range run.Duels {
			if d.Status != kernels.StatusOK {
				continue
			}
			j := run.Judged[i]
			i++
			name := fmt.Sprintf("%s %s", d.Problem.Op, d.Problem.Pass)
			x := rows[name]
			if x == nil {
				x = &tally{}
				rows[name] = x
			}
			x.gain = append(x.gain, 1/j.Effect)
			x.a = append(x.a, d.StreamUS/sides[0].Cells[d.Problem].MedianUS)
			x.b = append(x.b, d.StreamUS/sides[1].Cells[d.Problem].MedianUS)
			switch j.Verdict {
			case verdict.Faster:
				x.faster++
			case verdict.Slower:
				x.slower++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			x := rows[name]
			label := name
			if strings.Contains(file, "qk-norm") {
				label += ", `qk-norm`"
			}
			fmt.Fprintf(&b, "| %s | %.2fx (%.2f to %.2f) | %d of %d | %d | %.3f | %.3f | %s |\n", label, geometric(x.gain),
				slices.Min(x.gain), slices.Max(x.gain), x.faster, len(x.gain), x.slower, geometric(x.b), geometric(x.a),
				cmp.Or(strings.Join(run.Among, ", "), "all"))
		}
	}
	return b.String(), nil
}
