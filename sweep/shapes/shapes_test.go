package shapes

import (
	"os"
	"path/filepath"
	"regexp"

	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"normbench"
	"normbench/internal/assert"
	"normbench/internal/hint"
)

// TestHeldOut: no other group has one of its widths.
func TestHeldOut(t *testing.T) {
	f := Default()
	seen := map[int64]string{}
	for _, name := range f.Names() {
		g, err := f.Group(name)
		assert.NoError(t, err)
		for _, s := range g {
			if name != "held-out" {
				seen[s.N] = name
			}
		}
	}
	g, _ := f.Group("held-out")
	assert.Equal(t, len(g), 33, "shapes")
	for _, s := range g {
		assert.Equal(t, seen[s.N], "", s, "its N")
	}
}

func TestParse(t *testing.T) {
	f, err := Parse("s.yaml", []byte(`
both: {union: [b, a]} # before the groups it names
a:
  - [1, 2]
  - {shape: [0x10, 1_000], note: "a: b"}
b: [{shape: [1, 2], note: c}, [2147483648, 1]]
nested:
  union:
    - both
    - a
`))
	assert.NoError(t, err)
	got := map[string][]Shape{}
	for _, n := range f.Names() {
		got[n], _ = f.Group(n)
	}
	union := []Shape{{1, 2, "c"}, {1 << 31, 1, ""}, {16, 1000, "a: b"}}
	want := map[string][]Shape{
		"a":      {{1, 2, ""}, {16, 1000, "a: b"}},
		"b":      {{1, 2, "c"}, {1 << 31, 1, ""}},
		"both":   union,
		"nested": union,
	}
	assert.Same(t, got, want)
	assert.Same(t, f.Names(), []string{"both", "a", "b", "nested"})
	_, err = f.Group("c")
	assert.That(t, err != nil && err.Error() == `s.yaml has no group "c"` &&
		hint.Of(err) == "its groups: both, a, b, nested", "got %v, hint %q", err, hint.Of(err))
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", `s.yaml is empty`},
		{"a: [[1, 2]]\n---\nb: [[1, 2]]\n", "s.yaml:3:1: a second document"},
		{"- [1, 2]\n", `s.yaml:1:1: the file: is a list, not a mapping`},
		{"hello\n", `s.yaml:1:1: the file: is a text, not a mapping`},
		{"A: [[1, 2]]\n", `s.yaml:1:1: A: malformed group name`},
		{"a: [[1, 2]]\nb: [[1, 2]]\na: [[3, 4]]\n", `s.yaml:3:1: a: stands twice`},
		{"a: []\n", `s.yaml:1:4: a: is an empty list`},
		{"a:\n", `s.yaml:1:1: a: is empty`},
		{"a: 7\n", `s.yaml:1:4: a: is a whole number, not a list`},
		{"a: {unoin: [b]}\n", `s.yaml:1:5: a.unoin: unknown field`},
		{"a: {union: b}\n", `s.yaml:1:12: a.union: is a text, not a list`},
		{"a: {union: [7]}\n", `s.yaml:1:13: a.union[0]: is a whole number, not a text`},
		{"a: {union: [b]}\n", `s.yaml:1:13: a.union[0]: unknown group "b"`},
		{"a: {union: [a]}\n", `s.yaml:1:13: a.union[0]: the union goes in a circle: a -> a`},
		{"a: {union: [b]}\nb:\n  union: [c]\nc: {union: [a]}\n",
			`s.yaml:4:13: c.union[0]: the union goes in a circle: a -> b -> c -> a`},
		{"a: [[1, 2], 7]\n", `s.yaml:1:13: a[1]: is a whole number, not a shape`},
		{"a: [[1]]\n", `s.yaml:1:5: a[0]: has 1 numbers, not 2`},
		{"a: [[1, 2], [1, 2]]\n", `s.yaml:1:13: a[1]: shape 1x2 stands twice`},
		{"a: [[1, b]]\n", `s.yaml:1:9: a[0][1]: is a text, not a whole number`},
		{"a: [[1, 2.0]]\n", `s.yaml:1:9: a[0][1]: is a fraction, not a whole number`},
		{"a: [[0, 2]]\n", `s.yaml:1:6: a[0][0]: 0 is out of range`},
		{"a: [[-1, 2]]\n", `s.yaml:1:6: a[0][0]: -1 is out of range`},
		{"a: [[1, 2147483649]]\n", `s.yaml:1:9: a[0][1]: 2147483649 is out of range`},
		{"a: [[1, 99999999999999999999]]\n",
			`s.yaml:1:9: a[0][1]: is a fraction, not a whole number`},
		{"a: [{shape: [1, 2], weight: 2}]\n", `s.yaml:1:21: a[0].weight: unknown field`},
		{"a: [{note: x}]\n", `s.yaml:1:5: a[0].shape: is missing`},
		{"a: [{shape: [1, 2], shape: [1, 3]}]\n", `s.yaml:1:21: a[0].shape: stands twice`},
		{"a: [{shape: [1, 2], note: 5}]\n",
			`s.yaml:1:27: a[0].note: is a whole number, not a text`},
		{"a: &x [[1, 2]]\nb: *x\n",
			`s.yaml:1:4: a: is an anchor, an alias or a tag, which this file does not have, not a list`},
	} {
		_, err := Parse("s.yaml", []byte(tc.in))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q\n got %v\nwant %s", tc.in, err, tc.want)
		} else if hint.Of(err) == "" {
			t.Errorf("%q: %v has no hint", tc.in, err)
		}
	}
}

