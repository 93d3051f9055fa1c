package yamldoc

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"normbench/internal/hint"
)

// A Position says where a value is in the file, for errors.
type Position struct {
	At   string // file:line:column
	Path string // "launches[0].grid[1]"; "" of the document
}

func (p Position) String() string {
	if p.Path == "" {
		return p.At + ": the file"
	}
	return p.At + ": " + p.Path
}

// Errorf makes an error at the position, with a hint.
func (p Position) Errorf(help, format string, args ...any) error {
	return hint.Errorf(help, "%s: %s", p, fmt.Sprintf(format, args...))
}

// A Value is a node with its position. The zero Value stands for a field that is not there.
type Value struct {
	Position
	file string
	node *yaml.Node
}

// A Field is a key of a mapping, with its position, and its value.
type Field struct {
	Key   Word
	Value Value
}

// A Word is a text of one line with its position.
type Word struct {
	Position
	Text string
}

// A WholeNumber is a whole number with its position. The tags min and max bound it.
type WholeNumber struct {
	Position
	N int
}

// An OrderedMap is a mapping that keeps the file's order; each value is decoded by the tags of the
// field.
type OrderedMap[T any] struct {
	Position
	Entries []MapEntry[T]
}

// A MapEntry is a key of a mapping and its value.
type MapEntry[T any] struct {
	Key   Word
	Value T
}

// An Unmarshaler is a type that reads itself from a value. The tag is that of its field.
type Unmarshaler interface {
	UnmarshalValue(v Value, tag reflect.StructTag) error
}

// UnmarshalValue implements Unmarshaler.
func (v *Value) UnmarshalValue(w Value, _ reflect.StructTag) error { *v = w; return nil }

// UnmarshalValue implements Unmarshaler.
func (w *Word) UnmarshalValue(v Value, tag reflect.StructTag) (err error) {
	w.Position = v.Position
	w.Text, err = v.word(tag)
	return err
}

// UnmarshalValue implements Unmarshaler.
func (n *WholeNumber) UnmarshalValue(v Value, tag reflect.StructTag) (err error) {
	bounds := [2]int64{math.MinInt64, math.MaxInt64}
	for i, name := range []string{"min", "max"} {
		if s, ok := tag.Lookup(name); ok {
			if bounds[i], err = strconv.ParseInt(s, 10, 64); err != nil {
				return err
			}
		}
	}
	n.Position = v.Position
	n.N, err = v.Int(tag.Get("help"), bounds[0], bounds[1])
	return err
}

// UnmarshalValue implements Unmarshaler.
func (m *OrderedMap[T]) UnmarshalValue(v Value, tag reflect.StructTag) error {
	m.Position = v.Position
	entries, err := v.Entries(tag.Get("help"))
	for _, e := range entries {
		x := MapEntry[T]{Key: e.Key}
		if err := e.Value.DecodeAs(&x.Value, tag); err != nil {
			return err
		}
		m.Entries = append(m.Entries, x)
	}
	return err
}

// word reads a text that fits the tags of its field.
func (v Value) word(tag reflect.StructTag) (string, error) {
	help, field := tag.Get("help"), v.Path[strings.LastIndexByte(v.Path, '.')+1:]
	words, limited := tag.Lookup("of")
	if limited {
		help = "use " + strings.ReplaceAll(words, ",", " or ")
	}
	s, err := v.Text(help)
	switch {
	case err != nil:
		return "", err
	case limited && !slices.Contains(strings.Split(words, ","), s):
		return "", v.Errorf(help, "unknown %s %q", field, s)
	case !regexp.MustCompile(tag.Get("match")).MatchString(s):
		return "", v.Errorf(help, "malformed %s %q", field, s)
	}
	return s, nil
}

func newValue(file, path string, n *yaml.Node) Value {
	return Value{Position{fmt.Sprintf("%s:%d:%d", file, n.Line, n.Column), path}, file, n}
}

// Exists says whether there is a value.
func (v Value) Exists() bool { return v.node != nil }

// TypeName describes the type of the value in words.
func (v Value) TypeName() string { return typeName(v.node) }

