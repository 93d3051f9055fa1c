package main

import (
	"bytes"
	"io"

	"normbench/report"
)

// A plain writer lets no control character reach the terminal or a page but newlines and tabs:
// what is printed may come from a records file, a manifest or a worker of a stranger's. Each byte
// stays one byte, so characters that are cut in two between writes are no matter. (JSON has
// escapes of its own.)
type plain struct {
	io.Writer
	last   [2]byte        // written before
	layout *report.Layout // of the tables
}

// Layout is how tables look in it; nil until the flags are read.
func (p *plain) Layout() *report.Layout { return p.layout }

// colored says that b begins with one of the colours of a table, where they are on.
func (p *plain) colored(b []byte) bool {
	if p.layout == nil || !p.layout.Color {
		return false
	}
	for _, c := range []string{"\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m"} {
		if bytes.HasPrefix(b, []byte(c)) {
			return true
		}
	}
	return false
}

func (p *plain) Write(b []byte) (int, error) {
	var clean []byte // b, copied at the first change
	for i, c := range b {
		to := c
		switch two := p.last; {
		case c == 0x1b && p.colored(b[i:]):
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			to = '?'
		case two[1] == 0xc2 && c >= 0x80 && c <= 0x9f: // U+0080 to U+009F, also controls
			to = 0xbf // an inverted question mark
		case two == [2]byte{0xe2, 0x80} && (c == 0x8e || c == 0x8f || c >= 0xaa && c <= 0xae): // these turn the line around
			to = 0xa6 // an ellipsis
		case two == [2]byte{0xe2, 0x81} && c >= 0xa6 && c <= 0xa9:
			to = 0x87 // two question marks
		}
		if to != c && clean == nil {
			clean = append([]byte{}, b...)
		}
		if to != c {
			clean[i] = to
		}
		p.last = [2]byte{p.last[1], to}
	}
	if clean == nil {
		clean = b
	}
	return p.Writer.Write(clean)
}
