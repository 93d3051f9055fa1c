package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
)

// LockName is the lock file that a writer leaves in a results folder. It is
// empty and need not be checked in; to delete it while nothing writes is safe.
const LockName = ".records.lock"

// A Writer appends to the records file of a results folder. Its methods may be
// called from several goroutines.
type Writer struct {
	mu      sync.Mutex
	name    string
	file    *os.File
	lock    *flock.Flock
	size    int64           // of what this writer has read or written
	written int             // records
	runs    map[string]*Run // with a line, by this writer or before
	records *File
	decoder *decoder // of what was written
}

// CheckFolder makes a results folder below another if needed, and refuses one in which no file
// can be made: better known before hours of measuring.
func CheckFolder(in, below string) error {
	if err := durable.MakeFolder(in, below); err != nil {
		return hint.Errorf(durable.Help(err), "results folder %s: %w", filepath.Join(in, below), cause(err))
	}
	return nil
}

// OpenWriter is OpenWriterBelow of a folder that the user named.
func OpenWriter(dir string) (*Writer, Notes, error) { return OpenWriterBelow(dir, ".") }

// OpenWriterBelow makes the folder if needed, locks it against other writers and
// opens its records file for appending. A torn last line, the trace of a killed
// run, is cut off, and notes say so; a last line that only lacks its newline is
// whole and gets one. Errors: another writer holds the folder, the folder cannot
// be written, a link leads out of the folder that it is below, or the file has a bad line elsewhere.
func OpenWriterBelow(in, below string) (_ *Writer, notes Notes, err error) {
	if err := CheckFolder(in, below); err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(in, below)
	root, err := os.OpenRoot(in)
	if err != nil {
		return nil, nil, hint.Errorf(durable.Help(err), "results folder %s: %w", dir, cause(err))
	}
	defer root.Close()
	if err := lockFile(root, filepath.Join(below, LockName)); err != nil {
		return nil, nil, hint.Errorf(durable.Help(err), "results folder %s: %w", dir, cause(err))
	}
	w := &Writer{
		name:    filepath.Join(dir, FileName),
		lock:    flock.New(filepath.Join(dir, LockName), flock.SetFlag(os.O_RDONLY)),
		runs:    map[string]*Run{},
		decoder: newDecoder(),
	}
	w.records = &File{Path: w.name}
	unpacked := ""
	locked, err := w.lock.TryLock()
	if err != nil {
		return nil, nil, hint.Errorf(durable.Help(err), "results folder %s: %w", dir, cause(err))
	}
	if !locked {
		return nil, nil, hint.Errorf("wait for it to end, or choose another folder", "another sweep is writing to %s", dir)
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if _, err := os.Stat(w.name); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(w.name + ".gz"); err == nil {
			if err := unpack(durable.Place{Root: in, Name: filepath.Join(below, FileName)}); err != nil {
				return nil, nil, hint.With(err, durable.Help(err))
			}
			unpacked = fmt.Sprintf("unpacked %s.gz, as records are appended to %s; pack it again before you check it in", w.name, FileName)
		}
	}
	if st, err := root.Stat(filepath.Join(below, FileName)); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return nil, nil, hint.Errorf("choose another folder", "records %s: it is no file", w.name)
	}
	w.file, err = root.OpenFile(filepath.Join(below, FileName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, hint.Errorf(durable.Help(err), "records %s: %w", w.name, cause(err))
	}
	if notes, err = w.resume(); err != nil {
		return nil, nil, err
	}
	if unpacked != "" {
		notes = append(notes, unpacked)
	}
	if err := durable.SyncDir(dir); err != nil {
		return nil, nil, fmt.Errorf("results folder %s: %w", dir, cause(err))
	}
	return w, notes, nil
}

// HoldFolder waits for others who hold a folder by it, and holds it until release is called. Writers of records are not
// kept out: it is for the few steps of reading a table and writing it again.
func HoldFolder(dir string) (release func(), err error) {
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	if err := l.Lock(); err != nil {
		return nil, hint.Errorf(durable.Help(err), "folder %s: %w", dir, cause(err))
	}
	return func() { l.Close() }, nil
}

// lockFile makes the file that locks a folder, which others may share: whoever may write there
// can lock it, also with the file of another user, which is opened to be read.
func lockFile(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o666)
	if errors.Is(err, fs.ErrExist) {
		_, err := root.Stat(name)
		return err
	}
	if err == nil {
		f.Close()
	}
	return err
}

// unpack makes a records file of its packed form, whole or not at all.
func unpack(p durable.Place) error {
	packed, err := open(p.String() + ".gz")
	if err != nil {
		return err
	}
	defer packed.Close()
	err = p.WriteFrom(packed)
	if err != nil {
		return fmt.Errorf("records %s.gz: %w", p, cause(err))
	}
	return nil
}

