package console

import (
	"bytes"
	"io"
)

// A PlainWriter replaces control characters except newlines and tabs before they reach a terminal or a
// page: what is printed may come from a stranger's records, manifest or worker. Each byte stays one
// byte, so characters that are cut in two between writes do not matter. (JSON has escapes of its own.)
type PlainWriter struct {
	io.Writer
	Color bool    // the colours of tables pass
	last  [2]byte // written before
}

// colors says whether b begins with a colour that tables use.
func colors(b []byte) bool {
	for _, c := range []string{"\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m"} {
		if bytes.HasPrefix(b, []byte(c)) {
			return true
		}
	}
	return false
}

func (p *PlainWriter) Write(b []byte) (int, error) {
	clean := bytes.Clone(b)
	for i, c := range b {
		switch two := p.last; {
		case c == 0x1b && p.Color && colors(b[i:]):
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			clean[i] = '?'
		case two[1] == 0xc2 && c >= 0x80 && c <= 0x9f: // U+0080 to U+009F, also controls
			clean[i] = 0xbf // an inverted question mark
		case two == [2]byte{0xe2, 0x80} && (c == 0x8e || c == 0x8f || c >= 0xaa && c <= 0xae):
			clean[i] = 0xa6 // an ellipsis, for what turns the line around
		case two == [2]byte{0xe2, 0x81} && c >= 0xa6 && c <= 0xa9:
			clean[i] = 0x87 // two question marks
		}
		p.last = [2]byte{p.last[1], clean[i]}
	}
	return p.Writer.Write(clean)
}
