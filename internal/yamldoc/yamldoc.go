// Package yamldoc reads YAML files strictly. Every error names file, line and column.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"

	"normbench/internal/hint"
)

// MaxSize is the most bytes of a text. The library's time grows with the size only.
const MaxSize = 256 << 10

// A Node is a value in the tree of a document.
type Node = yaml.Node

// A Pair is a key of a mapping with its value.
type Pair struct{ Key, Value *Node }

// Parse returns the only document of a YAML text, or nil if there is none; name stands for
// the text in errors, which have help as their hint. Repeated keys are no error here, as
// callers can say better what they are. A panic of the YAML library on broken text is an
// error about the text.
func Parse(name string, data []byte, help string) (body *Node, err error) {
	if len(data) > MaxSize {
		return nil, hint.Errorf("keep less in one file",
			"%s: YAML of more than %d KiB", name, MaxSize>>10)
	}
	defer func() {
		if e := recover(); e != nil {
			body, err = nil, hint.Errorf(help, "%s is not YAML: %s", name, OneLine(fmt.Sprint(e)))
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var d Node
		err := decoder.Decode(&d)
		var le *yaml.LoadError
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case errors.As(err, &le) && le.Mark.Line > 0:
			at := le.Mark
			if le.ContextMark.Line > 0 { // where what does not end begins
				at = le.ContextMark
			}
			return nil, hint.Errorf(help, "%s:%d:%d: %s", name, at.Line, at.Column, OneLine(le.Message))
		case err != nil:
			return nil, hint.Errorf(help, "%s: %s", name,
				OneLine(strings.TrimPrefix(err.Error(), "yaml: ")))
		case len(d.Content) == 0, isEmpty(d.Content[0]) && d.Content[0].Value == "":
			continue
		case body != nil:
			return nil, hint.Errorf("keep one document per file",
				"%s: a second document", At(name, d.Content[0]))
		}
		body = d.Content[0]
	}
}

// At is file:line:column of n.
func At(name string, n *Node) string { return fmt.Sprintf("%s:%d:%d", name, n.Line, n.Column) }

// Pairs are the keys and values of a mapping; ok is false of what is none.
func Pairs(n *Node) (pairs []Pair, ok bool) {
	if n.Kind != yaml.MappingNode || isOdd(n) {
		return nil, false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		pairs = append(pairs, Pair{n.Content[i], n.Content[i+1]})
	}
	return pairs, true
}

// Items are the values of a list; ok is false of what is none.
func Items(n *Node) (items []*Node, ok bool) {
	if n.Kind != yaml.SequenceNode || isOdd(n) {
		return nil, false
	}
	return n.Content, true
}

// isEmpty says whether n is null, or nothing at all.
func isEmpty(n *Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" && !isOdd(n) }

// isOdd says whether n is an alias, or has an anchor or a tag of its own.
func isOdd(n *Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0
}

// The types that TypeName tells apart.
const (
	Text     = "a text"
	Whole    = "a whole number"
	Fraction = "a fraction"
	Truth    = "true or false"
	Mapping  = "a mapping"
	List     = "a list"
)

// TypeName says in words what a node is.
func TypeName(n *Node) string {
	switch {
	case isOdd(n):
		return "an anchor, an alias or a tag, which this file does not have"
	case n.Kind == yaml.SequenceNode:
		return List
	case n.Kind == yaml.MappingNode:
		return Mapping
	}
	switch n.Tag {
	case "!!int":
		return Whole
	case "!!float":
		return Fraction
	case "!!bool":
		return Truth
	case "!!null":
		return "empty"
	}
	return Text
}

// OneLine is s with each run of white space as one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
