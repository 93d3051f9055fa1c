package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The pages are short sentences in short paragraphs: at most 16 words in the median sentence, six
// lines in a paragraph, 100 columns in a table of README.
func TestProse(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, pattern := range []string{"README.md", "ARCHITECTURE.md", "results/*.md", "results/*/*.md", "results/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range proseFaults(string(data), page == filepath.Join(root, "README.md")) {
			t.Errorf("%s: %s", page, fault)
		}
		if word := privateWord.FindString(string(data)); word != "" {
			t.Errorf("%s: %q is not the field's word", page, word)
		}
	}
	if privateWord.FindString("two programs per multiprocessor") == "" || privateWord.FindString("the same program as") != "" {
		t.Error(privateWord)
	}
	bad := "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen.\n\na\nb\nc\nd\ne\nf\ng\n\n| " + strings.Repeat("x", 100) + " |\n"
	if faults := proseFaults(bad, true); len(faults) != 3 {
		t.Errorf("%q", faults)
	}
}

// Words that once stood for CTAs, SMs, rounds and second copies.
var privateWord = regexp.MustCompile(`(?i)\b(multiprocessors?|programs? per|bouts?|twins?)\b`)

var (
	fenced   = regexp.MustCompile("(?s)```.*?\n```")
	listItem = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	quoted   = regexp.MustCompile("`[^`]*`")
	// Names without a scheme, of files beside the page.
	local       = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	link        = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?:]\s+`)
)

func proseFaults(text string, narrow bool) (faults []string) {
	var paragraphs [][]string
	var last []string
	end := func() {
		if len(last) > 0 {
			paragraphs, last = append(paragraphs, last), nil
		}
	}
	for line := range strings.Lines(fenced.ReplaceAllString(text, "")) {
		line = strings.TrimSuffix(line, "\n")
		table := strings.HasPrefix(line, "|")
		if n := utf8.RuneCountInString(line); narrow && table && n > 100 {
			faults = append(faults, "a table wider than 100 columns: "+line)
		}
		switch {
		case table || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "![") || strings.HasPrefix(line, "<!--"):
			end()
			continue
		case listItem.MatchString(line):
			end()
		}
		last = append(last, line)
	}
	end()
	var words []int
	for _, p := range paragraphs {
		if len(p) > 6 {
			faults = append(faults, "a paragraph of more than six lines: "+p[0])
		}
		one := listItem.ReplaceAllString(strings.Join(p, " "), "")
		for _, sentence := range sentenceEnd.Split(link.ReplaceAllString(quoted.ReplaceAllString(one, "x"), ""), -1) {
			if n := len(strings.Fields(sentence)); n > 1 {
				words = append(words, n)
			}
		}
	}
	slices.Sort(words)
	if len(words) > 0 && words[len(words)/2] > 16 {
		faults = append(faults, "more than 16 words in the median sentence")
	}
	return faults
}

// TestComments: no comment of the code begins with a pronoun or a preposition in place of its subject.
func TestComments(t *testing.T) {
	root, files := filepath.Join("..", ".."), 0
	inverted := regexp.MustCompile(`(?m)^\s*// (?:Of|What|That|Those|Such|Nor) .*`)
	for _, dir := range []string{"cmd", "internal", "kernels", "report", "sweep", "tune"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			for _, line := range inverted.FindAllString(string(text), -1) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, "// Of returns ") { // a function's name
					t.Errorf("%s: %s", path, line)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("%d files", files)
	}
}

var (
	commitHash = regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	sourceFile = regexp.MustCompile("`([a-z_/]+\\.go)`")
)

// TestLinks: the files that the pages link to exist, as do the commits that they name, and the Go
// files that ARCHITECTURE.md names. A clone without the history cannot tell about commits.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	history := err == nil && shallow == "false"
	// The rows of results that name this commit are measured anew; the commit itself has not landed.
	commits := map[string]bool{}
	checked := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "results/*.md", "results/*/*.md", "results/*/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range local.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s: %v", page, err)
				}
				checked++
			}
			for _, hash := range commitHash.FindAllString(string(text), -1) {
				// A word of digits alone is a date or a seed.
				if !history || commits[hash] || !strings.ContainsAny(hash, "0123456789") || !strings.ContainsAny(hash, "abcdef") {
					continue
				}
				if _, err := git("cat-file", "-e", hash+"^{commit}"); err != nil {
					t.Errorf("%s names commit %s, which is not in the history", page, hash)
				}
				commits[hash] = true
			}
		}
	}
	if checked < 40 || history && len(commits) < 4 {
		t.Errorf("%d links, %d commits", checked, len(commits))
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := sourceFile.FindAllStringSubmatch(string(text), -1)
	for _, m := range files {
		// Words of a folder's row, such as registry.go, stand without their folder.
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && strings.Contains(m[1], "/") {
			t.Errorf("ARCHITECTURE.md: %v", err)
		}
	}
	if len(files) < 10 {
		t.Errorf("ARCHITECTURE.md names %d Go files", len(files))
	}
}

// TestResultsListed: the table of a device's results names every file and folder there, nothing
// that is gone, and all of results stays small enough to clone.
func TestResultsListed(t *testing.T) {
	const most = 10_300_000 // bytes
	results := filepath.Join("..", "..", "results")
	size := int64(0)
	if err := filepath.WalkDir(results, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if size > most {
		t.Errorf("results has %d bytes, more than %d", size, most)
	}
	dir := filepath.Join(results, "nvidia-h200")
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"README.md": true}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, name := range quoted.FindAllString(cells[1], -1) {
				name = strings.Trim(name, "`")
				if found, err := filepath.Glob(filepath.Join(dir, name)); err != nil || len(found) == 0 {
					t.Errorf("README.md lists %s, which is not there", name)
				}
				first, _, _ := strings.Cut(name, "/")
				listed[first] = true
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("README.md does not list %s", e.Name())
		}
	}
}
