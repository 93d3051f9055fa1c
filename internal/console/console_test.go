package console

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"normbench/internal/assert"
)

// Controls become one harmless character each, also where a write ends within them.
func TestControlsBecomeHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"abc\tdé\n€ 100%":                      "abc\tdé\n€ 100%",
		"\x1b]0;owned\a\x1b[2J\r\x7f\x00\b":    "?]0;owned??[2J????",
		"a\u009b31mb":                          "a¿31mb",
		"a\u202eb\u2066c\u200fd":               "a…b⁇c…d",
		"\u2026\u2047\u00bf\u20ac\u2080\u0100": "\u2026\u2047\u00bf\u20ac\u2080\u0100",
	} {
		for step := 1; step <= len(text); step++ {
			var b bytes.Buffer
			p := &PlainWriter{Writer: &b}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(step, len(rest)):] {
				n, err := p.Write(rest[:min(step, len(rest))])
				assert.Must(t, n == min(step, len(rest)) && err == nil, "%v %v", n, err)
			}
			assert.Equal(t, b.String(), want, text, "by", step)
		}
	}
}

// While a program waits, a line says after five silent seconds what for: the innermost step, as long
// as it lasts. Steps that end sooner say nothing.
func TestLongWaitsSayWhatFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := New(t.Context(), nil, &out)
		s := c.Wait("quick")
		time.Sleep(4 * time.Second)
		s.End()
		time.Sleep(time.Minute)

		s = c.Wait("checking %s", "a")
		time.Sleep(6 * time.Second)
		s.Set("checking b")
		time.Sleep(5 * time.Second)
		inner := c.Wait("opening")
		time.Sleep(11 * time.Second)
		inner.End()
		time.Sleep(4 * time.Second)
		c.Notef("a note")
		time.Sleep(4 * time.Second)
		c.Notef("another")
		time.Sleep(6 * time.Second)
		s.End()
		time.Sleep(time.Minute)
		want := []string{"checking a, for 5 s", "checking b", "opening", "opening, for 9 s",
			"checking b, for 19 s", "a note", "another", "checking b, for 29 s"}
		got := strings.Split(strings.ReplaceAll(strings.TrimSpace(out.String()), "normbench: ", ""),
			"\n")
		assert.Equal(t, strings.Join(got, "; "), strings.Join(want, "; "), got, want)
	})
}

// On a terminal, notes are wrapped at its width and lose nothing. Elsewhere they are one line.
func TestNotesWrapOnATerminalOnly(t *testing.T) {
	text := "hint: " + strings.Repeat("give --samples 6 or more, ", 12) + "and end"
	for _, width := range []int{40, 80, 120} {
		var b bytes.Buffer
		New(t.Context(), nil, Terminal{&b, func() int { return width }}).Notef("%s", text)
		assert.Equal(t, OneLine(b.String()), "normbench: "+text, width, "columns")
		for line := range strings.Lines(b.String()) {
			n := utf8.RuneCountInString(line) - 1
			assert.That(t, n < width, "%d columns: a line of %d: %q", width, n, line)
		}
	}
	var b bytes.Buffer
	New(t.Context(), nil, &b).Notef("%s", text)
	assert.Equal(t, b.String(), "normbench: "+text+"\n", "in a pipe")
}

// On a terminal one line is drawn anew every second, with the count, the rate and the time left, which goes down
// between two counts; it is cut to the width. A note or a table takes its place, and the end of the step clears it.
func TestProgressIsOneLineOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := New(t.Context(), &out, Terminal{&out, func() int { return 60 }})
		drawn := func() string {
			got := strings.ReplaceAll(out.String(), clearCode, "|")
			out.Reset()
			return got
		}
		s := c.Wait("measuring the first problems")
		time.Sleep(2500 * time.Millisecond)
		assert.Equal(t, drawn(), "|normbench: measuring the first problems, for 1 s|normbench: measuring the first problems, for 2 s")
		time.Sleep(7500*time.Millisecond - time.Nanosecond)
		drawn()
		s.Set("")
		s.Reach(Amount{Done: 1, Total: 10, Unit: "problems"})
		c.Notef("a note")
		assert.Equal(t, drawn(), "|normbench: a note\n")
		time.Sleep(2 * time.Second)
		assert.Equal(t, drawn(), "|normbench: [1/10, 6 problems/min, 1m30s left]|normbench: [1/10, 6 problems/min, 1m29s left], for 1 s")
		c.Out.Write([]byte("a table\n"))
		assert.Equal(t, drawn(), "|a table\n")
		// What takes longer than the others so far is not said to be done at once.
		time.Sleep(100 * time.Second)
		_, last, _ := strings.Cut(drawn()[len("|normbench: [1/10, 6 problems/min, 1m28s left], for 2 s")*98:], "|")
		assert.That(t, strings.Contains(last, "left]") && !strings.Contains(last, " 0s left"), "%s", last)
		s.Set("%s", strings.Repeat("long ", 20))
		time.Sleep(time.Second)
		line := drawn()
		assert.That(t, utf8.RuneCountInString(line) == 1+59 && strings.HasSuffix(line, "..."), "%q", line)
		s.End()
		time.Sleep(time.Minute)
		assert.Equal(t, drawn(), "|", "behind the end")
		c.Out.Write([]byte("x"))
		assert.Equal(t, drawn(), "x", "no line is there to clear")
	})
}

// A terminal that cannot clear a line gets the lines of a pipe.
func TestDumbTerminalGetsLinesOfAPipe(t *testing.T) {
	t.Setenv("TERM", "dumb")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := New(t.Context(), nil, Terminal{&out, func() int { return 60 }})
		s := c.Wait("measuring")
		s.Reach(Amount{Done: 3, Unit: "problems", Left: 20 * time.Second})
		time.Sleep(6 * time.Second)
		s.End()
		assert.Equal(t, out.String(), "normbench: [3, 15s left] measuring, for 5 s\n")
	})
}
