package record

import (
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
	"normbench/internal/textfile"
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
	file    *durable.WatchedFile
	lock    locker
	broken  error // of an append that failed and could not be taken back
	size    int64 // of what this writer has read or written
	written int   // records
	reader  *lineReader
	decoder *decoder
	records *File
}

// A locker locks a file, until it is closed.
type locker interface {
	TryLock() (bool, error)
	Close() error
}

// CheckFolder makes a results folder below another if needed, and refuses one in which no file can be
// made. It is called before hours of measuring.
func CheckFolder(in, below string) error {
	if err := durable.MakeFolder(in, below); err != nil {
		return folderError(filepath.Join(in, below), err)
	}
	return nil
}

// folderError makes the error of a results folder, with its next step.
func folderError(dir string, err error) error {
	return hint.Errorf(durable.Help(err), "results folder %s: %w", dir, durable.Cause(err))
}

// OpenWriter makes the folder if needed, locks it against other writers and opens its records file for
// appending. It cuts off a torn last line, the trace of a killed run, and notes say so. A last line that
// only lacks its newline gets one. It fails when another writer holds the folder, the folder cannot be
// written, a link leads out of the folder that it is below, or the file has a bad line elsewhere.
func OpenWriter(in, below string) (_ *Writer, notes Notes, err error) {
	return openFolder(in, below, true, newLock)
}

// OpenUnsharedWriter is OpenWriter for a folder that no other command writes to, as that of a shard. It takes a file
// system that has no locks, and notes say so.
func OpenUnsharedWriter(in, below string) (_ *Writer, notes Notes, err error) {
	return openFolder(in, below, false, newLock)
}

func newLock(path string) locker { return flock.New(path, flock.SetFlag(os.O_RDONLY)) }

func openFolder(in, below string, shared bool, newLock func(path string) locker) (_ *Writer, notes Notes, err error) {
	if err := CheckFolder(in, below); err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(in, below)
	w := &Writer{
		name:    filepath.Join(dir, FileName),
		lock:    newLock(filepath.Join(dir, LockName)),
		decoder: newDecoder(),
	}
	w.records = &File{Path: w.name}
	w.reader = newReader(w.name, w.records.add)
	root, err := os.OpenRoot(in)
	if err != nil {
		return nil, nil, folderError(dir, err)
	}
	defer root.Close()
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	unlocked := ""
	if err = w.tryLock(root, dir, below); !shared && durable.CannotLock(err) {
		unlocked, err = dir+": its file system has no locks, so start no second command there", nil
	}
	if err != nil {
		return nil, nil, err
	}
	place := durable.Place{Root: in, Name: filepath.Join(below, FileName)}
	unpacked, err := unpack(place)
	if err != nil {
		return nil, nil, hint.With(err, durable.Help(err))
	}
	if st, err := root.Stat(place.Name); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return nil, nil, hint.Errorf("choose another folder", "records %s: it is no file", w.name)
	}
	file, err := root.OpenFile(place.Name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, w.failWithHelp(err)
	}
	if w.file, err = durable.OpenFile(file, w.name); err != nil {
		return nil, nil, w.failWithHelp(err)
	}
	if notes, err = w.resume(); err != nil {
		return nil, nil, err
	}
	if unlocked != "" {
		notes = append(notes, unlocked)
	}
	if unpacked != "" {
		notes = append(notes,
			fmt.Sprintf("unpacked %s, as records are appended to %s; pack it again before you check it in",
				unpacked, FileName))
	}
	if err := durable.SyncDir(dir); err != nil {
		return nil, nil, folderError(dir, err)
	}
	return w, notes, nil
}

// failWithHelp makes the file's error of a system's error, with the next step.
func (w *Writer) failWithHelp(err error) error { return hint.With(w.fail(err), durable.Help(err)) }

// fail makes the file's error of another error.
func (w *Writer) fail(err error) error {
	return fmt.Errorf("records %s: %w", w.name, durable.Cause(err))
}

// LockFolder makes a results folder below another if needed, and keeps writers of records out until release is called.
func LockFolder(in, below string) (release func(), err error) {
	if err := CheckFolder(in, below); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(in)
	if err != nil {
		return nil, folderError(in, err)
	}
	defer root.Close()
	dir := filepath.Join(in, below)
	w := &Writer{lock: newLock(filepath.Join(dir, LockName))}
	if err := w.tryLock(root, dir, below); err != nil && !durable.CannotLock(err) {
		w.lock.Close()
		return nil, err
	}
	return func() { w.lock.Close() }, nil
}

// HoldFolder locks a folder for the few steps of reading a table and writing it again, and waits for
// others who hold it so. Writers of records are not kept out. Call release to unlock. Where
// the file system has no locks, it returns at once.
func HoldFolder(dir string) (release func(), err error) {
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	if err := l.Lock(); err != nil && !durable.CannotLock(err) {
		return nil, hint.Errorf(durable.Help(err), "folder %s: %w", dir, durable.Cause(err))
	}
	return func() { l.Close() }, nil
}

// tryLock locks the folder against other writers, or fails at once where another holds it.
func (w *Writer) tryLock(root *os.Root, dir, below string) error {
	locked := false
	err := lockFile(root, filepath.Join(below, LockName))
	if err == nil {
		locked, err = w.lock.TryLock()
	}
	switch {
	case err != nil:
		return folderError(dir, err)
	case !locked:
		return hint.Errorf("wait for it to end, or choose another folder",
			"another sweep is writing to %s", dir)
	}
	return nil
}

