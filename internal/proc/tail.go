package proc

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A tail passes text on, but nothing that a terminal would act on, and remembers its last line, or
// that of a Go program's panic.
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

func (t *tail) note(line []byte) {
	if line = bytes.TrimSpace(line); len(line) > 0 && !t.panic {
		t.said = string(line[:min(len(line), 200)])
		t.panic = strings.HasPrefix(t.said, "panic: ") || strings.HasPrefix(t.said, "fatal error: ")
	}
}

// reason is what the text says last of why its writer ends, "" for nothing.
func (t *tail) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(t.part)
	return makePrintable(t.said, "")
}

// makePrintable puts U+FFFD for what a terminal may act on, but for what is in keep.
func makePrintable(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || strings.ContainsRune(keep, r) {
			return r
		}
		return utf8.RuneError
	}, s)
}
