package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels/families"
	"normbench/lab"
)

var (
	fenced = regexp.MustCompile("(?s)```.*?\n```")
	quoted = regexp.MustCompile("`[^`]*`")
	// Names without a scheme, of files beside the page.
	localLink = regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)]*)?\)`)
)

var (
	commitHash = regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	pageName   = regexp.MustCompile(`\bdocs/[a-z-]+\.md\b`)
	sourceFile = regexp.MustCompile("`([a-z_/]+\\.go)`")
)

// TestLinksOfPagesExist: the files and headings that the pages link to exist, as do the commits that they name, the Go
// files that ARCHITECTURE.md names, and the pages that sources name. A clone without the history cannot tell
// about commits.
func TestLinksOfPagesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	history := err == nil && shallow == "false"
	commits, checked, anchors := map[string]bool{}, 0, 0
	for _, pattern := range []string{"*.md", "docs/*.md", "lab/notes/*.md", "examples/*/*.md", "results/*.md",
		"results/*/*.md", "results/*/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		assert.NoError(t, err)
		for _, page := range pages {
			text := string(assert.File(t, page))
			for _, m := range localLink.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
				to := page
				if m[1] != "" {
					to = filepath.Join(filepath.Dir(page), m[1])
				}
				_, err := os.Stat(to)
				assert.That(t, err == nil, "%s: %v", page, err)
				if m[2] != "" && err == nil {
					assert.That(t, slugs(string(assert.File(t, to)))[m[2][1:]], "%s: %s has no heading %s", page, to, m[2])
					anchors++
				}
				checked++
			}
			if strings.Contains(pattern, "examples") { // they name commits of other repositories
				continue
			}
			for _, hash := range commitHash.FindAllString(text, -1) {
				// A word of digits alone is a date or a seed.
				if !history || commits[hash] || !strings.ContainsAny(hash, "0123456789") ||
					!strings.ContainsAny(hash, "abcdef") {
					continue
				}
				_, err := git("cat-file", "-e", hash+"^{commit}")
				assert.That(t, err == nil, "%s names commit %s, which is not in the history", page, hash)
				commits[hash] = true
			}
		}
	}
	assert.That(t, checked >= 40 && anchors >= 10 && (!history || len(commits) >= 4),
		"%d links, %d anchors, %d commits", checked, anchors, len(commits))
	err = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "out" || strings.HasPrefix(e.Name(), ".") && path != root) {
			return cmp.Or(err, fs.SkipDir)
		}
		if slices.Contains([]string{".go", ".yaml", ".yml", ".sh", ".mk", ".py"}, filepath.Ext(path)) {
			for _, page := range pageName.FindAllString(string(assert.File(t, path)), -1) {
				_, err := os.Stat(filepath.Join(root, page))
				assert.That(t, err == nil, "%s names %s, which is not there", path, page)
			}
		}
		return nil
	})
	assert.NoError(t, err)
	text := assert.File(t, filepath.Join(root, "ARCHITECTURE.md"))
	files := sourceFile.FindAllStringSubmatch(string(text), -1)
	for _, m := range files {
		// Words of a folder's row, such as registry.go, stand without their folder.
		_, err := os.Stat(filepath.Join(root, m[1]))
		assert.That(t, err == nil || !strings.Contains(m[1], "/"), "ARCHITECTURE.md: %v", err)
	}
	assert.That(t, len(files) >= 3, "ARCHITECTURE.md names %d Go files", len(files))
}

// Each word of docs/words.md has one Go type, or a function or method where it is none, in a package of
// that name; there are 40 at most, and no type has two words.
func TestEachWordHasOneType(t *testing.T) {
	root := filepath.Join("..", "..")
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "out" || e.Name() == ".git") {
			return cmp.Or(err, fs.SkipDir)
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						declared[f.Name.Name+"."+s.Name.Name] = true
					}
				}
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					if of, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
						name = fmt.Sprint(of.X) + "." + name
					}
				}
				declared[f.Name.Name+"."+name] = true
			}
		}
		return nil
	})
	assert.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| [^|]+ \\| `([^`]+)` \\|$").FindAllStringSubmatch(
		string(assert.File(t, filepath.Join(root, "docs", "words.md"))), -1)
	seen := map[string]bool{}
	for _, row := range rows {
		assert.That(t, declared[row[2]], "%s: there is no %s", row[1], row[2])
		assert.That(t, !seen[row[1]] && !seen[row[2]], "%s, %s stands twice", row[1], row[2])
		seen[row[1]], seen[row[2]] = true, true
	}
	assert.That(t, len(rows) >= 30 && len(rows) <= 40, "%d words", len(rows))
}

// slugs returns the anchors that GitHub gives the headings of a page.
func slugs(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range titleLine.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return all
}

// A sentence of a page for users has at most 28 words.
func TestSentencesOfPagesAreShort(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	assert.NoError(t, err)
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		for _, s := range sentences(string(assert.File(t, page))) {
			words := countWords(s)
			assert.That(t, words <= 28, "%s has a sentence of %d words: %s", filepath.Base(page), words, s)
		}
	}
}

var (
	titleLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	// A block of code in a list is indented.
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	target    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	newBlock  = regexp.MustCompile(`(?m)^\s*(?:[-*] |\d+\. |#+ |> |\|)|\n\s*\n`)
	sentence  = regexp.MustCompile(`[.!?][)*"]*\s+`)
	wordRune  = regexp.MustCompile(`[\p{L}\p{N}]`)
)

