package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/shlex"

	"normbench/internal/assert"
	"normbench/internal/textfile"
	"normbench/report"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A measured number of a page carries a marker, which GitHub does not show:
//
//	1.68x<!--= peers/layernorm-bwd.json.gz mean speedup-->
//
// A marker is a file below results/nvidia-h200 (a pattern, or a path in the repository), a query
// and what it asks for. `go test ./cmd/normbench -run TestClaims -update` writes the numbers anew.
//
//	mean, least, most COLUMN [WORDS]   of the rows of a text table that have all WORDS
//	count [WORDS]                      the number of such rows; a|b is either
//	text PATTERN                       the number or word that a regular expression captures
//	set                                chosen and not measured: a constant of the rule or protocol
//
// A block from <!--= FILES peers--> to <!-- end --> is a table of live compares, written whole, as
// is what `normbench report results/...` prints in a console block. Of one from <!--= FILES rows-->
// the files have each row's numbers in one of theirs.
var (
	claim = regexp.MustCompile(`([^\s(|*]+)<!--= (.+?)-->`)
	block = regexp.MustCompile(`(?s)(<!--= (\S+) (peers|rows)-->\n)(.*?)(<!-- end -->)`)
	// A figure is a number with a unit of measurement. Numbers without one are counts and shapes.
	figure = regexp.MustCompile(`\d(?:x|%|\s?us|\s?GB/s)(?:[^\w]|$)`)
	number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
)

// claimPages hold measured numbers.
var claimPages = []string{"README.md", "docs/performance.md", "docs/verdicts.md", "docs/learn.md",
	"docs/search.md", "results/README.md", "results/*/README.md", "results/*/*/README.md"}

func TestClaims(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	claims := 0
	for _, pattern := range claimPages {
		pages, err := filepath.Glob(pattern)
		assert.Must(t, err == nil && len(pages) != 0, "%v %v", pattern, err)
		for _, page := range pages {
			text := string(assert.File(t, page))
			claims += len(claim.FindAllString(text, -1))
			want, faults := answerClaims(text)
			want = rerun(want)
			for _, f := range append(faults, unmarked(want)...) {
				t.Errorf("%s: %s", page, f)
			}
			assert.Golden(t, page, want)
		}
	}
	assert.That(t, claims >= 30, "%d claims", claims)
}

// A changed number, a figure without a marker and a marker without an answer are found.
func TestClaimsFound(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	assert.Lines(t, "cmd/normbench/testdata/claims.txt", func(text string) string {
		got, found := answerClaims(text)
		return fmt.Sprintf("%q, faults %q", got, append(found, unmarked(got)...))
	})
}

// TestResults holds every file below results to the checksum that scripts/results-gpu.sh wrote of it,
// so that a changed byte is noticed. All of results stays small enough to clone.
func TestResults(t *testing.T) {
	const most = 4_000_000 // bytes
	dir := filepath.Join("..", "..", "results")
	var sums strings.Builder
	files, size := 0, 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "SHA256SUMS" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		text := assert.File(t, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(name))
		files, size = files+1, size+len(text)
		return err
	})
	assert.That(t, err == nil && files >= 100 && size <= most, "%d files, %d bytes, %v", files, size, err)
	lines := slices.Sorted(strings.Lines(sums.String()))
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	assert.Golden(t, filepath.Join(dir, "SHA256SUMS"), strings.Join(lines, ""))
}

