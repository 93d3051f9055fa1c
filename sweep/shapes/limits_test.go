package shapes

import (
	"fmt"
	"strings"
	"testing"
)

// The last line of a large file is read: 10 MB that hold one shape twice took 57 s. What time and memory a
// file may take is yamldoc's, see its TestBounded.
func TestLimits(t *testing.T) {
	var b strings.Builder
	b.WriteString("default:\n")
	for i := range 9_000 {
		fmt.Fprintf(&b, "- [%d, 64]\n", i+1)
	}
	b.WriteString("- [4, 64]\n")
	_, err := Parse("f", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), `f:9002:3: group "default" holds shape 4x64 twice`) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"a: [[1, 1]" + strings.Repeat(" ", 5<<20) + "]":                          "f: YAML of more than 256 KiB",
		"a: [[1, 1]]\nb: {union: [" + strings.Repeat("a, ", maxGroups) + "a]}\n": `group "b" unites more than 1000 groups`,
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	b.Reset()
	for i := range maxGroups + 1 {
		fmt.Fprintf(&b, "g%d: [[1, 1]]\n", i)
	}
	if _, err := Parse("f", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "more than 1000 groups") {
		t.Error(err)
	}
}
