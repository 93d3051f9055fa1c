package shapes

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"normbench"
	"normbench/internal/assert"
)

// TestHeldOutWidthsAreOfNoOtherGroup: no other group has one of its widths, but that whose widths are of models.
func TestHeldOutWidthsAreOfNoOtherGroup(t *testing.T) {
	f := Default()
	seen := map[int64]string{}
	for _, name := range f.Names() {
		g, err := f.Group(name)
		assert.NoError(t, err)
		for _, s := range g {
			if name != "held-out" && name != "real-widths" {
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

func TestMistakeInShapesHasItsPlace(t *testing.T) {
	parse := func(text string) string {
		_, err := Parse("s.yaml", []byte(text+"\n"))
		return assert.Refusal(t, err)
	}
	assert.Cases(t, "testdata/errors.txt", parse)
	assert.Equal(t, strings.Split(parse(""), "\n")[0], "s.yaml is empty")
}

// Shapes as a command line gives them: of files, of groups and by themselves.
func TestSelectTakesFilesGroupsAndShapes(t *testing.T) {
	file, err := filepath.Abs("testdata/selections.txt")
	assert.NoError(t, err)
	t.Chdir(t.TempDir())
	text := "default: [[1, 2]]\nwide: [[3, 4], [0x10, 1_000]]\ntall: [[1, 2], [2147483648, 1]]\n" +
		"both: {union: [tall, wide]}\nnested:\n  union:\n    - both\n    - wide\n"
	assert.Write(t, "mine.yaml", text)
	assert.Write(t, "plain", text)
	assert.Lines(t, file, func(input string) string {
		how, arg, _ := strings.Cut(input, ":")
		arg = strings.TrimSpace(arg)
		var got any
		var err error
		switch how {
		case "list":
			got, err = ParseList(arg)
		case "select":
			got, err = Select(arg)
		case "domain":
			got, err = ParseDomain(arg)
		}
		if err != nil {
			return assert.Refusal(t, err)
		}
		return fmt.Sprint(got)
	})
}

var positioned = regexp.MustCompile(
	`^f\.yaml(:[0-9]+:[0-9]+: .| has no groups$| is empty$| is not YAML: .|: .)`)

func FuzzParse(f *testing.F) {
	f.Add(normbench.ShapesYAML)
	f.Add("\r")
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
