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
	"normbench/kernels"
	"normbench/kernels/devices/peers"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// docs/figures.txt says for each measured number in a page's sentences where it was measured:
//
//	docs/performance.md
//	is {1.68x} as fast in the mean <- peers/layernorm-bwd.json.gz mean speedup
//
// The words before the arrow stand once in the page, wherever its lines end. What is in braces is the number, or
// several that one pattern captures; words without braces answer for the figures of their whole paragraph. Behind the arrow are a file below
// results/nvidia-h200 (a pattern, or a path in the repository) and what is asked of it, for several numbers with
// " & " between:
//
//	mean, least, most COLUMN [WORDS]   of the rows of a text table that have all WORDS
//	count [WORDS]                      the number of such rows; a|b is either
//	text PATTERN                       the numbers or words that a regular expression captures
//	set                                chosen and not measured: a constant of the rule or protocol, no file
//	peers                              the whole table behind the words, of live compares: it is generated
//	libraries                          likewise, a row for each library in them
//	rows                               the table behind the words: the file has each row's numbers in one of its
//
// What `normbench report results/...` prints in a console block is generated too. `make figures` writes all anew.
var (
	// A figure is a number with a unit of measurement. Numbers without one are counts and shapes.
	figure = regexp.MustCompile(`\d(?:x|%|\s?us|\s?GB/s)(?:[^\w]|$)`)
	number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	braced = regexp.MustCompile(`\{[^{}]+\}`)
	space  = regexp.MustCompile(`\s+`)
	// A table of markdown begins a line.
	tableBlock = regexp.MustCompile(`(?m)(?:^\|.*\n)+`)
)

const figuresFile = "docs/figures.txt"

// claimPages hold measured numbers.
var claimPages = []string{"README.md", "docs/start.md", "docs/performance.md", "docs/read-a-table.md", "docs/launch-map.md",
	"docs/records.md",
	"lab/notes/[lpsv]*.md", "results/README.md", "results/*/*/README.md"}

// A claim is a line of the figures file.
type claim struct{ words, query string }

// readClaims gives the claims of each page, in the order of the file.
func readClaims(text string) (pages []string, claims map[string][]claim, err error) {
	claims = map[string][]claim{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		words, query, found := strings.Cut(line, " <- ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !found:
			if claims[line] != nil {
				return nil, nil, fmt.Errorf("%s stands twice", line)
			}
			pages, claims[line] = append(pages, line), []claim{}
		case len(pages) == 0:
			return nil, nil, fmt.Errorf("%q is of no page", line)
		default:
			page := pages[len(pages)-1]
			claims[page] = append(claims[page], claim{words, query})
		}
	}
	return pages, claims, nil
}

// find gives where the words of a claim stand in a page, and where its numbers do.
func (c claim) find(text string) (words [2]int, numbers [][2]int, err error) {
	pattern := ""
	for rest := c.words; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		pattern += space.ReplaceAllString(regexp.QuoteMeta(before), `\s+`)
		if rest = ""; found {
			_, rest, _ = strings.Cut(after, "}")
			pattern += `([^\s(|*]+)`
		}
	}
	at := regexp.MustCompile(pattern).FindAllStringSubmatchIndex(text, -1)
	if len(at) != 1 {
		return words, nil, fmt.Errorf("%q stands %d times in the page", c.words, len(at))
	}
	for i := 2; i < len(at[0]); i += 2 {
		numbers = append(numbers, [2]int{at[0][i], at[0][i+1]})
	}
	return [2]int{at[0][0], at[0][1]}, numbers, nil
}

func TestFiguresOfPagesFollowFromResults(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	file := string(assert.File(t, figuresFile))
	pages, claims, err := readClaims(file)
	assert.NoError(t, err)
	known := map[string]bool{}
	for _, pattern := range claimPages {
		found, err := filepath.Glob(pattern)
		assert.Must(t, err == nil && len(found) != 0, "%v %v", pattern, err)
		for _, page := range found {
			known[page] = true
			want, answered, faults := answerClaims(string(assert.File(t, page)), claims[page])
			for _, f := range faults {
				t.Errorf("%s: %s", page, f)
			}
			for i, c := range answered {
				file = strings.Replace(file, claims[page][i].words+" <- "+c.query, c.words+" <- "+c.query, 1)
			}
			assert.Golden(t, page, rerun(want))
		}
	}
	for _, page := range pages {
		assert.That(t, known[page], "%s: %s is no page with figures", figuresFile, page)
	}
	assert.Golden(t, figuresFile, file)
}

