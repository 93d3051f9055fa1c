package yamldoc

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"

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
		{"a: [1, 2\n", "f.yaml:1:4: "},
		{"a: " + strings.Repeat("[", 201), "f.yaml:1:204: more than 200 brackets or dashes in each other"},
		{"a:\n  " + strings.Repeat("- ", 300), "f.yaml:2:403: more than 200"},
		{strings.Repeat("[\n", 300), "f.yaml:201:1: "},
		{"a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "f.yaml:1:1"},
		{"a: [" + strings.Repeat("[1, 2], ", 5000) + "[1, 2]]", "f.yaml:1:1"},
		{"a: '" + strings.Repeat("[", 500) + "' # " + strings.Repeat("{", 500), "f.yaml:1:1"},
		{"a: x" + strings.Repeat("-", 500), "f.yaml:1:1"},
		{"a: 1\na: 2\n", "f.yaml:1:1"}, // the caller's to say
		{strings.Repeat("# ...................................\n", MaxSize/38+1), "f.yaml: YAML of more than 256 KiB"},
		{strings.Repeat("#\n", MaxLines) + "a: 1\n", "f.yaml:10001:1: more than 10000 lines"},
		{"\n  " + strings.Repeat("a", MaxWord+1) + ": 1\n", "f.yaml:2:4099: a word of more than 4096 bytes"},
		{strings.Repeat("a", MaxWord-1) + ": 1\n", "f.yaml:1:1"},
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

// TestBounded: what Check lets through costs the YAML library no more than a moderate multiple of its
// size. The library's memory is what grew with the square of keys and words, and its time with it.
func TestBounded(t *testing.T) {
	fill := func(before, each, after string) []byte {
		var b strings.Builder
		for b.WriteString(before); b.Len() < 2*MaxSize; {
			b.WriteString(strings.ReplaceAll(each, "N", strconv.Itoa(b.Len())))
		}
		return append([]byte(b.String()), after...)
	}
	for name, text := range map[string][]byte{
		"groups":   fill("", "aN: [[1, 1]]\n", ""),
		"no group": fill("", "aN:\n", ""),
		"a key":    fill("", "a", ": 1\n"),
		"a word":   fill("a: ", "a", ""),
		"pairs":    fill("a: [", "[1, 1], ", "]"),
		"maps":     fill("a: [", "{shape: [1, 1]}, ", "]"),
	} {
		for Check("f", text) != nil {
			text = text[:len(text)*15/16]
		}
		if end := bytes.LastIndexByte(text, '\n'); end > 0 {
			text = text[:end]
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Parse("f", text, "help"); err != nil && name[0] != 'a' && name != "pairs" && name != "maps" {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 800<<20 {
			t.Errorf("%s: %d bytes make %d MiB", name, len(text), used>>20)
		}
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb:\n- x y\n- {c: 0.5, d: [true, ~, \"1\"]}\ne: |\n  f\n": `{"a":1,` + "\n" + `"b":` + "\n" + `["x y",` + "\n" + `{"c":0.5,"d":[true,null,"1"]}],` + "\n" + `"e":"f\n"}`,
		"a: 1\nb: {c: 1,\n  c: 2}\n":                                    "f:3:3: the field c stands twice",
		"a: &x 1\n":                                                     "f:1:4: an anchor, an alias or a tag, which this file does not have",
		"1: a\n":                                                        "f:1:1: the key 1 is no text",
		"a: .inf\n":                                                     "f:1:4: .inf is no number of JSON",
		"a: 1\n---\nb: 2\n":                                             "f:3:1: a second document",
		"# nothing\n":                                                   "f: nothing in it",
	} {
		got, err := JSON("f", []byte(text), "help")
		if err != nil {
			if got = []byte(err.Error()); hint.Of(err) == "" {
				t.Errorf("%s has no hint", got)
			}
		}
		if string(got) != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
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
			t.Errorf("%s is %s, want %s", kv.Key, got, want[i])
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
			if j, err := JSON("f", data, "help"); err == nil && !json.Valid(j) {
				t.Errorf("%q", j)
			}
			At("f", body)
			TypeName(body)
			if pairs, ok := Pairs(body); ok {
				for _, kv := range pairs {
					At("f", ast.Node(kv))
				}
			}
		}
	})
}
