package shapes

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
)

const (
	sideHelp  = "rows and columns are whole numbers from 1 to 2147483648"
	itemHelp  = `write a shape as [M, N] or {shape: [M, N], weight: 2.0, note: "..."}`
	groupHelp = "write a group as name: [[M, N], ...] or name: {union: [group, ...]}"
)

// maxGroups is the most groups of a file and of a union: a union walks them all.
const maxGroups = 1000

// Parse reads a shapes file; name stands for it in errors. It is strict: an
// unknown key, a wrong type, a side out of range, an empty or repeated group, a
// repeated shape in a group, and a union of an unknown group or of itself are
// errors with file, line and column.
//
// It walks the syntax tree rather than decoding into structs, because an item
// has two forms and every error needs its place.
func Parse(name string, data []byte) (*File, error) {
	p := &reader{name: name, groups: map[string]*group{}}
	body, err := yamldoc.Parse(name, data, groupHelp)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return nil, hint.Errorf(groupHelp, "%s has no groups", name)
	}
	f := &File{name: name, groups: map[string][]Shape{}}
	pairs, err := p.mapping(body, "the file", groupHelp)
	if err != nil {
		return nil, err
	}
	if len(pairs) > maxGroups {
		return nil, p.errorf(pairs[maxGroups].Key, groupHelp, "more than %d groups", maxGroups)
	}
	for _, kv := range pairs {
		key := keyOf(kv)
		if !groupRE.MatchString(key) {
			return nil, p.errorf(kv.Key, "start with a letter a-z; letters, digits, - and _ may follow", "malformed group name %q", key)
		}
		if p.groups[key], err = p.group(key, kv); err != nil {
			return nil, err
		}
		f.names = append(f.names, key)
	}
	for _, key := range f.names {
		if f.groups[key], err = p.resolve(key, nil); err != nil {
			return nil, err
		}
	}
	return f, nil
}

type reader struct {
	name   string
	groups map[string]*group
}

// A group is a list of shapes or a union of other groups.
type group struct {
	shapes []Shape // nil before a union is resolved
	union  []*yamldoc.Node
}

func (p *reader) errorf(n *yamldoc.Node, help, format string, args ...any) error {
	return hint.Errorf(help, "%s: %s", yamldoc.At(p.name, n), fmt.Sprintf(format, args...))
}

// mapping returns the pairs of a mapping, each with another key; what names it in errors.
func (p *reader) mapping(n *yamldoc.Node, what, help string) ([]yamldoc.Pair, error) {
	pairs, ok := yamldoc.Pairs(n)
	if !ok {
		return nil, p.errorf(n, help, "%s is %s", what, yamldoc.TypeName(n))
	}
	first := map[string]*yamldoc.Node{}
	for _, kv := range pairs {
		if n := first[keyOf(kv)]; n != nil {
			return nil, p.errorf(kv.Key, "keep one of the two", "key %q stands twice in %s, first at %s", keyOf(kv), what, yamldoc.At(p.name, n))
		}
		first[keyOf(kv)] = kv.Key
	}
	return pairs, nil
}

func keyOf(kv yamldoc.Pair) string { return kv.Key.Value }

// group reads the value of one key of the file.
func (p *reader) group(key string, kv yamldoc.Pair) (*group, error) {
	g := &group{}
	what := fmt.Sprintf("group %q", key)
	empty := func() error { return p.errorf(kv.Key, groupHelp, "%s is empty", what) }
	if yamldoc.TypeName(kv.Value) == "empty" {
		return nil, empty() // no text, so no place of its own
	}
	if items, ok := yamldoc.Items(kv.Value); ok {
		seen := map[string]bool{}
		for _, item := range items {
			s, err := p.item(item)
			if err != nil {
				return nil, err
			}
			if g.shapes = append(g.shapes, s); seen[s.String()] {
				return nil, p.errorf(item, "give it a weight if it should count for more", "%s holds shape %s twice", what, s)
			}
			seen[s.String()] = true
		}
		if len(g.shapes) == 0 {
			return nil, empty()
		}
		return g, nil
	}
	pairs, err := p.mapping(kv.Value, what, groupHelp)
	if err != nil {
		return nil, err
	}
	for _, kv := range pairs {
		if k := keyOf(kv); k != "union" {
			return nil, p.errorf(kv.Key, groupHelp, "unknown key %q in %s", k, what)
		}
		var ok bool
		if g.union, ok = yamldoc.Items(kv.Value); !ok {
			return nil, p.errorf(kv.Value, groupHelp, "the union of %s is %s, not a list of groups", what, yamldoc.TypeName(kv.Value))
		}
	}
	switch n := len(g.union); {
	case n > maxGroups:
		return nil, p.errorf(g.union[maxGroups], groupHelp, "%s unites more than %d groups", what, maxGroups)
	case n == 0:
		return nil, empty()
	}
	return g, nil
}

