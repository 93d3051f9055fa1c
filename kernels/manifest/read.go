package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
)

const (
	fileHelp   = "docs/kernels.md shows a manifest"
	syntaxHelp = "put quotes around an expression that has a colon, a comma or a #"
)

// A reader reads the YAML of one manifest. It walks the syntax tree rather than
// decoding into structs, because every error needs its place and its field.
type reader struct {
	name        string // of the file, for errors
	expressions int    // read so far
}

// maxExpressions bounds the expressions of a manifest: each is evaluated for every config.
const maxExpressions = 500

// place is where n stands; path is the field that it is.
func (r *reader) place(n ast.Node, path string) place { return place{yamldoc.At(r.name, n), path} }

func (r *reader) errorf(n ast.Node, path, help, format string, args ...any) error {
	return hint.Errorf(help, "%s: %s", r.place(n, path), fmt.Sprintf(format, args...))
}

// maxManifest is the most bytes of a manifest.
const maxManifest = 64 << 10

// body is the document of a manifest.
func (r *reader) body(data []byte) (ast.Node, error) {
	if len(data) > maxManifest {
		return nil, hint.Errorf("a manifest has some hundred lines at most", "%s has %d bytes, more than %d", r.name, len(data), maxManifest)
	}
	body, err := yamldoc.Parse(r.name, data, syntaxHelp)
	if err == nil && body == nil {
		err = hint.Errorf(fileHelp, "%s is empty", r.name)
	}
	return body, err
}

// A pair is a key of a mapping and its value.
type pair struct {
	name       string
	key, value ast.Node
}

// pairs are those of a mapping, each key once, in order.
func (r *reader) pairs(n ast.Node, path, help string) ([]pair, error) {
	values, ok := yamldoc.Pairs(n)
	if !ok {
		return nil, r.errorf(n, path, help, "is %s, not a mapping", yamldoc.TypeName(n))
	}
	var ps []pair
	for _, kv := range values {
		s, ok := kv.Key.(*ast.StringNode)
		if !ok {
			return nil, r.errorf(kv.Key, path, help, "has a key that is no word")
		}
		p := pair{yamldoc.OneLine(s.Value), kv.Key, kv.Value}
		if slices.ContainsFunc(ps, func(q pair) bool { return q.name == p.name }) {
			return nil, r.errorf(kv.Key, join(path, p.name), help, "stands twice")
		}
		if p.value == nil || p.value.Type() == ast.NullType { // no text, so no place of its own
			return nil, r.errorf(kv.Key, join(path, p.name), help, "is empty")
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// fields are the pairs of a mapping by name, none but those known; those before
// the semicolon of "name, op; doc" have to be there.
func (r *reader) fields(n ast.Node, path, known string) (map[string]pair, error) {
	required, optional, _ := strings.Cut(known, ";")
	names := func(s string) []string {
		return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
	}
	all := append(names(required), names(optional)...)
	help := "the fields are " + strings.Join(all, ", ")
	ps, err := r.pairs(n, path, help)
	if err != nil {
		return nil, err
	}
	m := map[string]pair{}
	for _, p := range ps {
		if !slices.Contains(all, p.name) {
			return nil, r.errorf(p.key, join(path, p.name), help, "unknown field")
		}
		m[p.name] = p
	}
	for _, name := range names(required) {
		if _, ok := m[name]; !ok {
			return nil, r.errorf(n, join(path, name), help, "is missing")
		}
	}
	return m, nil
}

// list is the items of a sequence.
func (r *reader) list(p pair, path, help string) ([]ast.Node, error) {
	seq, ok := p.value.(*ast.SequenceNode)
	switch {
	case !ok:
		return nil, r.errorf(p.value, path, help, "is %s, not a list", yamldoc.TypeName(p.value))
	case len(seq.Values) == 0:
		return nil, r.errorf(p.value, path, help, "is an empty list")
	}
	for i, n := range seq.Values {
		if n == nil || n.Type() == ast.NullType {
			return nil, r.errorf(p.key, index(path, i), help, "is empty")
		}
	}
	return seq.Values, nil
}

// text is a text in one line.
func (r *reader) text(n ast.Node, path, help string) (string, error) {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	default:
		return "", r.errorf(n, path, help, "is %s, not a text", yamldoc.TypeName(n))
	}
	if s = yamldoc.OneLine(s); s == "" {
		return "", r.errorf(n, path, help, "is an empty text")
	}
	return s, nil
}

// oneOf is one of a few words.
func (r *reader) oneOf(n ast.Node, path string, words ...string) (string, error) {
	help := "use " + strings.Join(words, " or ")
	s, err := r.text(n, path, help)
	if err == nil && !slices.Contains(words, s) {
		err = r.errorf(n, path, help, "unknown %s %q", path[strings.LastIndexByte(path, '.')+1:], s)
	}
	return s, err
}

// bool is true or false; nothing is false.
func (r *reader) bool(n ast.Node, path string) (bool, error) {
	if n == nil {
		return false, nil
	}
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return false, r.errorf(n, path, "write true or false", "is %s, not true or false", yamldoc.TypeName(n))
	}
	return b.Value, nil
}

// number is a whole number as a knob has it.
func (r *reader) number(n ast.Node, path string) (int, error) {
	const help = "a knob's value is a whole number from 0 to 2147483647"
	if _, ok := n.(*ast.IntegerNode); !ok {
		return 0, r.errorf(n, path, help, "is %s, not a whole number", yamldoc.TypeName(n))
	}
	v, err := strconv.ParseInt(n.GetToken().Value, 0, 64)
	if err != nil || v < 0 || v > math.MaxInt32 {
		return 0, r.errorf(n, path, help, "%s is out of range", n.GetToken().Value)
	}
	return int(v), nil
}

// expression compiles a scalar. A number's range is lo to hi, which one without
// variables is held to at once.
func (r *reader) expression(n ast.Node, path string, k kind, known vars, lo, hi int) (*expression, error) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text = n.GetToken().Value
	default:
		return nil, r.errorf(n, path, expressionHelp, "is %s, not an expression", yamldoc.TypeName(n))
	}
	if r.expressions++; r.expressions > maxExpressions {
		return nil, r.errorf(n, path, "split the family", "is one of more than %d expressions", maxExpressions)
	}
	e, err := compile(r.place(n, path), text, k, known)
	if err != nil {
		return nil, err
	}
	e.lo, e.hi = lo, hi
	if !e.reads() {
		_, err = e.value(nil)
		if k == whole {
			_, err = e.int(nil)
		}
	}
	return e, hint.With(err, expressionHelp)
}

// optional is the expression of a field, or nil where there is none.
func (r *reader) optional(f map[string]pair, path, name string, k kind, known vars, lo, hi int) (*expression, error) {
	p, ok := f[name]
	if !ok {
		return nil, nil
	}
	return r.expression(p.value, join(path, name), k, known, lo, hi)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
