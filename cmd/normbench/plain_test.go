package main

import (
	"bytes"
	"testing"
)

// Controls become one harmless character each, also where a write ends within them.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"abc\tdé\n€ 100%":                      "abc\tdé\n€ 100%",
		"\x1b]0;owned\a\x1b[2J\r\x7f\x00\b":    "?]0;owned??[2J????",
		"a\u009b31mb":                          "a¿31mb",
		"a\u202eb\u2066c\u200fd":               "a…b⁇c…d",
		"\u2026\u2047\u00bf\u20ac\u2080\u0100": "\u2026\u2047\u00bf\u20ac\u2080\u0100",
	} {
		for step := 1; step <= len(text); step++ {
			var b bytes.Buffer
			p := &plain{Writer: &b}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(step, len(rest)):] {
				if n, err := p.Write(rest[:min(step, len(rest))]); n != min(step, len(rest)) || err != nil {
					t.Fatal(n, err)
				}
			}
			if b.String() != want {
				t.Errorf("%q by %d: %q, want %q", text, step, b.String(), want)
			}
		}
	}
}
