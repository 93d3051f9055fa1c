package record

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"normbench/internal/durable"
	"normbench/internal/hint"
)

// A Place is where a record stands in a file, and its run.
type Place struct {
	Run   *Run
	start int64
	bytes int32
}

// Lines are those of a records file that is open, to be read again by their places.
type Lines struct {
	file *os.File
	temp bool // a copy that has a name still
}

// Index reads a records file as Read does, and keeps it open. take gets each record in turn on some goroutine,
// and each what came of it, in the order of the file, with the record's place. What has no places, packed
// or a pipe, is copied to a temporary file.
func Index[T any](path string, take func(*Record) T, each func(T, Place) error) (_ *Lines, notes Notes, err error) {
	f, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	l := &Lines{file: f.file}
	in := f.Reader
	if f.size == 0 {
		if l.file, err = os.CreateTemp("", "normbench-*.jsonl"); err != nil {
			f.Close()
			return nil, nil, hint.Errorf(durable.Help(err), "a copy of %s: %w", f.name, cause(err))
		}
		l.temp = os.Remove(l.file.Name()) != nil // open files lose their names, but for Windows: a kill leaves nothing
		defer f.Close()
		in = io.TeeReader(in, l.file)
	}
	notes, err = read(in, f.name, func(_ *decoder, r *Record) T { return take(r) }, func(it *item[T], run *Run) error {
		if it.run != nil {
			return nil
		}
		return each(it.value, Place{run, it.start, int32(it.end - it.start)})
	})
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, notes, nil
}

// Records are those at some places.
func (l *Lines) Records(places []Place) ([]*Record, error) {
	d := newDecoder()
	var buf []byte
	rs := make([]*Record, len(places))
	for i, p := range places {
		if int(p.bytes) > cap(buf) {
			buf = make([]byte, 2*p.bytes)
		}
		buf = buf[:p.bytes]
		_, err := l.file.ReadAt(buf, p.start)
		if err == nil {
			_, _, rs[i], err = d.decode(bytes.TrimSpace(buf))
		}
		if err == nil && rs[i] == nil {
			err = fmt.Errorf("it is no record any more")
		}
		if err != nil {
			return nil, hint.Errorf("leave the file alone while it is read", "%s, byte %d: %w", l.file.Name(), p.start, cause(err))
		}
	}
	return rs, nil
}

// Close closes the file, and deletes a copy.
func (l *Lines) Close() error {
	if l.temp {
		defer os.Remove(l.file.Name())
	}
	return l.file.Close()
}
