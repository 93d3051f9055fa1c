// Package yamldoc reads YAML files whose every error names file, line and column. Its users
// walk the syntax tree: decoding into structs loses the places.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"normbench/internal/hint"
)

// MaxDepth is how far brackets, and dashes in a line, may nest. The YAML library's memory
// grows with the square of it: 20000 take 0.7 GB, 200 nothing to speak of.
const MaxDepth = 200

// Parse returns the only document of a YAML text, or nil if there is none; name stands for
// the text in errors, which have help as their hint. Repeated keys are no error here, as
// callers can say better what they are. A panic of the YAML library on broken text is an
// error about the text.
func Parse(name string, data []byte, help string) (body ast.Node, err error) {
	if err := CheckDepth(name, data, help); err != nil {
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

// CheckDepth refuses a text that nests deeper than MaxDepth, for who parses it elsewhere.
func CheckDepth(name string, data []byte, help string) error {
	if line, column := tooDeep(data); line > 0 {
		return hint.Errorf(help, "%s:%d:%d: more than %d brackets or dashes in each other", name, line, column, MaxDepth)
	}
	return nil
}

// tooDeep is the first place at which brackets, or dashes of the line, nest deeper than
// MaxDepth, or zeros. What stands in quotes that end on their line, or behind a #, counts for
// nothing.
func tooDeep(data []byte) (line, column int) {
	open := 0
	for text := range bytes.Lines(data) {
		line++
		dashes, leading, quote := 0, true, byte(0)
		for i := 0; i < len(text); i++ {
			c := text[i]
			switch {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case (c == '"' || c == '\'') && bytes.IndexByte(text[i+1:], c) >= 0:
				quote = c
			case c == '#' && (i == 0 || text[i-1] == ' '):
				i = len(text)
			case c == '[' || c == '{':
				open++
			case c == ']' || c == '}':
				open = max(open-1, 0)
			case leading && c == '-':
				dashes++
			}
			if i < len(text) && c != '-' && c != ' ' {
				leading = false
			}
			if open+dashes > MaxDepth {
				return line, utf8.RuneCount(text[:i]) + 1
			}
		}
	}
	return 0, 0
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
