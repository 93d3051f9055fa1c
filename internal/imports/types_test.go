package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// implementations are the interfaces whose implementations bear their name, each in the package that says
// which one it is: cpu.Device is a kernels.Device.
var implementations = []string{"device", "bench"}

// Two types of one name in a file are read as one. So no two packages export a type of the same name, and
// what a file imports has no name of a type of its own package, whatever the case.
func TestNoFileSeesTwoTypesOfOneName(t *testing.T) {
	files := parse(t)
	types := map[string][]string{} // of a package
	exported := map[string]string{}
	for name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		for _, of := range declaredTypes(t, name) {
			types[dir] = append(types[dir], of)
			if !ast.IsExported(of) || slices.Contains(implementations, strings.ToLower(of)) {
				continue
			}
			other, ok := exported[of]
			assert.That(t, !ok || other == dir, "%s and %s both export a type %s", dir, other, of)
			exported[of] = dir
		}
	}
	assert.That(t, len(exported) > 200, "%d exported types", len(exported))
	for name, imports := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		own := types[path.Dir(name)]
		for _, from := range imports {
			for _, of := range types[from] {
				same := func(o string) bool { return strings.EqualFold(o, of) }
				assert.That(t, !ast.IsExported(of) || slices.ContainsFunc(implementations, same) ||
					!slices.ContainsFunc(own, same), "%s sees a type %s of its own and %s's", name, of, from)
			}
		}
	}
}

// declaredTypes lists the types that a file declares outside functions.
func declaredTypes(t *testing.T, name string) (list []string) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", name), nil, parser.SkipObjectResolution)
	assert.NoError(t, err)
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok {
				list = append(list, s.Name.Name)
			}
		}
	}
	return list
}
