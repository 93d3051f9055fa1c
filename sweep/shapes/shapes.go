// Package shapes reads shapes.yaml, the named groups of problem shapes, and
// resolves the shapes argument of the commands.
package shapes

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"normbench"
	"normbench/internal/hint"
	"normbench/sweep/models"
)

// MaxSide is the largest M or N of a shape.
const MaxSide = 1 << 31

// A Shape is the number of rows and columns of a problem.
type Shape struct {
	M, N int64 // rows, columns: 1 to MaxSide
}

// String writes the shape as MxN, which ParseList reads.
func (s Shape) String() string { return fmt.Sprintf("%dx%d", s.M, s.N) }

// A GroupFile is a shapes file that was read and checked: groups have shapes, unions are resolved.
type GroupFile struct {
	name   string
	names  []string // in file order
	groups map[string][]Shape
	steps  map[string]*models.Step // groups of problems with counts; groups has their shapes
}

// Names lists the groups in file order.
func (f *GroupFile) Names() []string { return slices.Clone(f.names) }

// Group returns the shapes of a group in file order, unions resolved, each
// shape once. An unknown name is an error whose hint lists the groups there
// are.
func (f *GroupFile) Group(name string) ([]Shape, error) {
	if g, ok := f.groups[name]; ok {
		return slices.Clone(g), nil
	}
	return nil, hint.Errorf(hint.DidYouMean(name, f.names,
		"its groups: "+strings.Join(f.names, ", ")), "%s has no group %q", f.name, name)
}

// Step returns the step of a group whose problems have counts, nil for a group of plain shapes.
func (f *GroupFile) Step(name string) *models.Step { return f.steps[name] }

// Default returns the shapes.yaml that is embedded in the program.
func Default() *GroupFile { return builtin() }

var builtin = sync.OnceValue(func() *GroupFile {
	f, err := Parse("shapes.yaml", []byte(normbench.ShapesYAML))
	if err != nil {
		panic(err) // the file is part of the program; TestHeldOutWidthsAreOfNoOtherGroup reads it
	}
	return f
})

// distinct removes repetitions and keeps the first of each.
func distinct[T comparable](list []T) []T {
	seen := map[T]bool{}
	return slices.DeleteFunc(list, func(x T) bool {
		again := seen[x]
		seen[x] = true
		return again
	})
}
