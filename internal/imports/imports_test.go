// Package imports holds the rule of which package may know which.
//
// Imports point one way: kernels <- sweep <- {tune, report} <- lab <- cmd/normbench.
// tune and report do not know each other (lab sees both), devices know only kernels, and every
// foreign library has one place of its own, so that replacing it means reading
// one place.
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
)

const module = "normbench"

// A file is a source file with its imports: those of this module as paths from
// its root ("kernels/cpu"), all others as they are.
type file struct {
	name    string // "kernels/cpu/cpu.go"
	own     []string
	foreign []string
}

func (f file) test() bool { return strings.HasSuffix(f.name, "_test.go") }

// within says whether an import, or the directory of a file, is dir or below.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func parse(t *testing.T, root string) []file {
	var files []file
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := filepath.Base(name)
		if d.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
				base == "testdata" || base == "vendor") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		ast, err := parser.ParseFile(fset, name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := file{name: filepath.ToSlash(rel)}
		for _, i := range ast.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(p, module+"/"); ok {
				f.own = append(f.own, own)
			} else if p == module {
				f.own = append(f.own, ".")
			} else {
				f.foreign = append(f.foreign, p)
			}
		}
		files = append(files, f)
		return nil
	})
	assert.NoError(t, err)
	return files
}

// A rule bounds what the files of some directories import of this module.
type rule struct {
	of    []string
	only  []string // where set, nothing but these and what is below them
	never []string
	tests bool // holds for test files too
}

var rules = []rule{
	{of: []string{"kernels"}, never: []string{"sweep", "tune", "report", "lab", "cmd"},
		tests: true},
	{of: []string{"kernels/cpu", "kernels/cuda", "kernels/emulate", "kernels/worker"}, only: []string{"kernels", "internal/assert", "internal/durable",
		"internal/hint", "internal/nvlib", "internal/proc"}, tests: true},
	{of: []string{"kernels/peers"}, only: []string{"kernels", "internal/assert", "internal/hint"},
		tests: true},
	// The reference is an independent opinion: it cannot borrow from kernels
	// that it judges, nor they from it.
	{of: []string{"kernels/reference"}, only: []string{"kernels"}},
	{of: []string{"kernels/reference"}, never: []string{"kernels/families"}, tests: true},
	{of: []string{"kernels/families"}, never: []string{"kernels/reference"}},
	// Launch rules are data, which families look up.
	{of: []string{"kernels/rule"}, never: []string{"kernels/families"}},
	{of: []string{"kernels/nvrtc"}, only: []string{"kernels/nvrtc", "internal/durable", "internal/hint",
		"internal/nvlib", "internal/proc"}},
	{of: []string{"kernels/triton"}, only: []string{"kernels", "internal/hint", "internal/proc"}},
	// Strategies are pure: they ask, and are told.
	{of: []string{"sweep/search"}, only: []string{"kernels", "internal/assert", "internal/hint",
		"sweep/stats", "sweep/verdict", "sweep/search"}, tests: true},
	{of: []string{"sweep"}, never: []string{"tune", "report", "lab", "cmd"}, tests: true},
	{of: []string{"tune"}, never: []string{"report", "lab", "cmd"}, tests: true},
	{of: []string{"lab"}, never: []string{"cmd"}, tests: true},
	{of: []string{"report"}, never: []string{"tune", "lab", "cmd"}, tests: true},
	{of: []string{"internal"}, only: []string{"internal"}, tests: true},
}

// The foreign libraries, with the only place of each: files, or directories.
var homes = map[string][]string{
	"gorgonia.org/cu":                   {"kernels/cuda/driver"},
	"github.com/ebitengine/purego":      {"internal/nvlib"},
	"github.com/NVIDIA/go-nvml":         {"kernels/cuda/nvml"},
	"github.com/olekukonko/tablewriter": {"report/render.go"},
	"github.com/expr-lang/expr":         {"kernels/manifest"},
	"go.yaml.in/yaml/v4":                {"internal/yamldoc", "cmd/normbench/ci_test.go"},
	"github.com/urfave/cli":             {"cmd/normbench"},
	"C":                                 {"kernels/cuda/driver", "kernels/cuda/cupti"},
}

// broken lists what breaks the rules, one line per import.
func broken(files []file) (lines []string) {
	for _, f := range files {
		dir := path.Dir(f.name)
		for _, r := range rules {
			if f.test() && !r.tests || !slices.ContainsFunc(r.of,
				func(d string) bool { return within(dir, d) }) {
				continue
			}
			for _, p := range f.own {
				below := func(d string) bool { return within(p, d) }
				// "kernels" alone in a list of what reference may know is that
				// package, not everything below it.
				if dir == "kernels/reference" && len(r.only) > 0 {
					below = func(d string) bool { return p == d }
				}
				if slices.ContainsFunc(r.never, below) {
					lines = append(lines, f.name+" imports "+p+", which "+strings.Join(r.of, ", ")+
						" must not")
				}
				if len(r.only) > 0 && !slices.ContainsFunc(r.only, below) {
					lines = append(lines, f.name+" imports "+p+"; "+strings.Join(r.of, ", ")+
						" know only "+strings.Join(r.only, ", "))
				}
			}
		}
		for _, p := range f.foreign {
			for lib, home := range homes {
				if within(p, lib) && !slices.ContainsFunc(home,
					func(h string) bool { return f.name == h || within(dir, h) }) {
					lines = append(lines, f.name+" imports "+p+", which is for "+strings.Join(home,
						", ")+" only")
				}
			}
		}
	}
	return lines
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err) // moved: the test would walk something else and be content
	}
	files := parse(t, root)
	for _, line := range broken(files) {
		t.Error(line)
	}
	// A rule for a directory that is not there holds nothing.
	for _, r := range rules {
		for _, d := range r.of {
			found := slices.ContainsFunc(files,
				func(f file) bool { return within(path.Dir(f.name), d) })
			assert.That(t, found, "the rule for %s has no files", d)
		}
	}
}
