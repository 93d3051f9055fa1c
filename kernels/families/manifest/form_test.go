package manifest_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"go.yaml.in/yaml/v4"

	"normbench/internal/assert"
	"normbench/kernels"
)

// A conditions finds conditional expressions within another's condition or values.
type conditions struct{ nested bool }

// Visit implements ast.Visitor. The inner ones come first.
func (c *conditions) Visit(n *ast.Node) {
	if outer, ok := (*n).(*ast.ConditionalNode); ok {
		for _, part := range []ast.Node{outer.Cond, outer.Exp1, outer.Exp2} {
			inner := &oneCondition{}
			ast.Walk(&part, inner)
			c.nested = c.nested || inner.found
		}
	}
}

// A oneCondition finds a conditional expression.
type oneCondition struct{ found bool }

func (c *oneCondition) Visit(n *ast.Node) {
	if _, ok := (*n).(*ast.ConditionalNode); ok {
		c.found = true
	}
}

// identifiers are the names in an expression.
type identifiers struct{ names []string }

func (i *identifiers) Visit(n *ast.Node) {
	if name, ok := (*n).(*ast.IdentifierNode); ok {
		i.names = append(i.names, name.Value)
	}
}

// texts gives each what may be an expression in a node, and each key of a mapping.
func texts(n *yaml.Node, text, key func(string)) {
	for i, part := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			key(part.Value)
			continue
		}
		of := ""
		if n.Kind == yaml.MappingNode {
			of = n.Content[i-1].Value
		}
		switch {
		case slices.Contains([]string{"doc", "origin", "reason", "source", "entry", "dtype", "triton"}, of):
		case of == "args" && part.Kind == yaml.SequenceNode: // buffers, beside numbers
			for _, a := range part.Content {
				texts(a, text, func(string) {})
			}
		case of == "args":
			texts(part, func(s string) {
				if s != "w" { // the tensor
					text(s)
				}
			}, func(string) {})
		case part.Kind == yaml.ScalarNode:
			text(part.Value)
		default:
			texts(part, text, key)
		}
	}
}

// Our manifests and the examples are what a user reads first: knobs have their long names, a value that
// depends on several conditions is a list of cases, and no line is wider than 100 columns.
func TestOurManifestsAreWrittenToBeRead(t *testing.T) {
	ours, err := filepath.Glob("../*.yaml")
	assert.NoError(t, err)
	examples, err := filepath.Glob("../../../examples/*/*.yaml")
	assert.NoError(t, err)
	public, err := filepath.Glob("../../../examples/public/*/*.yaml")
	assert.Must(t, err == nil && len(ours) > 10 && len(examples) > 2 && len(public) > 20, "%q, %q, %q, %v", ours,
		examples, public, err)
	for _, name := range slices.Concat(ours, examples, public) {
		data := assert.File(t, name)
		for i, line := range strings.Split(string(data), "\n") {
			assert.That(t, len(line) <= 100, "%s:%d has %d columns", name, i+1, len(line))
		}
		var document yaml.Node
		assert.NoError(t, yaml.Unmarshal(data, &document))
		short := func(s string) {
			k, err := kernels.FindKnob(s)
			assert.That(t, err != nil || s != k.Key, "%s: %s is the key of %+v", name, s, k)
		}
		texts(&document, func(s string) {
			tree, err := parser.Parse(s)
			if err != nil {
				return // a name with a slash, a literal of Python's
			}
			c, i := &conditions{}, &identifiers{}
			ast.Walk(&tree.Node, c)
			ast.Walk(&tree.Node, i)
			assert.That(t, !c.nested, "%s: a condition within another in %q", name, s)
			for _, of := range i.names {
				short(of)
			}
		}, short)
	}
}
