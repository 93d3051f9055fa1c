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

// Document reads the only document of a YAML text. name stands for the text in errors, which have help
// as their hint. A panic of the YAML library on broken text becomes an error about the text.
func Document(name string, data []byte, help string) (document Value, err error) {
	if len(data) > MaxSize {
		return Value{}, hint.Errorf("keep less in one file",
			"%s: YAML of more than %d KiB", name, MaxSize>>10)
	}
	defer func() {
		if e := recover(); e != nil {
			err = hint.Errorf(help, "%s is not YAML: %s", name, OneLine(fmt.Sprint(e)))
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var d yaml.Node
		err := decoder.Decode(&d)
		var le *yaml.LoadError
		switch {
		case errors.Is(err, io.EOF) && !document.Exists():
			return Value{}, hint.Errorf(help, "%s is empty", name)
		case errors.Is(err, io.EOF):
			return document, nil
		case errors.As(err, &le) && le.Mark.Line > 0:
			at := le.Mark
			if le.ContextMark.Line > 0 { // where what does not end begins
				at = le.ContextMark
			}
			return Value{}, hint.Errorf(help, "%s:%d:%d: %s", name, at.Line, at.Column,
				OneLine(le.Message))
		case err != nil:
			return Value{}, hint.Errorf(help, "%s: %s", name,
				OneLine(strings.TrimPrefix(err.Error(), "yaml: ")))
		case len(d.Content) == 0, isEmpty(d.Content[0]) && d.Content[0].Value == "":
			continue
		case document.Exists():
			return Value{}, hint.Errorf("keep one document per file",
				"%s: a second document", newValue(name, "", d.Content[0]).At)
		}
		document = newValue(name, "", d.Content[0])
	}
}

// isEmpty says whether n is null, or nothing at all.
func isEmpty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" && !isOdd(n) }

// isOdd says whether n is an alias, or has an anchor or a tag of its own.
func isOdd(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0
}

// The types that Value.TypeName tells apart.
const (
	Text     = "a text"
	Whole    = "a whole number"
	Fraction = "a fraction"
	Truth    = "true or false"
	Mapping  = "a mapping"
	List     = "a list"
)

// typeName describes the type of a node in words.
func typeName(n *yaml.Node) string {
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

// OneLine replaces each run of white space by a space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
