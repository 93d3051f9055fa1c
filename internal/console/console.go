// Package console is the person at the terminal: what is printed has no control characters, notes
// are wrapped at the terminal's width, and a wait says what it is for.
package console

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Pause is the time between two lines that tell how far a program is.
const Pause = 5 * time.Second

// A Console is a program's output to a person. Its methods may be called from several goroutines.
type Console struct {
	Out *PlainWriter // standard output
	Raw *ErrorWriter // standard output as it is, for a protocol
	Err io.Writer    // standard error, for notes
	// Quiet leaves out notes and waits; what Sayf prints stays.
	Quiet bool

	ctx   context.Context // after its end no wait is told
	said  sync.Map        // what NoteOnce has said
	noted sync.Mutex
	last  time.Time // of a note
	drawn bool      // the terminal's line has a text
	waits statusStack
}

// New makes the console of a program that ends with ctx.
func New(ctx context.Context, out, err io.Writer) *Console {
	raw := &ErrorWriter{Writer: out}
	c := &Console{Out: &PlainWriter{Writer: raw}, Raw: raw, Err: err, ctx: ctx}
	raw.before = c.clearLine
	return c
}

// Notef prints a note, unless the console is quiet.
func (c *Console) Notef(format string, args ...any) {
	if !c.Quiet {
		c.Sayf(format, args...)
	}
}

// Sayf prints a line even if the console is quiet: on a terminal wrapped at its width, elsewhere in one
// line.
func (c *Console) Sayf(format string, args ...any) {
	w, text := c.Err, fmt.Sprintf("normbench: "+format, args...)
	if t, ok := TerminalOf(w); ok {
		const indent = "  "
		lines := Wrap(text, max(t.Columns()-1, 30)-len(indent))
		w, text = t.Writer, strings.Join(lines, "\n"+indent)
	}
	c.noted.Lock()
	defer c.noted.Unlock()
	c.clearDrawn()
	fmt.Fprintln(&PlainWriter{Writer: w}, text)
	c.last = time.Now()
}

// silence returns the time since the last note.
func (c *Console) silence() time.Duration {
	c.noted.Lock()
	defer c.noted.Unlock()
	return time.Since(c.last)
}

// Notes prints notes.
func (c *Console) Notes(notes []string) {
	for _, n := range notes {
		c.Notef("%s", n)
	}
}

// NoteOnce prints those notes that it has not printed before: several workers, problems or operands may
// have one in common.
func (c *Console) NoteOnce(notes ...string) {
	for _, n := range notes {
		if _, said := c.said.LoadOrStore(n, true); n != "" && !said {
			c.Notef("%s", n)
		}
	}
}

// Count writes a number of things: "1 variant" or "12 variants".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if w, ok := strings.CutSuffix(what, "ry"); ok {
		what = w + "rie"
	} else if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OneLine replaces each run of white space, line breaks too, by a space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// An ErrorWriter keeps the first error of a writer in Lost, because most prints of a program do not
// check theirs. (A closed pipe ends the program.)
type ErrorWriter struct {
	io.Writer
	Lost   error
	before func() // a write
}

func (r *ErrorWriter) Write(b []byte) (int, error) {
	if r.before != nil {
		r.before()
	}
	n, err := r.Writer.Write(b)
	r.Lost = cmp.Or(r.Lost, err)
	return n, err
}

// A Terminal is a writer with a width, which is asked for each time, as windows change.
type Terminal struct {
	io.Writer
	Columns func() int
}

// TerminalOf returns w's terminal; false if it is none.
func TerminalOf(w io.Writer) (Terminal, bool) {
	if r, ok := w.(*ErrorWriter); ok {
		w = r.Writer
	}
	if t, ok := w.(Terminal); ok { // a test's
		return t, true
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Terminal{}, false
	}
	return Terminal{f, func() int {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
		return 80
	}}, true
}

// Wrap breaks text into lines of at most width runes: between words, or in a longer word behind a
// punctuation mark.
func Wrap(text string, width int) []string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(text) {
		if current != "" && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width {
			current += " " + word
			continue
		}
		if current != "" {
			lines = append(lines, current)
		}
		for utf8.RuneCountInString(word) > width {
			r := []rune(word)
			at := width
			if i := strings.LastIndexAny(string(r[:width]), "/@.,=-_"); i > 0 {
				at = utf8.RuneCountInString(string(r[:width])[:i]) + 1
			}
			lines = append(lines, string(r[:at]))
			word = string(r[at:])
		}
		current = word
	}
	if current != "" || len(lines) == 0 {
		lines = append(lines, current)
	}
	return lines
}