// A changed number, a figure that nothing answers for and a claim without an answer are found.
func TestAWrongFigureOfAPageIsFound(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	assert.Cases(t, "cmd/normbench/testdata/claims.txt", func(text string) string {
		text, lines, _ := strings.Cut(text, "\n--\n")
		_, claims, err := readClaims("page\n" + lines)
		got, answered, faults := answerClaims(text+"\n", claims["page"])
		for _, c := range answered {
			got += c.words + " <- " + c.query + "\n"
		}
		if err != nil {
			faults = append(faults, err.Error())
		}
		return strings.TrimSpace(strings.ReplaceAll(got, "\n\n", "\n") + strings.Join(faults, "\n"))
	})
}

// TestResultsMatchTheirChecksums holds every file below results to the checksum that
// scripts/results-gpu.sh wrote of it, so that a changed byte is noticed. All of results stays small enough to clone.
func TestResultsMatchTheirChecksums(t *testing.T) {
	const most = 3_700_000 // bytes
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
	assert.That(t, err == nil && files >= 80 && size <= most, "%d files, %d bytes, %v", files, size, err)
	lines := slices.Sorted(strings.Lines(sums.String()))
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	assert.Golden(t, filepath.Join(dir, "SHA256SUMS"), strings.Join(lines, ""))
}

// answerClaims gives a page and its claims with the numbers that the files have, and says which claims have no
// answer and which figures no claim.
func answerClaims(text string, claims []claim) (string, []claim, []string) {
	var faults []string
	answered := slices.Clone(claims)
	rest := text // with blanks for what is answered
	for i, c := range claims {
		words, places, err := c.find(text)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		files, query, _ := strings.Cut(c.query, " ")
		switch {
		case query == "peers" || query == "libraries" || query == "rows":
			place := tableBlock.FindStringIndex(text[words[1]:])
			if place == nil {
				faults = append(faults, fmt.Sprintf("%q: no table follows", c.words))
				continue
			}
			places = [][2]int{{words[1] + place[0], words[1] + place[1]}}
		case len(places) == 0: // the paragraph
			from := max(strings.LastIndex(text[:words[0]], "\n\n"), 0)
			to := len(text)
			if end := strings.Index(text[words[1]:], "\n\n"); end >= 0 {
				to = words[1] + end
			}
			places = [][2]int{{from, to}}
		}
		var old []string
		for _, at := range places {
			old = append(old, text[at[0]:at[1]])
		}
		now, err := answerOne(old, files, query)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", c.query, err))
		}
		for n, at := range slices.Backward(places) {
			text = text[:at[0]] + now[n] + text[at[1]:]
			rest = rest[:at[0]] + strings.Repeat(" ", len(now[n])) + rest[at[1]:]
		}
		n := -1
		answered[i].words = braced.ReplaceAllStringFunc(c.words, func(string) string {
			n++
			return "{" + now[n] + "}"
		})
	}
	// Not what a command printed: TestCommandsOfPagesRunAsShown has that.
	rest = quoted.ReplaceAllString(fenced.ReplaceAllString(rest, ""), "")
	for _, m := range figure.FindAllStringIndex(rest, -1) {
		faults = append(faults, fmt.Sprintf("a figure that %s does not have: %q", figuresFile,
			rest[max(m[0]-30, 0):m[1]]))
	}
	return text, answered, faults
}

// answerOne gives the numbers of a claim, or its table, as the files have them.
func answerOne(old []string, files, query string) ([]string, error) {
	switch {
	case query == "peers":
		table, err := peersTable(files)
		return []string{table}, err
	case query == "libraries":
		runs, err := readLives(files)
		return []string{librariesTable(runs)}, err
	case query == "rows":
		return old, findRows(files, old[0])
	case files == "set" && query == "":
		return old, nil
	}
	var values []any
	var err error
	for part := range strings.SplitSeq(query, " & ") {
		more, failed := answer(files, part)
		values, err = append(values, more...), cmp.Or(err, failed)
	}
	if err == nil && len(values) != len(old) {
		err = fmt.Errorf("%d numbers are found, and the page has %d", len(values), len(old))
	}
	if err != nil {
		return old, err
	}
	now := slices.Clone(old)
	for i, value := range values {
		x, ok := value.(float64)
		if !ok {
			now[i] = value.(string)
			continue
		}
		digits := number.FindString(old[i])
		_, decimals, _ := strings.Cut(digits, ".")
		now[i] = strings.Replace(old[i], digits, strconv.FormatFloat(x, 'f', len(decimals), 64), 1)
	}
	return now, nil
}

