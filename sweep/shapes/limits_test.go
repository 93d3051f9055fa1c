package shapes

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A large file takes time in proportion: 10 MB that hold one shape twice took 57 s.
func TestLimits(t *testing.T) {
	var b strings.Builder
	b.WriteString("default:\n")
	for i := range 30_000 {
		fmt.Fprintf(&b, "- [%d, 64]\n", i+1)
	}
	b.WriteString("- [4, 64]\n")
	start := time.Now()
	_, err := Parse("f", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), `f:30002:3: group "default" holds shape 4x64 twice`) {
		t.Error(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	t.Log(time.Since(start))
	for text, want := range map[string]string{
		"a: [[1, 1]" + strings.Repeat(" ", 5<<20) + "]":                          "f has more than 4 MiB",
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