// resume collects the keys of an existing file and mends its end.
func (w *Writer) resume() (Notes, error) {
	st, err := w.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("records %s: %w", w.name, cause(err))
	}
	if st.Size() == 0 {
		return nil, nil
	}
	newline := true
	// The lines of an append that is not whole yet, and where they end.
	var part []Entry
	end, more := int64(0), 0
	settle := func() {
		for i := range part {
			w.records.add(&part[i])
		}
		w.size, part = end, part[:0]
	}
	notes, err := read(w.file, w.name, summarize,
		func(it *item[Entry], run *Run) error {
			if it.head.More != more-1 {
				settle() // of a file that was put together from others
			}
			end, newline, more = it.end, it.newline, it.head.More
			if it.run != nil {
				w.begin(run)
			} else {
				it.value.Run = run
				part = append(part, it.value)
			}
			if more == 0 {
				settle()
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if n := len(part); n > 0 {
		newline = true
		notes = append(notes, fmt.Sprintf("%s: dropped the last %d records, of a problem of which the others are missing", w.name, n))
	}
	if st.Size() > w.size {
		if err := w.file.Truncate(w.size); err != nil {
			return nil, fmt.Errorf("records %s: %w", w.name, cause(err))
		}
	}
	if !newline {
		return notes, w.append([]byte{'\n'})
	}
	return notes, nil
}

// begin notes that a run has a line.
func (w *Writer) begin(run *Run) {
	w.runs[run.ID] = run
	w.records.Runs = append(w.records.Runs, run)
}

// Append is AppendAll of one line.
func (w *Writer) Append(v interface{ CheckValid() error }) error { return w.AppendAll(v) }

// AppendAll checks its lines and writes them at once: after a kill or a power cut
// the file has all of them or, to the next writer, none. When AppendAll returns nil
// they are on disk. A failed write leaves the file as it was. The run of a record
// must have been appended before it.
//
// It refuses a file that is no longer what this writer has left: somebody else
// has moved, cut or continued it.
func (w *Writer) AppendAll(vs ...interface{ CheckValid() error }) error {
	var text []byte
	for i, v := range vs {
		if err := v.CheckValid(); err != nil {
			return err
		}
		b, err := encode(v, len(vs)-i-1)
		if err != nil {
			return fmt.Errorf("records %s: %w", w.name, err)
		}
		if len(b) > maxLine {
			return fmt.Errorf("records %s: a line of %d MiB, which could not be read again", w.name, len(b)>>20)
		}
		text = append(text, b...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		if r, ok := v.(*Record); ok && w.runs[r.Run] == nil {
			return hint.Errorf("append the run before its records", "records %s: run %q has no line", w.name, r.Run)
		}
	}
	if err := w.unchanged(); err != nil {
		return err
	}
	if err := w.append(text); err != nil {
		return err
	}
	for l := range bytes.Lines(text) { // as the next reader will see them
		_, run, r, err := w.decoder.decode(bytes.TrimSpace(l))
		switch {
		case err != nil:
			return fmt.Errorf("records %s: what was written cannot be read: %w", w.name, err)
		case run != nil:
			w.begin(run)
		default:
			e := summarize(w.decoder, r)
			e.Run = w.runs[r.Run]
			w.records.add(&e)
			w.written++
		}
	}
	return nil
}

// Unchanged refuses a file that is no longer what this writer has left, as AppendAll does.
func (w *Writer) Unchanged() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unchanged()
}

// unchanged compares the open file with what is under its name.
func (w *Writer) unchanged() error {
	ours, err := w.file.Stat()
	if err != nil {
		return fmt.Errorf("records %s: %w", w.name, cause(err))
	}
	what, where := "", "in it"
	switch there, err := os.Stat(w.name); {
	case err != nil:
		what, where = "was moved or deleted", whereIs(w.file)
	case !os.SameFile(ours, there):
		what, where = "was replaced by another", whereIs(w.file)
	case ours.Size() < w.size:
		what, where = fmt.Sprintf("was cut from %d to %d bytes", w.size, ours.Size()), "in it as far as it goes"
	case ours.Size() > w.size:
		what = fmt.Sprintf("got %d bytes from somebody else", ours.Size()-w.size)
	default:
		return nil
	}
	return hint.Errorf("leave the results folder alone while a sweep runs; the same command goes on from what is there",
		"records %s: the file %s in the meantime; the %d records of this run are %s", w.name, what, w.written, where)
}

// whereIs says where an open file is that is no longer under its name.
func whereIs(f *os.File) string {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	switch {
	case err != nil: // not on Linux
		return "where it went"
	case strings.HasSuffix(at, " (deleted)"):
		return "gone with it"
	}
	return "in " + at
}

func (w *Writer) append(b []byte) error {
	_, err := w.file.Write(b)
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		// Half a line in the middle of the file would spoil it, so what came of
		// this one is taken back. A second failure adds nothing.
		_ = w.file.Truncate(w.size)
		return hint.Errorf(durable.Help(err)+"; the records before this one are safe", "records %s: %w", w.name, cause(err))
	}
	w.size += int64(len(b))
	return nil
}

// Status is that of the last record with a key, so that a sweep can skip what it has.
func (w *Writer) Status(key string) (kernels.Status, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records.Status(key)
}

// Records are those of the file, with what was appended. They are read when nothing is appended any more.
func (w *Writer) Records() *File { return w.records }

// Path is the records file.
func (w *Writer) Path() string { return w.name }

// Close unlocks the folder. The lock file stays: to delete it would let two
// writers lock two different files of one name.
func (w *Writer) Close() error {
	var err error
	if w.file != nil {
		err = w.file.Close()
	}
	return errors.Join(err, w.lock.Close())
}
