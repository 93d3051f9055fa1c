package yamldoc

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func TestDocumentOrAnErrorWithItsPlace(t *testing.T) {
	// want of the error, or of the place of the document
	for _, tt := range []struct{ text, want string }{
		{"a: 1\nb: [2, 3]\n", "f.yaml:1:1"},
		{"# a comment\n---\n  a: 1\n", "f.yaml:3:3"},
		{"- 1\n- 2\n", "f.yaml:1:1"},
		{"", "f.yaml is empty"},
		{"# only a comment\n", "f.yaml is empty"},
		{"a: 1\n---\nb: 2\n", "f.yaml:3:1: a second document"},
		{"a: [1, 2\n", "f.yaml:1:4: did not find expected"},
		{"a: " + strings.Repeat("[", 20000), "f.yaml:1:"},
		{"a: " + strings.Repeat("- ", 3000), "f.yaml:1:4"},
		{"a: \xff", "f.yaml"},
		{"a: b: c\n", "f.yaml:1:5: mapping values are not allowed in this context"},
		{"a: 1\na: 2\n", "f.yaml:1:1"}, // the caller's to say
		{strings.Repeat("# ...................................\n", MaxSize/38+1),
			"f.yaml: YAML of more than 256 KiB"},
	} {
		document, err := Document("f.yaml", []byte(tt.text), "help")
		got := document.At
		if err != nil {
			got = err.Error()
			assert.That(t, hint.Of(err) != "" && !strings.Contains(got, "\n"),
				"%.40q: %q has no hint, or several lines", tt.text, got)
		}
		assert.That(t, got == tt.want || err != nil && strings.HasPrefix(got, tt.want),
			"%.40q: got %q, want %q", tt.text, got, tt.want)
	}
}

// Whatever the text, there is a document, or an error of one line; and no more memory than its
// size explains, which the fuzzer would notice.
func FuzzDocument(f *testing.F) {
	f.Add([]byte("a: [1, 2]\n---\nb: {c: '['}"))
	f.Add([]byte("- - - [[{{"))
	f.Add([]byte("\x00: !!x &a *a\n? \"'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		document, err := Document("f", data, "help")
		if err == nil {
			_, err = document.Entries("help")
		}
		assert.That(t,
			err == nil || !strings.ContainsAny(err.Error(), "\n") && strings.HasPrefix(err.Error(),
				"f"),
			"%v", err)
	})
}

// A mapping keeps its order, its numbers their bounds, and errors in the items of a list have a hint of
// their own.
func TestMapKeepsItsOrder(t *testing.T) {
	type file struct {
		Of OrderedMap[[]WholeNumber] `one:"" min:"1" max:"9" help:"write a list" item:"write 1 to 9"`
	}
	for _, tt := range []struct{ text, want string }{
		{"of: {b: [2, 3], a: 1}", "b=[2 3] a=[1] "},
		{"of: {b: [2, 10]}", "f.yaml:1:13: of.b[1]: 10 is out of range; write 1 to 9"},
		{"of: {b: [2, x]}", "f.yaml:1:13: of.b[1]: is a text, not a whole number; write 1 to 9"},
		{"of: {b: []}", "f.yaml:1:9: of.b: is an empty list; write a list"},
		{"of: {b: 1, b: 2}", "f.yaml:1:12: of.b: stands twice; write a list"},
		{"of: [1]", "f.yaml:1:5: of: is a list, not a mapping; write a list"},
	} {
		document, err := Document("f.yaml", []byte(tt.text), "help")
		assert.NoError(t, err)
		var f file
		got := ""
		if err := document.Decode(&f); err != nil {
			got = err.Error() + "; " + hint.Of(err)
		} else {
			for _, e := range f.Of.Entries {
				var ns []int
				for _, n := range e.Value {
					ns = append(ns, n.N)
				}
				got += fmt.Sprint(e.Key.Text, "=", ns, " ")
			}
		}
		assert.Equal(t, got, tt.want, tt.text)
	}
}

// A mapping over another has the other's order and what it lacks itself, in mappings within it too. Each
// value stays where it stands.
func TestAMapOverAnotherFillsWhatItLacks(t *testing.T) {
	document, err := Document("f.yaml", []byte("under: {a: 1, b: {c: 2, d: 3}, e: [4]}\n"+
		"over: {f: 5, e: [6], b: {g: 7, d: 8}}\ntwice: {a: 1, a: 2}\n"), "help")
	assert.NoError(t, err)
	var f struct{ Under, Over, Twice Value }
	assert.NoError(t, document.Decode(&f))
	v, err := f.Over.Over(f.Under.Without("a"), "help")
	assert.NoError(t, err)
	var leaves func(v Value) string
	leaves = func(v Value) string {
		if text, err := v.Scalar("help", ""); err == nil {
			return text + "@" + strings.TrimPrefix(v.At, "f.yaml:")
		}
		entries, err := v.Entries("help")
		if err != nil {
			items, err := v.Items("help", false)
			assert.NoError(t, err)
			return "[" + leaves(items[0]) + "]"
		}
		text := ""
		for _, e := range entries {
			text += e.Key.Text + "(" + leaves(e.Value) + ")"
		}
		return text
	}
	assert.Equal(t, leaves(v), "b(c(2@1:22)d(8@2:35)g(7@2:29))e([6@2:18])f(5@2:11)")
	assert.Equal(t, leaves(f.Under.Only("a")), "a(1@1:12)")
	_, err = f.Twice.Over(f.Under, "help")
	assert.Error(t, err, "f.yaml:3:15: twice.a: stands twice")
}

// A struct that embeds a Position has the mapping's, and no field of that name.
func TestEmbeddedPositionIsTheMappings(t *testing.T) {
	type item struct {
		Position
		A string
	}
	var f struct{ Of []item }
	document, err := Document("f.yaml", []byte("of: [{a: x}, {a: y}]"), "help")
	assert.NoError(t, err)
	assert.NoError(t, document.Decode(&f))
	assert.Equal(t, f.Of[1], item{Position{"f.yaml:1:14", "of[1]"}, "y"})
	document, err = Document("f.yaml", []byte("of: [{a: x, position: y}]"), "help")
	assert.NoError(t, err)
	assert.Error(t, document.Decode(&f), "f.yaml:1:13: of[0].position: unknown field")
}