// rerun is a page with what its commands on the checked-in results print, as many lines as it
// shows.
func rerun(text string) string {
	for _, c := range commands(text) {
		args, err := shlex.Split(strings.Replace(c.text, "go run ./cmd/normbench ", "normbench ", 1))
		shown := strings.SplitAfter(strings.TrimSuffix(c.output, "\n"), "\n")
		if err != nil || c.output == "" || len(args) < 3 || args[0] != "normbench" ||
			!(args[1] == "report" && strings.HasPrefix(args[2], "results/") || args[1] == "explain" ||
				args[1] == "map" && (args[2] == "show" || args[2] == "export")) {
			continue
		}
		if code, out, _ := normbench(args[1:]); code == 0 {
			lines := strings.SplitAfter(out, "\n")
			lines = lines[max(0, slices.Index(lines, shown[0])):] // a page may leave out the head
			text = strings.Replace(text, c.output, strings.Join(lines[:min(len(shown), len(lines))], ""), 1)
		}
	}
	return text
}

// answer is what a query asks for, each a float64 or a string.
func answer(files, query string) (values []any, err error) {
	kind, rest, _ := strings.Cut(query, " ")
	texts, err := claimTexts(files)
	if err != nil {
		return nil, err
	}
	if kind == "text" {
		m := regexp.MustCompile(rest).FindStringSubmatch(texts[0])
		if len(m) < 2 {
			return nil, fmt.Errorf("the pattern captures no number")
		}
		for _, word := range m[1:] {
			if x, err := strconv.ParseFloat(word, 64); err == nil {
				values = append(values, x)
			} else {
				values = append(values, word)
			}
		}
		return values, nil
	}
	queries := map[string]func([]float64) float64{"mean": stats.GeoMean,
		"least": slices.Min[[]float64], "most": slices.Max[[]float64],
		"count": func(x []float64) float64 { return float64(len(x)) }}
	reduce, counts := queries[kind], kind == "count"
	if reduce == nil {
		return nil, fmt.Errorf("no such query")
	}
	var found []float64
	for _, text := range texts {
		more, err := tableValues(text, rest, counts)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	if len(found) == 0 && !counts {
		return nil, fmt.Errorf("no row fits")
	}
	return []any{reduce(found)}, nil
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

// readLives reads the live compares of a pattern.
func readLives(pattern string) (runs []*report.LiveFile, err error) {
	files, err := claimFiles(pattern)
	for _, file := range files {
		run, err := report.ReadLive(file)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, err
}

// peersTable is a row for every op and pass of live compares.
func peersTable(pattern string) (string, error) {
	runs, err := readLives(pattern)
	text := "| | speedup (range) | FASTER | SLOWER | ours, of the stream | best peer, of the " +
		"stream | peers |\n|---|---|---|---|---|---|---|\n"
	for _, run := range runs {
		type tally struct{ gain, peer, ours []float64 }
		rows, verdicts := map[string]tally{}, map[string]int{}
		timed := map[string]bool{} // libraries that had a time
		for _, d := range run.Duels {
			for _, look := range d.Peers {
				timed[look.Peer] = timed[look.Peer] || look.US > 0
			}
		}
		maps.DeleteFunc(timed, func(_ string, is bool) bool { return !is })
		count := cmp.Or(len(timed), len(run.Among)) // older files do not say
		for _, r := range run.Comparison().Rows {
			if r.Verdict == "" {
				continue
			}
			name := fmt.Sprintf("%s/%s", r.Problem.Op, r.Problem.Pass)
			if slices.Contains(run.Run.Command, "qk-norm") {
				name += ", `qk-norm`"
			}
			x := rows[name]
			verdicts[name+string(r.Verdict)]++
			rows[name] = tally{append(x.gain, r.Speedup), append(x.peer, r.A.StreamUS/r.A.Median),
				append(x.ours, r.B.StreamUS/r.B.Median)}
		}
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			x := rows[name]
			text += fmt.Sprintf("| %s | %.2fx (%.2f to %.2f) | %d of %d | %d | %.3f | %.3f | %d |\n",
				name, stats.GeoMean(x.gain), slices.Min(x.gain), slices.Max(x.gain),
				verdicts[name+string(verdict.Faster)], len(x.gain),
				verdicts[name+string(verdict.Slower)], stats.GeoMean(x.ours), stats.GeoMean(x.peer),
				count)
		}
	}
	return text, err
}

// librariesTable writes a row for each library of live compares against peer:best. It counts where the library was the
// fastest and where it had no time, with the first reason, and has its time over the fastest library's.
func librariesTable(runs []*report.LiveFile) string {
	type tally struct {
		version, reason string
		fastest, none   int
		behind          []float64
	}
	libraries, all := map[string]*tally{}, 0
	for _, run := range runs {
		for _, name := range run.Among {
			if libraries[name] == nil {
				libraries[name] = &tally{version: run.Run.Env["peer/"+name]}
			}
		}
		for _, d := range run.Duels {
			all++
			if best, _ := kernels.PeerName(d.A.Family); d.Status == kernels.StatusOK {
				libraries[best].fastest++
			}
			for _, look := range d.Peers {
				if x := libraries[look.Peer]; look.US > 0 {
					x.behind = append(x.behind, look.US/d.Peers[0].US)
				} else {
					x.none, x.reason = x.none+1, cmp.Or(x.reason, look.Reason)
				}
			}
		}
	}
	text := fmt.Sprintf("| library | version | fastest, of %d | over the fastest | no time |\n|---|---|---|---|---|\n", all)
	for _, name := range slices.SortedFunc(maps.Keys(libraries), func(a, b string) int {
		return cmp.Or(libraries[b].fastest-libraries[a].fastest, cmp.Compare(a, b))
	}) {
		x := libraries[name]
		behind, none := "", "" // older files do not say
		if len(x.behind) > 0 {
			behind, none = fmt.Sprintf("%.2fx", stats.GeoMean(x.behind)), "0"
		}
		if x.none > 0 {
			_, why, _ := strings.Cut(x.reason, ": ") // behind the status
			none = fmt.Sprintf("%d; first: %s", x.none, strings.ReplaceAll(why, "|", "/"))
		}
		system, _ := peers.About(name)
		text += fmt.Sprintf("| %s | %s | %d | %s | %s |\n", system, cmp.Or(x.version, "not there"), x.fastest, behind, none)
	}
	return text
}

// A table of eight libraries says where each was the fastest, how far behind it was elsewhere, and why it had no time.
func TestTableOfLibrariesSaysWhyOneHasNoTime(t *testing.T) {
	run, err := report.ReadLive("../../results/nvidia-h200/peers/layernorm-bwd.json.gz")
	assert.NoError(t, err)
	run.Among = strings.Split("compile,cudnn,liger,quack,fast-llm,flash-attn,fla,mamba", ",")
	run.Duels = run.Duels[:4]
	run.Run.Env = map[string]string{"peer/cudnn": "nvidia-cudnn-frontend 1.32.0, cuDNN 9.19.0", "peer/mamba": "mamba-ssm 2.3.2.post1"}
	for i, d := range run.Duels {
		d.A = kernels.PeerVariant("cudnn")
		d.Peers = []ab.PeerLook{{Peer: "cudnn", US: 50}, {Peer: "fla", US: 100}, {Peer: "mamba", US: 200},
			{Peer: "flash-attn", Reason: "compile: it was not compiled within 1m0s"}, {Peer: "quack", Reason: "refused: fp32 | only"}}
		if i == 3 {
			d.Peers[1].US = 50
		}
	}
	assert.Equal(t, librariesTable([]*report.LiveFile{run}), `| library | version | fastest, of 4 | over the fastest | no time |
|---|---|---|---|---|
| cuDNN | nvidia-cudnn-frontend 1.32.0, cuDNN 9.19.0 | 4 | 1.00x | 0 |
| torch.compile | not there | 0 |  |  |
| Fast-LLM | not there | 0 |  |  |
| flash-linear-attention's Triton norms | not there | 0 | 1.68x | 0 |
| flash-attn's Triton norms | not there | 0 |  | 4; first: it was not compiled within 1m0s |
| Liger-Kernel | not there | 0 |  |  |
| mamba's Triton norms | mamba-ssm 2.3.2.post1 | 0 | 4.00x | 0 |
| quack | not there | 0 |  | 4; first: fp32 / only |
`)
}
