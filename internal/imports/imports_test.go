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
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// parse gives the source files below the root, "kernels/devices/cpu/cpu.go", with their imports: those of
// this module as paths from its root ("kernels/devices/cpu"), all others as they are.
func parse(t *testing.T) map[string][]string {
	root := os.DirFS(filepath.Join("..", ".."))
	files := map[string][]string{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		ast, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files[name] = nil
		for _, i := range ast.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			files[name] = append(files[name], strings.TrimPrefix(p, "normbench/"))
		}
		return nil
	})
	assert.NoError(t, err)
	return files
}

// within says whether an import, or a file, is in one of dirs or below it. Of a dir that begins with "=" it
// must be in the folder itself: "=kernels" is not kernels/launchmap.
func within(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		if only, ok := strings.CutPrefix(d, "="); ok {
			return p == only || path.Dir(p) == only && path.Ext(p) != ""
		}
		return p == d || strings.HasPrefix(p, d+"/")
	})
}

// rooms are the folders of this module: what is in none of them is foreign.
var rooms = []string{"kernels", "sweep", "tune", "report", "lab", "cmd", "internal", "normbench"}

// A rule bounds what the files of a directory import of this module.
type rule struct {
	of    string
	only  []string // where set, nothing but these and what is below them
	never []string
	tests bool // holds for test files too
}

var device = []string{"kernels", "internal/assert", "internal/durable", "internal/hint",
	"internal/nvlib", "internal/proc"}

var rules = []rule{
	{of: "kernels", never: []string{"sweep", "tune", "report", "lab", "cmd"}, tests: true},
	{of: "kernels/devices/cpu", only: device, tests: true},
	{of: "kernels/devices/cuda", only: device, tests: true},
	{of: "kernels/devices/emulate", only: device, tests: true},
	{of: "kernels/devices/local", only: device, tests: true},
	{of: "kernels/devices/worker", only: device, tests: true},
	{of: "kernels/devices/peers", only: []string{"kernels", "internal/assert", "internal/hint"}, tests: true},
	// The reference is an independent opinion: it cannot borrow from kernels
	// that it judges, nor they from it.
	{of: "kernels/families/reference", only: []string{"=kernels"}},
	{of: "kernels/families/reference", never: []string{"=kernels/families", "kernels/families/common"}, tests: true},
	{of: "=kernels/families", never: []string{"kernels/families/reference"}},
	// Launch rules are data, which families look up.
	{of: "kernels/launchmap", never: []string{"kernels/families"}},
	{of: "kernels/compile/nvrtc", only: []string{"kernels/compile/nvrtc", "internal/durable", "internal/hint",
		"internal/nvlib", "internal/proc"}},
	{of: "kernels/compile/triton", only: []string{"kernels", "internal/hint", "internal/nvlib",
		"internal/proc"}},
	// Strategies are pure: they ask, and are told.
	{of: "sweep/search", only: []string{"kernels", "internal/assert", "internal/hint",
		"sweep/stats", "sweep/verdict", "sweep/search"}, tests: true},
	{of: "sweep", never: []string{"tune", "report", "lab", "cmd"}, tests: true},
	{of: "tune", never: []string{"report", "lab", "cmd"}, tests: true},
	{of: "lab", never: []string{"cmd"}, tests: true},
	{of: "report", never: []string{"tune", "lab", "cmd"}, tests: true},
	{of: "internal", only: []string{"internal"}, tests: true},
}

// The foreign libraries, with the only place of each: files, or directories.
var homes = map[string][]string{
	"gorgonia.org/cu":                   {"kernels/devices/cuda/driver"},
	"github.com/ebitengine/purego":      {"internal/nvlib"},
	"github.com/NVIDIA/go-nvml":         {"kernels/devices/cuda/nvml"},
	"github.com/olekukonko/tablewriter": {"report/render.go"},
	"k8s.io/api":                        {"sweep/shard/k8stest"},
	"sigs.k8s.io/yaml":                  {"sweep/shard/k8stest"},
	"github.com/expr-lang/expr":         {"kernels/families/manifest"},
	"go.yaml.in/yaml/v4":                {"internal/yamldoc", "cmd/normbench/ci_test.go", "kernels/families/manifest/form_test.go"},
	"github.com/urfave/cli":             {"cmd/normbench"},
	"C":                                 {"kernels/devices/cuda/driver"},
}

func TestImportsPointOneWay(t *testing.T) {
	files := parse(t)
	for _, r := range rules {
		found := false
		for name, imports := range files {
			if !within(name, r.of) {
				continue
			}
			found = true
			for _, p := range imports {
				known := len(r.only) == 0 || !within(p, rooms...) || within(p, r.only...)
				assert.That(t, known && !within(p, r.never...) ||
					!r.tests && strings.HasSuffix(name, "_test.go"),
					"%s imports %s; %s knows only %q, and none of %q", name, p, r.of, r.only, r.never)
			}
		}
		assert.That(t, found, "the rule for %s has no files", r.of)
	}
	for name, imports := range files {
		for _, p := range imports {
			for lib, home := range homes {
				assert.That(t, !within(p, lib) || within(name, home...),
					"%s imports %s, which is for %q only", name, p, home)
			}
		}
	}
}

// mostImports is how many packages of this module one may import. Who imports more does the work of several.
const mostImports = 20

// cmd/normbench alone may import more: each of its files is a command of its own.
func TestNoRoomButCmdImportsMoreThan20Rooms(t *testing.T) {
	imported := map[string]map[string]bool{} // by folder, of whatever build
	for name, imports := range parse(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		room := path.Dir(name)
		if imported[room] == nil {
			imported[room] = map[string]bool{}
		}
		for _, p := range imports {
			if within(p, rooms...) {
				imported[room][p] = true
			}
		}
	}
	for room, list := range imported {
		assert.That(t, len(list) <= mostImports || room == "cmd/normbench", "%s imports %d packages of ours: %q", room,
			len(list), slices.Sorted(maps.Keys(list)))
	}
	assert.That(t, len(imported["lab"]) > mostImports/2, "lab imports %d packages: this counts something else",
		len(imported["lab"]))
}
