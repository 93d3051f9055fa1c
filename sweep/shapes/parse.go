package shapes

import (
	"reflect"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
)

const (
	sideHelp  = "rows and columns are whole numbers from 1 to 2147483648"
	itemHelp  = `write a shape as [M, N] or {shape: [M, N], note: "..."}`
	groupHelp = "write a group as name: [[M, N], ...] or name: {union: [group, ...]}"
)

// maxGroups is the most groups of a file, and of a union: each may hold all shapes there are.
const maxGroups = 256

// An item is a shape as a file has it.
type item struct {
	Shape sides
	Note  string `yaml:"optional" help:"put quotes around it"`
}

// UnmarshalValue implements yamldoc.Unmarshaler: an item may be its sides alone.
func (x *item) UnmarshalValue(v yamldoc.Value, _ reflect.StructTag) error {
	switch v.TypeName() {
	case yamldoc.Mapping:
		type plain item
		return v.Decode((*plain)(x))
	case yamldoc.List:
		return x.Shape.UnmarshalValue(v, "")
	}
	return v.Errorf(itemHelp, "is %s, not a shape", v.TypeName())
}

// sides are [M, N].
type sides [2]int64

func (s *sides) UnmarshalValue(v yamldoc.Value, _ reflect.StructTag) error {
	list, err := v.Items(itemHelp, false)
	switch {
	case err != nil:
		return err
	case len(list) != 2:
		return v.Errorf(itemHelp, "has %d numbers, not 2", len(list))
	}
	for i, x := range list {
		n, err := x.Int(sideHelp, 1, MaxSide)
		if err != nil {
			return err
		}
		s[i] = int64(n)
	}
	return nil
}

// A group is a list of shapes or a union of other groups.
type group struct {
	shapes []Shape // nil before a union is resolved
	union  []yamldoc.Word
}

// Parse reads a shapes file; name stands for it in errors. It is strict: an
// unknown key, a wrong type, a side out of range, an empty or repeated group, a
// repeated shape in a group, and a union of an unknown group or of itself are
// errors with file, line and column.
func Parse(name string, data []byte) (*File, error) {
	body, err := yamldoc.Document(name, data, groupHelp)
	if err != nil {
		return nil, err
	}
	entries, err := body.Entries(groupHelp)
	switch {
	case err != nil:
		return nil, err
	case len(entries) == 0:
		return nil, hint.Errorf(groupHelp, "%s has no groups", name)
	case len(entries) > maxGroups:
		return nil, entries[maxGroups].Key.Errorf(groupHelp, "more than %d groups", maxGroups)
	}
	f := &File{name: name, groups: map[string][]Shape{}}
	groups := map[string]*group{}
	for _, e := range entries {
		if !groupRE.MatchString(e.Key.Text) {
			return nil, e.Key.Errorf("start with a letter a-z; letters, digits, - and _ may follow",
				"malformed group name")
		}
		if groups[e.Key.Text], err = readGroup(e.Value); err != nil {
			return nil, err
		}
		f.names = append(f.names, e.Key.Text)
	}
	for _, key := range f.names {
		if f.groups[key], err = resolve(groups, key, nil); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func readGroup(v yamldoc.Value) (*group, error) {
	g := &group{}
	if v.TypeName() == yamldoc.Mapping {
		var of struct {
			Union []yamldoc.Word `help:"write a group as name: [[M, N], ...] or name: {union: [group, ...]}"`
		}
		if err := v.Decode(&of); err != nil {
			return nil, err
		}
		if len(of.Union) > maxGroups {
			return nil, of.Union[maxGroups].Errorf(groupHelp, "more than %d groups", maxGroups)
		}
		g.union = of.Union
		return g, nil
	}
	list, err := v.Items(groupHelp, false)
	if err != nil {
		return nil, err
	}
	seen := map[sides]bool{}
	for _, v := range list {
		var x item
		if err := v.Decode(&x); err != nil {
			return nil, err
		}
		s := Shape{x.Shape[0], x.Shape[1], x.Note}
		if seen[x.Shape] {
			return nil, v.Errorf("take one of them out", "shape %s stands twice", s)
		}
		seen[x.Shape] = true
		g.shapes = append(g.shapes, s)
	}
	return g, nil
}

// resolve returns the shapes of a group. trail holds the unions above it.
func resolve(groups map[string]*group, key string, trail []string) ([]Shape, error) {
	g := groups[key]
	if g.shapes != nil {
		return g.shapes, nil
	}
	trail = append(slices.Clip(trail), key)
	for _, w := range g.union {
		switch {
		case groups[w.Text] == nil:
			return nil, w.Errorf("a union names groups of the same file", "unknown group %q", w.Text)
		case slices.Contains(trail, w.Text):
			return nil, w.Errorf("take one of them out", "the union goes in a circle: %s",
				strings.Join(append(trail, w.Text), " -> "))
		}
		s, err := resolve(groups, w.Text, trail)
		if err != nil {
			return nil, err
		}
		g.shapes = append(g.shapes, s...)
	}
	g.shapes = collapse(g.shapes)
	return g.shapes, nil
}
