package record

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"

	"normbench/internal/hint"
	"normbench/internal/textfile"
)

const (
	chunkSize = 1 << 19
	maxLine   = 16 << 20 // a line is some 2 KB; beyond this it is another kind of file
)

// An item is what one line of a file says.
type item struct {
	line    int   // from 1
	end     int64 // offset in the file, past the newline
	newline bool  // the line ends with one
	err     error // the line does not decode
	torn    bool  // with err: what a write that was cut short may leave
	ours    bool  // with torn: it looks like a line of a records file
	more    int   // lines of the same append that follow
	of      int   // lines of the append; 0 for one, and in lines of before they were counted

	run    *Run    // of a run line, and of a record once it is resolved
	record *Record // nil of a run line
	// Of the record, as its key has them.
	problem, variant, code string
}

// scan decodes the lines of r on all cores and hands each to each, in the order
// of the file, until it says false. Blank lines are passed over. A line that does
// not decode is an item with err. The error is one of reading.
func scan(r io.Reader, each func(*item) bool) error {
	workers := min(runtime.GOMAXPROCS(0), 8)
	decoders := make(chan *decoder, workers) // that are free
	for range workers {
		decoders <- newDecoder()
	}
	queue := make(chan chan []item, 2*workers) // in the order of the file
	quit := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(quit)
	var readErr error // set before queue is closed
	wg.Go(func() {
		defer close(queue)
		readErr = split(r, func(data []byte, line int, start int64) bool {
			items := make(chan []item, 1)
			select {
			case queue <- items:
			case <-quit:
				return false
			}
			d := <-decoders
			d.chunk = append(d.chunk[:0], data...)
			wg.Go(func() {
				items <- d.items(line, start)
				decoders <- d
			})
			return true
		})
	})
	for items := range queue {
		chunk := <-items
		for i := range chunk {
			if !each(&chunk[i]) {
				return nil
			}
		}
	}
	return readErr
}

// split reads r in chunks that end with a newline, but for the last, until emit
// says false. The data are lent.
func split(r io.Reader, emit func(data []byte, line int, start int64) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, chunkSize), maxLine)
	s.Split(func(data []byte, end bool) (int, []byte, error) {
		n := bytes.LastIndexByte(data, '\n') + 1
		if end {
			n = len(data)
		}
		if n == 0 {
			return 0, nil, nil
		}
		return n, data[:n], nil
	})
	line, start := 1, int64(0)
	for s.Scan() && s.Err() == nil { // what is left before an error of reading is no line
		if !emit(s.Bytes(), line, start) {
			return nil
		}
		line, start = line+bytes.Count(s.Bytes(), []byte("\n")), start+int64(len(s.Bytes()))
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return hint.Errorf("a records file is JSON Lines", "line %d is longer than %d MiB", line,
			maxLine>>20)
	}
	return s.Err()
}

// items decodes the lines of a chunk that begins at a line and an offset of a file.
func (d *decoder) items(line int, at int64) []item {
	items := make([]item, 0, len(d.chunk)/1024+1)
	for l := range bytes.Lines(d.chunk) {
		first := at == 0
		at += int64(len(l))
		it := item{line: line, end: at, newline: l[len(l)-1] == '\n'}
		line++
		if first {
			l = textfile.Unmarked(l)
		}
		if l = bytes.TrimSpace(l); len(l) == 0 {
			continue
		}
		d.decode(&it, l)
		items = append(items, it)
	}
	return items
}

// opening is how a line that this package wrote begins.
const opening = `{"schema":`

// ours says whether damaged text can be of a line that this package wrote, or is the zeros that a
// file system leaves after a power cut.
func ours(l []byte) bool {
	hole := bytes.HasPrefix(l, []byte{0})
	l = bytes.Trim(l, "\x00")
	return hole && bytes.HasSuffix(l, []byte(`"}`)) || bytes.HasPrefix(l, []byte(opening)) ||
		strings.HasPrefix(opening, string(l))
}
