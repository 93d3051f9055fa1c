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
	"strings"
	"testing"

	"normbench/internal/assert"
)

var (
	fenced = regexp.MustCompile("(?s)```.*?\n```")
	quoted = regexp.MustCompile("`[^`]*`")
	// Names without a scheme, of files beside the page.
	local = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
)

var (
	commitHash = regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	sourceFile = regexp.MustCompile("`([a-z_/]+\\.go)`")
)

// TestLinksOfPagesExist: the files that the pages link to exist, as do the commits that they name, and the Go
// files that ARCHITECTURE.md names. A clone without the history cannot tell about commits.
func TestLinksOfPagesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	history := err == nil && shallow == "false"
	commits, checked := map[string]bool{}, 0
	for _, pattern := range []string{"*.md", "docs/*.md", "lab/notes/*.md", "results/*.md", "results/*/*.md",
		"results/*/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		assert.NoError(t, err)
		for _, page := range pages {
			text := string(assert.File(t, page))
			for _, m := range local.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
				_, err := os.Stat(filepath.Join(filepath.Dir(page), m[1]))
				assert.That(t, err == nil, "%s: %v", page, err)
				checked++
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
	assert.That(t, checked >= 40 && (!history || len(commits) >= 4),
		"%d links, %d commits", checked, len(commits))
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
