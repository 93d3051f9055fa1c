package proc

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A tail passes text on without what a terminal would act on. It remembers the last line, or that of a
// Go program's panic.
type tail struct {
	next io.Writer

	mu    sync.Mutex
	part  []byte // of a line
	said  string
	panic bool // said is one
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part = append(t.part, b...)
	for {
		line, rest, ended := bytes.Cut(t.part, []byte("\n"))
		if !ended {
			break
		}
		t.note(line)
		t.part = rest
	}
	t.part = t.part[:min(len(t.part), 4096)]
	if t.next == nil {
		return len(b), nil
	}
	_, err := io.WriteString(t.next, makePrintable(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n\t"))
	return len(b), err
}

// note remembers a line, unless a panic was said before.
func (t *tail) note(line []byte) {
	if line = bytes.TrimSpace(line); len(line) > 0 && !t.panic {
		t.said = string(line[:min(len(line), 200)])
		t.panic = strings.HasPrefix(t.said, "panic: ") || strings.HasPrefix(t.said, "fatal error: ")
	}
}

// reason returns the last line that may say why the process ended, "" if there is none.
func (t *tail) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(t.part)
	return makePrintable(t.said, "")
}

// makePrintable replaces characters that a terminal may act on by U+FFFD, except those in keep.
func makePrintable(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || strings.ContainsRune(keep, r) {
			return r
		}
		return utf8.RuneError
	}, s)
}
