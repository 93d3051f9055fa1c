package main

import "io"

// A plain writer lets no control character reach the terminal but newlines and tabs: what is
// printed may come from a records file, a manifest or a worker of a stranger's. Each byte stays
// one byte, so characters that are cut in two between writes are no matter. (JSON and the
// hypertext page have escapes of their own.)
type plain struct {
	io.Writer
	last [2]byte // written before
}

func (p *plain) Write(b []byte) (int, error) {
	var clean []byte // b, copied at the first change
	for i, c := range b {
		to := c
		switch two := p.last; {
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