func TestParseList(t *testing.T) {
	got, err := ParseList("4096x8192, 256x65536,4096x8192")
	want := []Shape{{4096, 8192, ""}, {256, 65536, ""}}
	diff := cmp.Diff(want, got)
	assert.That(t, diff == "" && err == nil, "%v %v", diff, err)
	for in, want := range map[string]string{
		"":                       `malformed shape ""`,
		"4096":                   `malformed shape "4096"`,
		"4096x":                  `malformed shape "4096x"`,
		"4096x8192x2":            `malformed shape "4096x8192x2"`,
		"1x1,":                   `malformed shape ""`,
		"+1x1":                   `malformed shape "+1x1"`,
		"0x8":                    "shape 0x8 is out of range",
		"8x2147483649":           "shape 8x2147483649 is out of range",
		"99999999999999999999x1": "shape 99999999999999999999x1 is out of range",
		"1x99999999999999999999": "shape 1x99999999999999999999 is out of range",
		"ax99999999999999999999": "shape ax99999999999999999999 is out of range",
	} {
		_, err := ParseList(in)
		assert.That(t, err != nil && err.Error() == want && hint.Of(err) != "",
			"%q: got %v, want %s", in, err, want)
	}
}

func TestSelect(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	text := "default: [[1, 2]]\nwide: [[3, 4], [5, 6]]\n"
	assert.NoError(t, os.WriteFile("mine.yaml", []byte(text), 0o644))
	assert.NoError(t, os.WriteFile("plain", []byte(text), 0o644))
	for arg, want := range map[string]string{
		"smoke":                          "64x256 33x541 16x4096 1x1000",
		"mine.yaml":                      "1x2",
		"plain":                          "1x2",
		"mine.yaml#wide":                 "3x4 5x6",
		filepath.Join(dir, "plain#wide"): "3x4 5x6",
		"7x8":                            "7x8",
		"7x8,9x10":                       "7x8 9x10",
		"mine.yaml#wide, 7x8,plain":      "3x4 5x6 7x8 1x2",
		"smoke,64x256":                   "64x256 33x541 16x4096 1x1000",
	} {
		got, err := Select(arg)
		var s []string
		for _, x := range got {
			s = append(s, x.String())
		}
		assert.That(t, err == nil && strings.Join(s, " ") == want, "%q: got %v, %v", arg, s, err)
	}
	for arg, want := range map[string]string{
		"":               "no shapes are given",
		"#a":             `malformed shapes "#a"`,
		"mine.yaml#":     `malformed shapes "mine.yaml#"`,
		"mine.yaml#tall": `mine.yaml has no group "tall"`,
		"gone.yaml":      "shapes file gone.yaml: no such file or directory",
		"gone.yaml#wide": "shapes file gone.yaml: no such file or directory",
		".":              "shapes file .: is a directory",
		"smokee":         `unknown shapes "smokee"`,
		"smoke,tee":      `unknown shapes "tee"`,
		"smoke,7x":       `malformed shape "7x"`,
		"7x8,":           `malformed shape ""`,
	} {
		_, err := Select(arg)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", arg, err, want)
		} else if hint.Of(err) == "" {
			t.Errorf("%q: no hint", arg)
		}
	}
	_, err := Select("smokee")
	assert.That(t, strings.Contains(hint.Of(err), "smoke, te, fast-llm"),
		"hint %q does not list the groups", hint.Of(err))
}

var positioned = regexp.MustCompile(
	`^f\.yaml(:[0-9]+:[0-9]+: .| has no groups$| is not YAML: .|: .)`)

func FuzzParse(f *testing.F) {
	f.Add(normbench.ShapesYAML)
	f.Add("a: {union: [b]}\nb: [{shape: [1, 2], note: x}]\n")
	f.Add("a: &x [[1, 2]]\nb: *x\n<<: *x\n")
	f.Add("? [a]\n: - !!str 7\n--- |\n  x")
	f.Add("a: " + strings.Repeat("{", 300))
	f.Add("\xef\xbb\xbfa: [[1, 2]]\na: [[1, 2]]\n")
	f.Add("a: [{shape: [8, 64], note: \"\\e[2J<script>\"}]\n")
	f.Add("a: [" + strings.Repeat("[4, 64], ", 500) + "[4, 64]]\n")
	f.Fuzz(func(t *testing.T, in string) {
		file, err := Parse("f.yaml", []byte(in))
		if err != nil {
			assert.Must(t, positioned.MatchString(err.Error()) &&
				!strings.Contains(err.Error(), "\n"), "error %q", err)
			return
		}
		for _, n := range file.Names() {
			g, err := file.Group(n)
			assert.Must(t, err == nil && len(g) != 0, "group %q: %v %v", n, g, err)
			for _, s := range g {
				assert.Must(t, s.M >= 1 && s.N >= 1 && s.M <= MaxSide && s.N <= MaxSide,
					"group %q holds %+v", n, s)
			}
		}
	})
}
