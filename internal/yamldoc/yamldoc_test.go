package yamldoc

import (
	"strings"
	"testing"

	"normbench/internal/hint"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, want string }{ // want of the error, or of the place of the document
		{"a: 1\nb: [2, 3]\n", "f.yaml:1:1"},
		{"# a comment\n---\n  a: 1\n", "f.yaml:3:3"},
		{"- 1\n- 2\n", "f.yaml:1:1"},
		{"", "nothing"},
		{"# only a comment\n", "nothing"},
		{"a: 1\n---\nb: 2\n", "f.yaml:3:1: a second document"},
		{"a: [1, 2\n", "f.yaml:1:4: did not find expected"},
		{"a: " + strings.Repeat("[", 20000), "f.yaml:1:"},
		{"a: \xff", "f.yaml"},
		{"a: b: c\n", "f.yaml:1:5: mapping values are not allowed in this context"},
		{"a: 1\na: 2\n", "f.yaml:1:1"}, // the caller's to say
		{strings.Repeat("# ...................................\n", MaxSize/38+1), "f.yaml: YAML of more than 256 KiB"},
	} {
		body, err := Parse("f.yaml", []byte(tt.text), "help")
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
			if hint.Of(err) == "" || strings.Contains(got, "\n") {
				t.Errorf("%.40q: %q has no hint, or several lines", tt.text, got)
			}
		case body != nil:
			got = At("f.yaml", body)
		}
		if got != tt.want && !(err != nil && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%.40q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestNodes(t *testing.T) {
	body, err := Parse("f", []byte("text: a\nnumber: 3\nfraction: 0.5\nbool: yes\ntrue: true\nempty:\nlist: [1]\nmapping: {a: 1}\none:\n  a: 1\nanchor: &x 1\nalias: *x\ntag: !t 1\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	pairs, ok := Pairs(body)
	if !ok {
		t.Fatal("no mapping")
	}
	const alias = "an anchor, an alias or a tag, which this file does not have"
	want := []string{"a text", "a whole number", "a fraction", "a text", "true or false", "empty", "a list", "a mapping", "a mapping", alias, alias, alias}
	for i, kv := range pairs {
		if got := TypeName(kv.Value); got != want[i] {
			t.Errorf("%s is %s, want %s", kv.Key.Value, got, want[i])
		}
	}
	if p, ok := Pairs(pairs[8].Value); !ok || len(p) != 1 {
		t.Errorf("a mapping of one key: %v, %v", p, ok)
	}
	if _, ok := Pairs(pairs[6].Value); ok {
		t.Error("a list has pairs")
	}
	if got := OneLine(" a\n\tb  c "); got != "a b c" {
		t.Errorf("%q", got)
	}
}

// Whatever the text, there is a document, nothing, or an error of one line; and no more
// memory than its size explains, which the fuzzer would notice.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a: [1, 2]\n---\nb: {c: '['}"))
	f.Add([]byte("- - - [[{{"))
	f.Add([]byte("\x00: !!x &a *a\n? \"'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := Parse("f", data, "help")
		switch {
		case err != nil:
			if body != nil || strings.ContainsAny(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "f") {
				t.Errorf("%v, %q", body, err)
			}
		case body != nil:
			At("f", body)
			TypeName(body)
			if pairs, ok := Pairs(body); ok {
				for _, kv := range pairs {
					At("f", kv.Key)
				}
			}
		}
	})
}
