package shapes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
a:
  - [1, 2]
  - [0x10, 1_000]
b: [[1, 2], [2147483648, 1]]
both: {union: [b, a]}
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
	union := []Shape{{1, 2}, {1 << 31, 1}, {16, 1000}}
	want := map[string][]Shape{
		"a":      {{1, 2}, {16, 1000}},
		"b":      {{1, 2}, {1 << 31, 1}},
		"both":   union,
		"nested": union,
	}
	assert.Same(t, got, want)
	assert.Same(t, f.Names(), []string{"a", "b", "both", "nested"})
	_, err = f.Group("c")
	assert.That(t, err != nil && err.Error() == `s.yaml has no group "c"` &&
		hint.Of(err) == "its groups: a, b, both, nested", "got %v, hint %q", err, hint.Of(err))
}

func TestParseErrors(t *testing.T) {
	parse := func(text string) string {
		_, err := Parse("s.yaml", []byte(text+"\n"))
		return assert.Refusal(t, err)
	}
	assert.Cases(t, "testdata/errors.txt", parse)
	assert.Equal(t, strings.Split(parse(""), "\n")[0], "s.yaml is empty")
}

// Shapes as a command line gives them: of files, of groups and by themselves.
func TestSelect(t *testing.T) {
	file, err := filepath.Abs("testdata/selections.txt")
	assert.NoError(t, err)
	t.Chdir(t.TempDir())
	text := []byte("default: [[1, 2]]\nwide: [[3, 4], [5, 6]]\n")
	assert.NoError(t, os.WriteFile("mine.yaml", text, 0o644))
	assert.NoError(t, os.WriteFile("plain", text, 0o644))
	assert.Lines(t, file, func(input string) string {
		how, arg, _ := strings.Cut(input, ":")
		read := map[string]func(string) ([]Shape, error){"list": ParseList, "select": Select}[how]
		shapes, err := read(strings.TrimSpace(arg))
		if err != nil {
			return assert.Refusal(t, err)
		}
		return fmt.Sprint(shapes)
	})
}

var positioned = regexp.MustCompile(
	`^f\.yaml(:[0-9]+:[0-9]+: .| has no groups$| is not YAML: .|: .)`)

func FuzzParse(f *testing.F) {
	f.Add(normbench.ShapesYAML)
	f.Add("b: [{shape: [1, 2], note: x}]\na: {union: [b]}\n")
	f.Add("a: &x [[1, 2]]\nb: *x\n<<: *x\n")
	f.Add("? [a]\n: - !!str 7\n--- |\n  x")
	f.Add("a: " + strings.Repeat("{", 300))
	f.Add("\xef\xbb\xbfa: [[1, 2]]\na: [[1, 2]]\n")
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