// answerClaims is a page with the numbers that the files have, and the markers without an answer.
func answerClaims(text string) (string, []string) {
	var faults []string
	text = block.ReplaceAllStringFunc(text, func(m string) string {
		parts := block.FindStringSubmatch(m)
		table, err := parts[4], error(nil)
		if parts[3] == "peers" {
			table, err = peersTable(parts[2])
		} else {
			err = findRows(parts[2], table)
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", parts[1], err))
		}
		return parts[1] + table + parts[5]
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

// rerun is a page with what its commands on the checked-in results print, as many lines as it
// shows.
func rerun(text string) string {
	for _, c := range commands(text) {
		args, err := shlex.Split(c.text)
		shown := strings.Count(c.output, "\n")
		if err != nil || shown == 0 || len(args) < 3 || args[0] != "normbench" ||
			args[1] != "report" || !strings.HasPrefix(args[2], "results/") {
			continue
		}
		if code, out, _ := normbench(args[1:]); code == 0 {
			lines := strings.SplitAfter(out, "\n")
			text = strings.Replace(text, c.output, strings.Join(lines[:min(shown, len(lines))], ""),
				1)
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
			faults = append(faults, fmt.Sprintf("a figure without a marker: %q",
				rest[max(m[0]-30, 0):m[1]]))
		}
	}
	return faults
}

// answer is what a marker asks for: a float64, a string, or nil for what is chosen.
func answer(claim string) (any, error) {
	if claim == "set" {
		return nil, nil
	}
	words := strings.Fields(claim)
	if len(words) < 2 {
		return nil, fmt.Errorf("no query")
	}
	texts, err := claimTexts(words[0])
	if err != nil {
		return nil, err
	}
	rest := strings.TrimSpace(strings.SplitN(claim, words[1], 2)[1])
	if words[1] == "text" {
		m := regexp.MustCompile(rest).FindStringSubmatch(texts[0])
		if len(m) != 2 {
			return nil, fmt.Errorf("the pattern does not capture one number")
		}
		if x, err := strconv.ParseFloat(m[1], 64); err == nil {
			return x, nil
		}
		return m[1], nil
	}
	queries := map[string]func([]float64) float64{"mean": stats.GeoMean,
		"least": slices.Min[[]float64], "most": slices.Max[[]float64],
		"count": func(x []float64) float64 { return float64(len(x)) }}
	query, counts := queries[words[1]], words[1] == "count"
	if query == nil {
		return nil, fmt.Errorf("no such query")
	}
	var values []float64
	for _, text := range texts {
		more, err := tableValues(text, rest, counts)
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	if len(values) == 0 && !counts {
		return nil, fmt.Errorf("no row fits")
	}
	return query(values), nil
}

// claimTexts are what the files of a pattern hold.
func claimTexts(pattern string) (texts []string, err error) {
	files, err := claimFiles(pattern)
	for _, f := range files {
		data, err := textfile.Read(f, textfile.Large)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(data))
	}
	return texts, err
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

// tableValues are the numbers of a query's column in the first table of a text, unless the query
// counts. They are of the rows that have all words of the query. The columns of the table are
// underlined. A row of a table in groups has its group's name too.
func tableValues(text, query string, counts bool) (values []float64, err error) {
	lines := strings.Split(text, "\n")
	at := slices.IndexFunc(lines, regexp.MustCompile(`^─+(  ─+)+\s*$`).MatchString)
	if at < 1 {
		return nil, fmt.Errorf("no table")
	}
	cells := func(line string) (list []string) {
		runes, from := []rune(line), 0
		for _, rule := range strings.Fields(lines[at]) {
			to := from + utf8.RuneCountInString(rule)
			cell := string(runes[min(from, len(runes)):min(to, len(runes))])
			list, from = append(list, strings.TrimSpace(cell)), to+2
		}
		return list
	}
	column, words := -1, query
	if names := cells(lines[at-1]); !counts {
		for i, name := range names { // the longest name that the query begins with
			if strings.HasPrefix(query, name) && (column < 0 || len(name) > len(names[column])) {
				column, words = i, query[len(name):]
			}
		}
		if column < 0 {
			return nil, fmt.Errorf("the columns are %q", names)
		}
	}
	group := ""
	for _, line := range lines[at+1:] {
		if line == "" {
			break
		}
		r := cells(line)
		if strings.Join(r[1:], "") == "" {
			group = line
			continue
		}
		lacks := func(either string) bool {
			return !slices.ContainsFunc(strings.Split(either, "|"),
				func(w string) bool { return strings.Contains(group+" "+line, w) })
		}
		if slices.ContainsFunc(strings.Fields(words), lacks) {
			continue
		}
		x := 1.0
		if !counts {
			x, err = strconv.ParseFloat(number.FindString(r[column]), 64)
		}
		if err == nil { // a cell may have no time
			values = append(values, x)
		}
	}
	return values, nil
}

// findRows says which row of a table has numbers that no row of the files has, in this order.
func findRows(pattern, table string) error {
	texts, err := claimTexts(pattern)
	numbers := func(row string) string { // of the cells behind the first
		_, cells, markdown := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		if !markdown {
			_, cells, _ = strings.Cut(row, " ")
		}
		return strings.Join(number.FindAllString(cells, -1), " ")
	}
	known := map[string]bool{"": true}
	for row := range strings.Lines(strings.Join(texts, "\n")) {
		known[numbers(row)] = true
	}
	for i, row := range strings.Split(table, "\n") {
		if i > 1 && !known[numbers(row)] && err == nil {
			err = fmt.Errorf("no such row as %q", row)
		}
	}
	return err
}

// peersTable is a row for every op and pass of live compares.
func peersTable(pattern string) (string, error) {
	files, err := claimFiles(pattern)
	text := "| | speedup (range) | FASTER | SLOWER | ours, of the stream | best peer, of the " +
		"stream | peers |\n|---|---|---|---|---|---|---|\n"
	for _, file := range files {
		run, err := report.ReadLive(file)
		if err != nil {
			return "", err
		}
		type tally struct{ gain, peer, ours []float64 }
		rows, verdicts := map[string]tally{}, map[string]int{}
		for _, r := range run.Comparison().Rows {
			if r.Verdict == "" {
				continue
			}
			name := fmt.Sprintf("%s/%s", r.Problem.Op, r.Problem.Pass)
			if strings.Contains(file, "qk-norm") {
				name += ", `qk-norm`"
			}
			x := rows[name]
			verdicts[name+string(r.Verdict)]++
			rows[name] = tally{append(x.gain, r.Speedup), append(x.peer, r.A.StreamUS/r.A.Median),
				append(x.ours, r.B.StreamUS/r.B.Median)}
		}
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			x := rows[name]
			text += fmt.Sprintf("| %s | %.2fx (%.2f to %.2f) | %d of %d | %d | %.3f | %.3f | %s |\n",
				name, stats.GeoMean(x.gain), slices.Min(x.gain), slices.Max(x.gain),
				verdicts[name+string(verdict.Faster)], len(x.gain),
				verdicts[name+string(verdict.Slower)], stats.GeoMean(x.ours), stats.GeoMean(x.peer),
				cmp.Or(strings.Join(run.Among, ", "), "all"))
		}
	}
	return text, err
}
