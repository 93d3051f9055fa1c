package record

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
)

const (
	chunkSize = 1 << 20
	maxLine   = 16 << 20 // a line is some 2 KB; beyond this it is another kind of file
)

// An item is what scan made of one line.
type item[T any] struct {
	line       int   // from 1
	start, end int64 // offsets in the file; end is past the newline
	newline    bool  // the line ends with one
	torn       bool  // with err: what a write that was cut short leaves
	head       head
	run        *Run
	value      T
	err        error
}

// A chunk is a piece of a file that ends with a line.
type chunk[T any] struct {
	data  []byte
	line  int
	start int64
	items chan []item[T]
}

// scan decodes the lines of r on all cores and hands each to each, in the order
// of the file. Blank lines are passed over. take runs beside other takes, each
// with its own decoder. A line that does not decode is an item with err. An error
// of each ends the scan.
func scan[T any](r io.Reader, take func(*decoder, *Record) T, each func(*item[T]) error) error {
	workers := runtime.GOMAXPROCS(0)
	queue := make(chan *chunk[T], 2*workers) // in the order of the file
	work := make(chan *chunk[T], 2*workers)
	quit := make(chan struct{})
	var pool sync.Pool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(quit)

	var readErr error // set before queue is closed
	wg.Go(func() {
		defer close(queue)
		defer close(work)
		readErr = split(r, &pool, func(data []byte, line int, start int64) bool {
			c := &chunk[T]{data, line, start, make(chan []item[T], 1)}
			select {
			case queue <- c:
			case <-quit:
				return false
			}
			select {
			case work <- c:
			case <-quit:
				return false
			}
			return true
		})
	})
	for range workers {
		wg.Go(func() {
			d := newDecoder()
			for c := range work {
				c.items <- decodeChunk(c, d, take)
				pool.Put(&c.data)
			}
		})
	}
	for c := range queue {
		items := <-c.items
		for i := range items {
			if err := each(&items[i]); err != nil {
				return err
			}
		}
	}
	return readErr
}

func decodeChunk[T any](c *chunk[T], d *decoder, take func(*decoder, *Record) T) []item[T] {
	items := make([]item[T], 0, len(c.data)/1024+1)
	at, n := c.start, c.line
	for l := range bytes.Lines(c.data) {
		it := item[T]{line: n, start: at, end: at + int64(len(l)), newline: l[len(l)-1] == '\n'}
		n, at = n+1, it.end
		if it.start == 0 {
			l = textfile.Unmarked(l)
		}
		if l = bytes.TrimSpace(l); len(l) == 0 {
			continue
		}
		var rec *Record
		if it.head, it.run, rec, it.err = d.decode(l); it.err != nil {
			it.torn = errors.Is(it.err, errSyntax) && torn(l, it.newline)
		} else if rec != nil {
			it.value = take(d, rec)
		}
		items = append(items, it)
	}
	return items
}

// opening is how a line that this package wrote begins.
const opening = `{"schema":`

// torn says whether text that is no JSON can be the begin of a line that this
// package wrote, or the zeros that a file system leaves after a power cut. One
// that has all of its end is not torn but damaged.
func torn(l []byte, newline bool) bool {
	if l = bytes.TrimRight(l, "\x00"); len(l) == 0 {
		return true
	}
	ours := bytes.HasPrefix(l, []byte(opening)) || strings.HasPrefix(opening, string(l))
	return ours && !durable.HasSeal(l) && !(newline && l[len(l)-1] == '}')
}

// split reads r in chunks that end with a newline, but for the last, until
// emit says false. Each chunk is a buffer of its own, from pool if it has one.
func split(r io.Reader, pool *sync.Pool, emit func(data []byte, line int, start int64) bool) error {
	get := func() []byte {
		if b, ok := pool.Get().(*[]byte); ok {
			return (*b)[:0]
		}
		return make([]byte, 0, chunkSize)
	}
	buf := get()
	line, start := 1, int64(0)
	for {
		if len(buf) == cap(buf) {
			if cap(buf) >= maxLine {
				return hint.Errorf("a records file is JSON Lines", "line %d is longer than %d MiB", line, maxLine>>20)
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			if len(buf) > 0 {
				emit(buf, line, start)
			}
			return nil
		}
		if err != nil {
			return err
		}
		// A chunk goes out when it is full, or the many short reads of a
		// decompressor would make many small chunks.
		if len(buf) < cap(buf) {
			continue
		}
		cut := bytes.LastIndexByte(buf, '\n') + 1
		if cut == 0 {
			continue
		}
		next := append(get(), buf[cut:]...)
		lines := bytes.Count(buf[:cut], []byte{'\n'})
		if !emit(buf[:cut], line, start) {
			return nil
		}
		line, start, buf = line+lines, start+int64(cut), next
	}
}