// lockFile makes the lock file, which others may share: whoever may write to the folder can lock it,
// also with the file of another user, as it is only opened to be read.
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

// unpack unpacks a packed records file, whole or not at all, where there is no plain one. It returns
// the name of what it unpacked, "" for nothing.
func unpack(p durable.Place) (packed string, err error) {
	packed = textfile.FindPacked(p.String())
	if exists(p.String()) || packed == p.String() {
		return "", nil
	}
	f, err := open(packed)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := p.WriteFrom(f); err != nil {
		return "", fmt.Errorf("records %s: %w", packed, durable.Cause(err))
	}
	return packed, nil
}

// resume reads the records of an existing file and repairs its end.
func (w *Writer) resume() (notes Notes, err error) {
	st, err := w.file.Stat()
	if err != nil {
		return nil, w.failWithHelp(err)
	}
	if st.Size() == 0 {
		return nil, nil
	}
	if err := w.reader.read(w.file); err != nil {
		return nil, err
	}
	w.size = w.reader.end
	if st.Size() > w.size {
		if err := w.file.Truncate(w.size); err != nil {
			return nil, w.failWithHelp(err)
		}
	}
	notes = w.reader.notes
	if n := len(w.records.outcomes); n > manyRecords {
		notes = append(notes,
			fmt.Sprintf("%s has %d records: with more than %d every command that reads it is slow and "+
				"takes memory by the GB; a new folder keeps it fast",
				w.name, n, manyRecords))
	}
	if w.size > 0 && !w.reader.newline {
		return notes, w.append([]byte{'\n'})
	}
	return notes, nil
}

// manyRecords is the number that two cores read and report in 10 s with 500 MB:
// lab/notes/reliability.md.
const manyRecords = 200_000

// AppendAll checks the lines and writes them as one append: after a kill or a power cut the file has all
// of them or, to the next writer, none. When AppendAll returns nil they are on disk. A failed write
// leaves the file as it was. The run of a record must be appended before it.
//
// It refuses a file that is no longer what this writer has left: somebody else has moved, cut or
// continued it.
func (w *Writer) AppendAll(vs ...Line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var text []byte
	items := make([]item, len(vs)) // as the next reader will see them
	for i, v := range vs {
		if err := v.CheckValid(); err != nil {
			return err
		}
		line, err := encode(v, len(vs)-i-1, len(vs))
		if err != nil {
			return w.fail(err)
		}
		it := &items[i]
		if w.decoder.decode(it, line[:len(line)-1]); it.err == nil && it.record != nil {
			it.err = w.reader.resolve(it)
		}
		if it.err != nil {
			return w.fail(it.err)
		}
		text = append(text, line...)
	}
	if err := w.checkUnchanged(); err != nil {
		return err
	}
	if err := w.append(text); err != nil {
		return err
	}
	for i := range items {
		if items[i].record != nil {
			w.written++
		}
		if err := w.reader.deliver(&items[i]); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

// CheckUnchanged refuses a file that is no longer what this writer has left, as AppendAll does.
func (w *Writer) CheckUnchanged() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checkUnchanged()
}

// checkUnchanged compares the open file with the one under its name, and refuses a changed one.
func (w *Writer) checkUnchanged() error {
	if w.broken != nil {
		return w.broken
	}
	ours, err := w.file.Stat()
	if err != nil {
		return w.failWithHelp(err)
	}
	what, where := "", "in it"
	switch there, err := os.Stat(w.name); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return w.failWithHelp(err)
	case err != nil:
		what, where = "was moved or deleted", whereIs(w.file)
	case !os.SameFile(ours, there):
		what, where = "was replaced by another", whereIs(w.file)
	case ours.Size() < w.size:
		what, where = fmt.Sprintf("was cut from %d to %d bytes", w.size, ours.Size()),
			"in it as far as it goes"
	case ours.Size() > w.size:
		what = fmt.Sprintf("got %d bytes from somebody else", ours.Size()-w.size)
	default:
		return nil
	}
	return hint.Errorf("leave the results folder alone while a sweep runs; the same command goes on "+
		"from what is there",
		"records %s: the file %s in the meantime; the %d records of this run are %s", w.name, what,
		w.written, where)
}

// whereIs says where an open file is now that was moved or deleted.
func whereIs(f *durable.WatchedFile) string {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	switch {
	case err != nil: // not on Linux
		return "where it went"
	case strings.HasSuffix(at, " (deleted)"):
		return "gone with it"
	}
	return "in " + at
}

// append writes bytes to the file and syncs it. A failed write is taken back.
func (w *Writer) append(b []byte) error {
	_, err := w.file.Write(b)
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		// Half a line in the middle of the file would spoil it, so what came of
		// this one is taken back. Where that fails too, the next writer does it: of this one the
		// file is no longer what it should be.
		err = hint.With(w.fail(err), durable.Help(err)+"; the records before this one are safe")
		if w.file.Truncate(w.size) != nil {
			w.broken = err
		}
		return err
	}
	w.size += int64(len(b))
	return nil
}

// Status returns the status of the last record with a key, for a sweep that skips what the file has.
func (w *Writer) Status(key string) (kernels.Status, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records.Status(key)
}

// Records returns the file's records with those appended. Call it when no more are appended.
func (w *Writer) Records() *File { return w.records }

// Path returns the path of the records file.
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