// Has says whether v is a mapping with the key.
func (v Value) Has(key string) bool {
	for i := 0; v.TypeName() == Mapping && i < len(v.node.Content); i += 2 {
		if v.node.Content[i].Value == key {
			return true
		}
	}
	return false
}

// Over merges two mappings: v's entries, then those of under that v lacks, in under's order. It merges a
// value that is a mapping in both in the same way.
func (v Value) Over(under Value, help string) (Value, error) {
	own, err := v.Entries(help)
	if err != nil {
		return v, err
	}
	below, err := under.Entries(help)
	if err != nil {
		return v, err
	}
	merged := *v.node
	merged.Content = nil
	add := func(key, value *yaml.Node) { merged.Content = append(merged.Content, key, value) }
	isKey := func(name string) func(Field) bool { return func(e Field) bool { return e.Key.Text == name } }
	for i, e := range below {
		at := slices.IndexFunc(own, isKey(e.Key.Text))
		if at < 0 {
			add(under.node.Content[2*i], e.Value.node)
			continue
		}
		value := own[at].Value
		if value.TypeName() == Mapping && e.Value.TypeName() == Mapping {
			if value, err = value.Over(e.Value, help); err != nil {
				return v, err
			}
		}
		add(v.node.Content[2*at], value.node)
	}
	for i, e := range own {
		if !slices.ContainsFunc(below, isKey(e.Key.Text)) {
			add(v.node.Content[2*i], e.Value.node)
		}
	}
	v.node = &merged
	return v, nil
}

// Without returns the mapping v without some of its keys.
func (v Value) Without(keys ...string) Value {
	return v.filter(func(key string) bool { return !slices.Contains(keys, key) })
}

// Only returns the mapping v with only these keys.
func (v Value) Only(keys ...string) Value {
	return v.filter(func(key string) bool { return slices.Contains(keys, key) })
}

// filter returns the mapping v with the keys that keep accepts.
func (v Value) filter(keep func(key string) bool) Value {
	left := *v.node
	left.Content = nil
	for i := 0; i < len(v.node.Content); i += 2 {
		if keep(v.node.Content[i].Value) {
			left.Content = append(left.Content, v.node.Content[i:i+2]...)
		}
	}
	v.node = &left
	return v
}

// Entries lists the entries of a mapping in order, and refuses a key that comes twice.
func (v Value) Entries(help string) (es []Field, err error) {
	if v.TypeName() != Mapping {
		return nil, v.Errorf(help, "is %s, not a mapping", v.TypeName())
	}
	for i := 0; i < len(v.node.Content); i += 2 {
		key, value := v.node.Content[i], v.node.Content[i+1]
		name := OneLine(key.Value)
		path := strings.TrimPrefix(v.Path+"."+name, ".")
		e := Field{Word{newValue(v.file, path, key).Position, name}, newValue(v.file, path, value)}
		switch {
		case typeName(key) != Text:
			return nil, Position{e.Key.At, v.Path}.Errorf(help, "has a key that is no word")
		case slices.ContainsFunc(es, func(f Field) bool { return f.Key.Text == name }):
			return nil, e.Key.Errorf(help, "stands twice")
		case isEmpty(value):
			return nil, e.Key.Errorf(help, "is empty")
		}
		es = append(es, e)
	}
	return es, nil
}

// Items lists the values of a list. With orOne a value that is no list counts as a list of one.
func (v Value) Items(help string, orOne bool) (items []Value, err error) {
	switch list := v.TypeName() == List; {
	case !list && orOne:
		return []Value{v}, nil
	case !list:
		return nil, v.Errorf(help, "is %s, not a list", v.TypeName())
	case len(v.node.Content) == 0:
		return nil, v.Errorf(help, "is an empty list")
	}
	for i, n := range v.node.Content {
		x := newValue(v.file, fmt.Sprintf("%s[%d]", v.Path, i), n)
		if isEmpty(n) {
			return nil, x.Errorf(help, "is empty")
		}
		items = append(items, x)
	}
	return items, nil
}

// Text returns a text of one line.
func (v Value) Text(help string) (string, error) {
	if v.TypeName() != Text {
		return "", v.Errorf(help, "is %s, not a text", v.TypeName())
	}
	s := OneLine(v.node.Value)
	if s == "" {
		return "", v.Errorf(help, "is an empty text")
	}
	return s, nil
}

