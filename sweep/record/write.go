package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"normbench/internal/hint"
	"normbench/kernels"
)

// LockName is the lock file that a writer leaves in a results folder. It is
// empty and need not be checked in; to delete it while nothing writes is safe.
const LockName = ".records.lock"

// A Writer appends to the records file of a results folder. Its methods may be
// called from several goroutines.
type Writer struct {
	mu   sync.Mutex
	name string
	file *os.File
	lock *flock.Flock
	size int64
	keys map[string]kernels.Status
	runs map[string]bool // with a line, by this writer or before
}

// folderHelp is the way out of a folder that cannot be written.
const folderHelp = "choose a folder that you may write to"

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
		return hint.Errorf(folderHelp, "results folder %s: %w", dir, cause(err))
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
		lock: flock.New(filepath.Join(dir, LockName)),
		keys: map[string]kernels.Status{},
		runs: map[string]bool{},
	}
	unpacked := ""
	locked, err := w.lock.TryLock()
	if err != nil {
		return nil, nil, hint.Errorf(folderHelp, "results folder %s: %w", dir, cause(err))
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
				return nil, nil, hint.With(err, folderHelp)
			}
			unpacked = fmt.Sprintf("unpacked %s.gz, as records are appended to %s; pack it again before you check it in", w.name, FileName)
		}
	}
	w.file, err = os.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, hint.Errorf(folderHelp, "records %s: %w", w.name, cause(err))
	}
	if notes, err = w.resume(); err != nil {
		return nil, nil, err
	}
	if unpacked != "" {
		notes = append(notes, unpacked)
	}
	if err := syncDir(dir); err != nil {
		return nil, nil, fmt.Errorf("results folder %s: %w", dir, cause(err))
	}
	return w, notes, nil
}

// unpack makes a records file of its packed form, whole or not at all.
func unpack(name string) error {
	packed, err := open(name + ".gz")
	if err != nil {
		return err
	}
	defer packed.Close()
	t, err := renameio.NewPendingFile(name, renameio.WithPermissions(0o644))
	if err != nil {
		return fmt.Errorf("records %s: %w", name, cause(err))
	}
	defer t.Cleanup()
	if _, err := io.Copy(t, packed); err != nil {
		return fmt.Errorf("records %s.gz: %w", name, cause(err))
	}
	return t.CloseAtomicallyReplace()
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
	newline := true
	notes, err := read(w.file, w.name, true,
		func(d *decoder, r *Record) pair {
			return pair{d.intern(r.Key), kernels.Status(d.intern(string(r.Status)))}
		},
		func(it *item[pair], run *Run) error {
			w.size, newline = it.end, it.newline
			w.runs[run.ID] = true
			if it.run == nil {
				w.keys[it.value.key] = it.value.status
			}
			return nil
		})
	if err != nil {
		return nil, err
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

// Append checks a *Run or *Record and writes its line at once. When Append
// returns nil the line is on disk. A failed write leaves the file as it was. The
// run of a record must have been appended before it.
func (w *Writer) Append(v interface{ CheckValid() error }) error {
	if err := v.CheckValid(); err != nil {
		return err
	}
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("records %s: %w", w.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := v.(*Record); ok && !w.runs[r.Run] {
		return hint.Errorf("append the run before its records", "records %s: run %q has no line", w.name, r.Run)
	}
	if err := w.append(b); err != nil {
		return err
	}
	switch v := v.(type) {
	case *Run:
		w.runs[v.ID] = true
	case *Record:
		w.keys[v.Key] = v.Status
	}
	return nil
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
		return hint.Errorf("is the disk full? the records before this one are safe", "records %s: %w", w.name, cause(err))
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

// syncDir makes a new file's name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
