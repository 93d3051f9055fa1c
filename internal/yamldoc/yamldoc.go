// Package yamldoc reads YAML files whose every error names file, line and column. Its users
// walk the syntax tree: decoding into structs loses the places.
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"normbench/internal/hint"
)

// Limits of a text. The time and memory of the YAML library grow with the square of the depth (of
// brackets, and of dashes in a line), of the keys of a mapping, and of the length of a word. Real files
// stay far below these limits.
const (
	MaxSize  = 256 << 10 // bytes
	MaxLines = 10_000
	MaxWord  = 4 << 10 // bytes without a blank, a comma or a bracket
	MaxDepth = 200
)

// Parse returns the only document of a YAML text, or nil if there is none; name stands for
// the text in errors, which have help as their hint. Repeated keys are no error here, as
// callers can say better what they are. A panic of the YAML library on broken text is an
// error about the text.
func Parse(name string, data []byte, help string) (body ast.Node, err error) {
	if err := Check(name, data); err != nil {
		return nil, err
	}
	defer func() {
		if e := recover(); e != nil {
			body, err = nil, hint.Errorf(help, "%s is not YAML: %s", name, OneLine(fmt.Sprint(e)))
		}
	}()
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	var ye yaml.Error
	if errors.As(err, &ye) {
		at := name
		if t := ye.GetToken(); t != nil && t.Position != nil {
			at = fmt.Sprintf("%s:%d:%d", name, t.Position.Line, t.Position.Column)
		}
		return nil, hint.Errorf(help, "%s: %s", at, OneLine(ye.GetMessage()))
	}
	if err != nil {
		return nil, hint.Errorf(help, "%s: %s", name, OneLine(err.Error()))
	}
	for _, d := range tree.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			return nil, hint.Errorf("keep one document per file", "%s: a second document", At(name, d.Body))
		}
		body = d.Body
	}
	return body, nil
}

const lessHelp = "keep less in one file"

// Check refuses a text that is too large to be parsed in moderate time.
func Check(name string, data []byte) error {
	if len(data) > MaxSize {
		return hint.Errorf(lessHelp, "%s: YAML of more than %d KiB", name, MaxSize>>10)
	}
	if line, column, why := tooMuch(data); line > 0 {
		return hint.Errorf(lessHelp, "%s:%d:%d: %s", name, line, column, why)
	}
	return nil
}

// tooMuch is the first place at which a text has more than it may, and of what; or zeros. A bracket in
// quotes that end on their line, or behind a #, does not nest.
func tooMuch(data []byte) (line, column int, why string) {
	open := 0
	for text := range bytes.Lines(data) {
		if line++; line > MaxLines {
			return line, 1, fmt.Sprintf("more than %d lines", MaxLines)
		}
		dashes, word, quote, leading, comment := 0, 0, byte(0), true, false
		for i, c := range text {
			if word++; strings.IndexByte(" \t\r\n,[]{}", c) >= 0 {
				word = 0
			}
			switch {
			case comment:
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case (c == '"' || c == '\'') && bytes.IndexByte(text[i+1:], c) >= 0:
				quote = c
			case c == '#' && (i == 0 || text[i-1] == ' '):
				comment = true
			case c == '[' || c == '{':
				open++
			case c == ']' || c == '}':
				open = max(open-1, 0)
			case leading && c == '-':
				dashes++
			}
			if c != '-' && c != ' ' {
				leading = false
			}
			switch {
			case open+dashes > MaxDepth:
				why = fmt.Sprintf("more than %d brackets or dashes in each other", MaxDepth)
			case word > MaxWord:
				why = fmt.Sprintf("a word of more than %d bytes", MaxWord)
			default:
				continue
			}
			return line, utf8.RuneCount(text[:i]) + 1, why
		}
	}
	return 0, 0, ""
}

// At is file:line:column of n, of a mapping those of its first key; name where n has no place.
func At(name string, n ast.Node) string {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d:%d", name, t.Position.Line, t.Position.Column)
	}
	return name
}

// Pairs are the keys and values of a mapping; ok is false of what is none.
func Pairs(n ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// JSON is the only document of a YAML text as JSON, with each value on the line that it has in the text, so
// that what is said of a line of the one holds for the other. A repeated key, an anchor, an alias and a tag
// are errors.
func JSON(name string, data []byte, help string) ([]byte, error) {
	body, err := Parse(name, data, help)
	if err == nil && body == nil {
		err = hint.Errorf(help, "%s: nothing in it", name)
	}
	if err != nil {
		return nil, err
	}
	w := jsonWriter{name: name, help: help, line: 1}
	err = w.value(body)
	return w.Bytes(), err
}

type jsonWriter struct {
	bytes.Buffer
	name, help string
	line       int
}

func (w *jsonWriter) value(n ast.Node) error {
	if t := n.GetToken(); t != nil && t.Position != nil {
		if pairs, ok := Pairs(n); ok && len(pairs) > 0 { // whose own token is a colon
			t = pairs[0].Key.GetToken()
		}
		for ; w.line < t.Position.Line; w.line++ {
			w.WriteByte('\n')
		}
	}
	if pairs, ok := Pairs(n); ok {
		w.WriteByte('{')
		seen := map[string]bool{}
		for i, kv := range pairs {
			key, ok := kv.Key.(*ast.StringNode)
			if !ok {
				return hint.Errorf(w.help, "%s: the key %.40s is no text", At(w.name, kv.Key), OneLine(kv.Key.String()))
			}
			if seen[key.Value] {
				return hint.Errorf("delete one of the two: which of them counts cannot be told", "%s: the field %s stands twice", At(w.name, kv.Key), key.Value)
			}
			seen[key.Value] = true
			if i > 0 {
				w.WriteByte(',')
			}
			if err := errors.Join(w.value(key), w.WriteByte(':'), w.value(kv.Value)); err != nil {
				return err
			}
		}
		return w.WriteByte('}')
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		w.WriteByte('[')
		for i, x := range n.Values {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := w.value(x); err != nil {
				return err
			}
		}
		return w.WriteByte(']')
	case *ast.LiteralNode:
		return w.scalar(n, n.Value.Value)
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.BoolNode, *ast.NullNode:
		return w.scalar(n, n.(ast.ScalarNode).GetValue())
	}
	return hint.Errorf(w.help, "%s: %s", At(w.name, n), TypeName(n))
}

func (w *jsonWriter) scalar(n ast.Node, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return hint.Errorf(w.help, "%s: %s is no number of JSON", At(w.name, n), OneLine(n.String()))
	}
	w.Write(b)
	return nil
}

// TypeName says in words what a node is.
func TypeName(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode:
		return "a whole number"
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a fraction"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "empty"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return "an anchor, an alias or a tag, which this file does not have"
	}
	return "of an unexpected type"
}

// OneLine is s with each run of white space as one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
