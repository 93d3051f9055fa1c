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

// An item is one line of a file, decoded, or with the error that kept it from that.
type item struct {
	line      int    // from 1
	begin     int64  // offset in the file
	end       int64  // likewise, past the newline
	newline   bool   // the line ends with one
	err       error  // the line does not decode
	torn      bool   // with err: what a write that was cut short may leave
	hash      uint64 // of the line's text
	looksOurs bool   // with torn: it looks like a line of a records file
	foreign   bool   // with err: JSON of somebody else, as this package seals what it writes
	more      int    // lines of the same append that follow
	of        int    // lines of the append; 0 for one, and in lines of before they were counted

	run    *Run    // of a run line, and of a record once it is resolved
	record *Record // nil of a run line
	// Of the record, as its key has them.
	problem, variant, code string
}

// scan decodes the lines of r and calls each for every one, in the order of the file, until it returns
// false. It passes over blank lines. A line that does not decode is an item with err; the returned error
// is one of reading.
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
		begin := at
		at += int64(len(s.Bytes()))
		it := &item{line: line, begin: begin, end: at, newline: bytes.HasSuffix(l, []byte("\n"))}
		if l = bytes.TrimSpace(l); len(l) == 0 {
			continue
		}
		it.hash = maphash.Bytes(sumSeed, l)
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

// linePrefix begins every line that this package writes.
const linePrefix = `{"schema":`

// sector is the number of bytes that a disk writes at once, or not at all.
const sector = 512

// mayBeOurs says whether damaged text may come from a line that this package wrote, or from zeros that a
// file system leaves after a power cut, with the rest of a line behind them.
func mayBeOurs(l []byte) bool {
	hole := len(l) - len(bytes.TrimLeft(l, "\x00"))
	l = bytes.Trim(l, "\x00")
	return hole >= sector || hole > 0 && bytes.HasSuffix(l, []byte(`"}`)) || bytes.HasPrefix(l, []byte(linePrefix)) ||
		strings.HasPrefix(linePrefix, string(l))
}