// Int returns a whole number, and refuses one that is not from lo to hi.
func (v Value) Int(help string, lo, hi int64) (int, error) {
	if v.TypeName() != Whole {
		return 0, v.Errorf(help, "is %s, not a whole number", v.TypeName())
	}
	n, err := strconv.ParseInt(v.node.Value, 0, 64)
	if err != nil || n < lo || n > hi {
		return 0, v.Errorf(help, "%.40s is out of range", v.node.Value)
	}
	return int(n), nil
}

// Scalar returns the text of a scalar of any type; what names the expected value in the error.
func (v Value) Scalar(help, what string) (string, error) {
	switch name := v.TypeName(); name {
	case Text, Whole, Fraction, Truth:
		return v.node.Value, nil
	default:
		return "", v.Errorf(help, "is %s, not %s", name, what)
	}
}

// Decode fills what to points to: a text, a bool, a list, or a struct whose fields are those of
// a mapping by their names in lower case, and an [Unmarshaler] as it does itself. A field whose
// `yaml` tag is "optional" may be missing; the tag `help` is the hint of errors, `one` says
// that one value may stand for a list of one, `item` is the hint of errors in the items of a list,
// `of` lists the words that a text may be, and a text fits the pattern of `match`.
func (v Value) Decode(to any) error { return v.DecodeAs(to, "") }

// DecodeAs decodes v as a field with these tags.
func (v Value) DecodeAs(to any, tag reflect.StructTag) error {
	return v.decode(reflect.ValueOf(to).Elem(), tag)
}

func (v Value) decode(to reflect.Value, tag reflect.StructTag) error {
	if u, ok := to.Addr().Interface().(Unmarshaler); ok {
		return u.UnmarshalValue(v, tag)
	}
	help := tag.Get("help")
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return v.decode(to.Elem(), tag)
	case reflect.String:
		s, err := v.word(tag)
		to.SetString(s)
		return err
	case reflect.Bool:
		if v.TypeName() != Truth {
			return v.Errorf("write true or false", "is %s, not true or false", v.TypeName())
		}
		to.SetBool(strings.EqualFold(v.node.Value, "true"))
		return nil
	case reflect.Slice:
		_, one := tag.Lookup("one")
		items, err := v.Items(help, one)
		if err != nil {
			return err
		}
		if item, ok := tag.Lookup("item"); ok {
			tag = reflect.StructTag("help:" + strconv.Quote(item) + " " + string(tag)) // the first counts
		}
		to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
		for i, x := range items {
			if err := x.decode(to.Index(i), tag); err != nil {
				return err
			}
		}
		return nil
	}
	return v.fields(to)
}

// fields fills a struct from a mapping: no field twice, none unknown, none missing.
func (v Value) fields(to reflect.Value) error {
	var names, listed []string // names are "" for where the mapping stands, which is no field of a file
	for i := range to.NumField() {
		f := to.Type().Field(i)
		if f.Type == reflect.TypeFor[Position]() {
			to.Field(i).Set(reflect.ValueOf(v.Position))
			names = append(names, "")
			continue
		}
		names = append(names, strings.ToLower(f.Name))
		listed = append(listed, strings.ToLower(f.Name))
	}
	help := "the fields are " + strings.Join(listed, ", ")
	entries, err := v.Entries(help)
	if err != nil {
		return err
	}
	found := make([]bool, len(names))
	for _, e := range entries {
		i := slices.Index(names, e.Key.Text)
		if i < 0 || names[i] == "" {
			return e.Key.Errorf(help, "unknown field")
		}
		found[i] = true
		if err := e.Value.decode(to.Field(i), to.Type().Field(i).Tag); err != nil {
			return err
		}
	}
	for i, name := range names {
		if !found[i] && name != "" && to.Type().Field(i).Tag.Get("yaml") != "optional" {
			p := Position{v.At, strings.TrimPrefix(v.Path+"."+name, ".")}
			return p.Errorf(help, "is missing")
		}
	}
	return nil
}
