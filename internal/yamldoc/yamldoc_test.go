package yamldoc

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func TestDocument(t *testing.T) {
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
