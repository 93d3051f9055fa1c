package record

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	size    int64 // of what this writer has read or written
	written int   // records
	keys    map[string]kernels.Status
	runs    map[string]bool // with a line, by this writer or before
}

// CheckFolder makes a results folder if needed, and refuses one in which no file can be made:
// better known before hours of measuring.
func CheckFolder(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".check-"); err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
	}
	if err != nil {
		return hint.Errorf(durable.Help(err), "results folder %s: %w", dir, cause(err))
	}
	return nil
}

// OpenWriter makes the folder if needed, locks it against other writers and
// opens its records file for appending. A torn last line, the trace of a killed
// run, is cut off, and notes say so; a last line that only lacks its newline is
// whole and gets one. Errors: another writer holds the folder, the folder cannot
// be written, or the file has a bad line elsewhere.
func OpenWriter(dir string) (_ *Writer, notes Notes, err error) {
	if err := CheckFolder(dir); err != nil {
		return nil, nil, err
	}
	w := &Writer{
		name: filepath.Join(dir, FileName),
		lock: openLock(filepath.Join(dir, LockName)),
		keys: map[string]kernels.Status{},
		runs: map[string]bool{},
	}
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
			if err := unpack(w.name); err != nil {
				return nil, nil, hint.With(err, durable.Help(err))
			}
			unpacked = fmt.Sprintf("unpacked %s.gz, as records are appended to %s; pack it again before you check it in", w.name, FileName)
		}
	}
	w.file, err = os.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
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

// openLock is the lock of a folder, which others may share: whoever may write there
// can lock it, also with the lock file of another user, which is opened to be read.
func openLock(name string) *flock.Flock {
	if f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o666); err == nil {
		f.Close()
	}
	return flock.New(name, flock.SetFlag(os.O_RDONLY))
}

// unpack makes a records file of its packed form, whole or not at all.
func unpack(name string) error {
	packed, err := open(name + ".gz")
	if err != nil {
		return err
	}
	defer packed.Close()
	err = durable.WriteFrom(name, packed)
	if err != nil {
		return fmt.Errorf("records %s.gz: %w", name, cause(err))
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
	type pair struct {
		key    string
		status kernels.Status
	}
	newline, old := true, false
	// The lines of an append that is not whole yet, and where they end.
	var part []pair
	end, more := int64(0), 0
	settle := func() {
		for _, p := range part {
			w.keys[p.key] = p.status
		}
		w.size, part = end, part[:0]
	}
	notes, err := read(w.file, w.name, true,
		func(d *decoder, r *Record) pair {
			return pair{d.intern(r.Key), kernels.Status(d.intern(string(r.Status)))}
		},
		func(it *item[pair], run *Run) error {
			if it.head.More != more-1 {
				settle() // of a file that was put together from others
			}
			end, newline, more = it.end, it.newline, it.head.More
			old = old || it.head.Schema < Schema
			w.runs[run.ID] = true
			if it.run == nil {
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
	if old {
		notes = append(notes, fmt.Sprintf("%s has lines of an older schema, which are kept; new ones are of schema %d", w.name, Schema))
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
		if r, ok := v.(*Record); ok && !w.runs[r.Run] {
			return hint.Errorf("append the run before its records", "records %s: run %q has no line", w.name, r.Run)
		}
	}
	if err := w.unchanged(); err != nil {
		return err
	}
	if err := w.append(text); err != nil {
		return err
	}
	for _, v := range vs {
		switch v := v.(type) {
		case *Run:
			w.runs[v.ID] = true
		case *Record:
			w.keys[v.Key] = v.Status
			w.written++
		}
	}
	return nil
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

// Keys returns the keys in the file with the status of the last record of each,
// so that a sweep can skip what it has.
func (w *Writer) Keys() map[string]kernels.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.keys)
}

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
