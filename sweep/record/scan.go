package record

import (
	"bufio"
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/textfile"
)

const maxLine = 16 << 20 // a line is some 2 KB; beyond this it is another kind of file

// An item is what one line of a file says.
type item struct {
	line    int    // from 1
	end     int64  // offset in the file, past the newline
	newline bool   // the line ends with one
	err     error  // the line does not decode
	torn    bool   // with err: what a write that was cut short may leave
	sum     uint64 // of the line's text
	ours    bool   // with torn: it looks like a line of a records file
	alien   bool   // with err: JSON of somebody else, as this package seals what it writes
	more    int    // lines of the same append that follow
	of      int    // lines of the append; 0 for one, and in lines of before they were counted

	run    *Run    // of a run line, and of a record once it is resolved
	record *Record // nil of a run line
	// Of the record, as its key has them.
	problem, variant, code string
}

// scan decodes the lines of r and hands each to each, in the order of the file, until it says false.
// Blank lines are passed over. A line that does not decode is an item with err. The error is one of
// reading.
func scan(r io.Reader, each func(*item) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	s.Split(func(data []byte, end bool) (int, []byte, error) { // with the newline
		n := bytes.IndexByte(data, '\n') + 1
		if n == 0 && end {
			n = len(data)
		}
		if n == 0 { // there is more to read, or nothing
			return 0, nil, nil
		}
		return n, data[:n], nil
	})
	d, line, at := newDecoder(), 1, int64(0)
	for ; s.Scan() && s.Err() == nil; line++ { // what is left before an error of reading is no line
		l := s.Bytes()
		if at == 0 {
			l = textfile.TrimMark(l)
		}
		at += int64(len(s.Bytes()))
		it := &item{line: line, end: at, newline: bytes.HasSuffix(l, []byte("\n"))}
		if l = bytes.TrimSpace(l); len(l) == 0 {
			continue
		}
		it.sum = maphash.Bytes(sumSeed, l)
		if d.decode(it, l); !each(it) {
			return nil
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return hint.Errorf("a records file is JSON Lines", "line %d is longer than %d MiB", line,
			maxLine>>20)
	}
	return s.Err()
}

var sumSeed = maphash.MakeSeed()

// opening is how a line that this package wrote begins.
const opening = `{"schema":`

// sector is what a disk writes at once, or not at all.
const sector = 512

// isOurs says whether damaged text can be of a line that this package wrote, or is the zeros that a
// file system leaves after a power cut, with what it kept behind them.
func isOurs(l []byte) bool {
	hole := len(l) - len(bytes.TrimLeft(l, "\x00"))
	l = bytes.Trim(l, "\x00")
	return hole >= sector || hole > 0 && bytes.HasSuffix(l, []byte(`"}`)) || bytes.HasPrefix(l, []byte(opening)) ||
		strings.HasPrefix(opening, string(l))
}