// item reads one shape: [M, N] or {shape: [M, N], weight: W, note: "..."}.
func (p *reader) item(n *yamldoc.Node) (Shape, error) {
	s := Shape{Weight: 1}
	if _, ok := yamldoc.Items(n); ok {
		return s, p.sides(n, &s)
	}
	pairs, err := p.mapping(n, "a shape", itemHelp)
	for _, kv := range pairs {
		v := kv.Value
		switch key := keyOf(kv); key {
		case "shape":
			err = p.sides(v, &s)
		case "weight":
			s.Weight, err = p.weight(v)
		case "note":
			if yamldoc.TypeName(v) == yamldoc.Text {
				s.Note = yamldoc.OneLine(v.Value)
			} else {
				err = p.errorf(v, "put quotes around it", "note is %s, not a text", yamldoc.TypeName(v))
			}
		default:
			err = p.errorf(kv.Key, itemHelp, "unknown key %q in a shape", key)
		}
		if err != nil {
			return s, err
		}
	}
	if err == nil && s.M == 0 {
		err = p.errorf(n, itemHelp, "a shape without its key \"shape\"")
	}
	return s, err
}

func (p *reader) sides(n *yamldoc.Node, s *Shape) error {
	items, ok := yamldoc.Items(n)
	if !ok {
		return p.errorf(n, itemHelp, "shape is %s, not [M, N]", yamldoc.TypeName(n))
	}
	if len(items) != 2 {
		return p.errorf(n, itemHelp, "a shape has %d numbers, not 2", len(items))
	}
	for i, side := range []*int64{&s.M, &s.N} {
		n := items[i]
		text := n.Value
		// The library reads whole numbers beyond 64 bits as fractions.
		huge := yamldoc.TypeName(n) == yamldoc.Fraction && strings.Trim(text, "0123456789") == ""
		if yamldoc.TypeName(n) != yamldoc.Whole && !huge {
			return p.errorf(n, sideHelp, "a side is %s, not a whole number", yamldoc.TypeName(n))
		}
		v, err := strconv.ParseInt(text, 0, 64)
		if err != nil || v < 1 || v > MaxSide {
			return p.errorf(n, sideHelp, "side %s is out of range", text)
		}
		*side = v
	}
	return nil
}

func (p *reader) weight(n *yamldoc.Node) (float64, error) {
	const help = "a weight is a number above 0; 1 is the usual one"
	if name := yamldoc.TypeName(n); name != yamldoc.Whole && name != yamldoc.Fraction {
		return 0, p.errorf(n, help, "weight is %s, not a number", name)
	}
	w, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !(w > 0) || math.IsInf(w, 0) {
		return 0, p.errorf(n, help, "weight %s is out of range", n.Value)
	}
	return w, nil
}

// resolve returns the shapes of a group. trail holds the unions above it.
func (p *reader) resolve(key string, trail []string) ([]Shape, error) {
	g := p.groups[key]
	if g.shapes != nil {
		return g.shapes, nil
	}
	trail = append(slices.Clip(trail), key)
	for _, n := range g.union {
		switch name := n.Value; {
		case yamldoc.TypeName(n) != yamldoc.Text:
			return nil, p.errorf(n, groupHelp, "the union of group %q holds %s, not the name of a group", key, yamldoc.TypeName(n))
		case p.groups[name] == nil:
			return nil, p.errorf(n, "a union names groups of the same file", "group %q unites unknown group %q", key, name)
		case slices.Contains(trail, name):
			return nil, p.errorf(n, "take one of them out", "the union goes in a circle: %s", strings.Join(append(trail, name), " -> "))
		}
		s, err := p.resolve(n.Value, trail)
		if err != nil {
			return nil, err
		}
		g.shapes = append(g.shapes, s...)
	}
	g.shapes = collapse(g.shapes)
	return g.shapes, nil
}