// sentences splits a page's paragraphs, list items and cells of tables into sentences.
func sentences(text string) (all []string) {
	text = target.ReplaceAllString(codeBlock.ReplaceAllString(text, "\n\n"), "$1")
	// What stands in quotes is one thing, and its dots end nothing.
	text = quoted.ReplaceAllStringFunc(text, func(code string) string {
		return strings.NewReplacer(".", "·", "|", "/", " ", "\u00a0").Replace(code)
	})
	for _, block := range newBlock.Split(text, -1) {
		for _, cell := range strings.Split(block, "|") {
			for _, s := range sentence.Split(cell, -1) {
				if s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' }), " "); s != "" {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// countWords counts what has a letter or a digit. Code is one word.
func countWords(s string) (n int) {
	for _, w := range strings.Split(s, " ") {
		if wordRune.MatchString(w) {
			n++
		}
	}
	return n
}

// The pages name each variable of the environment that the program reads, and no other.
func TestVariablesOfTheEnvironmentAreInPages(t *testing.T) {
	root := filepath.Join("..", "..")
	read, named := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir() && (e.Name() == "out" || strings.HasPrefix(e.Name(), ".") && path != root):
			return cmp.Or(err, fs.SkipDir)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			!strings.Contains(path, "assert") && !strings.Contains(path, "powercut") &&
			!strings.Contains(path, "devicetest"): // those serve tests
			for _, m := range variable.FindAllStringSubmatch(string(assert.File(t, path)), -1) {
				if !forTests.MatchString(m[1]) {
					read[m[1]] = true
				}
			}
		case strings.HasSuffix(path, ".md") && filepath.Base(filepath.Dir(path)) == "docs":
			for _, name := range variableName.FindAllString(string(assert.File(t, path)), -1) {
				named[name] = true
			}
		}
		return nil
	})
	assert.NoError(t, err)
	assert.Same(t, named, read)
	assert.That(t, len(read) >= 8, "%d variables", len(read))
}

var (
	variable     = regexp.MustCompile(`"(NORMBENCH_[A-Z_]+)"`)
	forTests     = regexp.MustCompile(`^NORMBENCH_(REQUIRE|TEST)_`)
	variableName = regexp.MustCompile(`NORMBENCH_[A-Z_]+`)
)

// No sentence of a command's description has more than 28 words, nor what is said of a flag.
func TestSentencesOfHelpAreShort(t *testing.T) {
	e := &env{Lab: lab.New(t.Context(), console.New(t.Context(), nil, nil), families.New(), func() {})}
	eachCommand(e.app().Commands, "", func(path string, c *cli.Command) {
		texts := []string{c.Usage, c.Description}
		for _, f := range c.Flags {
			if f, ok := f.(cli.DocGenerationFlag); ok {
				texts = append(texts, strings.ReplaceAll(f.GetUsage(), "`", ""))
			}
		}
		for _, s := range sentences(strings.ReplaceAll(strings.Join(texts, "\n\n"), ";", ".")) {
			assert.That(t, countWords(s) <= 28, "%s --help has a sentence of %d words: %s", path, countWords(s), s)
		}
	})
}

func TestSentencesOfAPageAreCounted(t *testing.T) {
	got := sentences("# A page\n\nOne `x. y` two. Three\nfour [five](six.md)!\n\n- a\n- b. c\n\n| d | e f |\n|---|---|\n| g. H | `i|j` |\n" +
		"```console\n$ no\n```\n")
	assert.Same(t, got, []string{"A page", "One `x·\u00a0y` two", "Three four five!", "a", "b", "c", "d", "e f", "---",
		"---", "g", "H", "`i/j`"})
	assert.Equal(t, countWords("One `x·\u00a0y` --- 2."), 3)
}

// In the pages a command and a flag that stand in a sentence exist.
func TestCommandsAndFlagsInPagesExist(t *testing.T) {
	e := &env{Lab: lab.New(t.Context(), console.New(t.Context(), nil, nil), families.New(), func() {})}
	flags, all := map[string][]string{}, []string{"--help", "--version"}
	eachCommand(e.app().Commands, "", func(path string, c *cli.Command) {
		for _, n := range names(c.Flags) {
			flags[path] = append(flags[path], "--"+n)
		}
		all = append(all, flags[path]...)
		flags[path] = append(flags[path], "--help")
	})
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	assert.NoError(t, err)
	checked := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text := codeBlock.ReplaceAllString(string(assert.File(t, page)), "")
		for _, code := range quoted.FindAllString(text, -1) {
			words := strings.Fields(strings.Trim(code, "`"))
			if len(words) > 0 && words[0] == "normbench" {
				words = words[1:]
				assert.That(t, len(words) == 0 || flags[words[0]] != nil || strings.HasPrefix(words[0], "-") ||
					slices.Contains([]string{"help", "COMMAND", "map", "list", "version", "completion"}, words[0]),
					"%s: there is no command of %s", page, code)
			}
			known := all
			for i := min(len(words), 2); i > 0; i-- {
				if of := flags[strings.Join(words[:i], " ")]; of != nil {
					known = of
					break
				}
			}
			for _, w := range words {
				if w == "--" { // behind it a program has flags of its own
					break
				}
				name, _, _ := strings.Cut(w, "=")
				if flagName.MatchString(name) && !foreignFlags[name] {
					assert.That(t, slices.Contains(known, name), "%s: there is no %s in %s", page, name, code)
					checked++
				}
			}
		}
	}
	assert.That(t, checked > 50, "%d flags", checked)
}

var (
	flagName = regexp.MustCompile(`^--[a-z][a-z-]*$`)
	// Flags of pip and of NVRTC that pages name.
	foreignFlags = map[string]bool{"--no-deps": true, "--use_fast_math": true}
)
