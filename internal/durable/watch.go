package durable

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// An Operation is one change that a writer makes to the file system.
type Operation struct {
	Op       string // create, mkdir, write, sync, truncate, rename, remove, syncdir
	Path, To string
	At       int64 // offset of a write, size of a truncation
	Data     []byte
}

// Watch, where set, is called after each operation. Tests that cut the power set it.
var Watch func(Operation)

// A WatchedFile is an open file that tells Watch of its operations.
type WatchedFile struct {
	*os.File
	Path string
	end  int64 // where the next write goes
}

// OpenFile wraps a file that was opened at path to append to it, and tells Watch if it is new.
func OpenFile(f *os.File, path string) (*WatchedFile, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &WatchedFile{f, path, st.Size()}, notify(nil, Operation{Op: "create", Path: path})
}

// Write appends.
func (f *WatchedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	notify(err, Operation{Op: "write", Path: f.Path, At: f.end, Data: append([]byte(nil), b[:n]...)})
	f.end += int64(n)
	return n, err
}

// WriteString and ReadFrom are not those of os.File, which would go past Write.
func (f *WatchedFile) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// ReadFrom implements io.ReaderFrom.
func (f *WatchedFile) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// Sync writes the file's content to the disk.
func (f *WatchedFile) Sync() error {
	return notify(f.File.Sync(), Operation{Op: "sync", Path: f.Path})
}

// Truncate cuts the file.
func (f *WatchedFile) Truncate(size int64) error {
	f.end = size
	return notify(f.File.Truncate(size), Operation{Op: "truncate", Path: f.Path, At: size})
}

// notify tells Watch of an operation that succeeded, and returns err.
func notify(err error, s Operation) error {
	if err == nil && Watch != nil {
		Watch(s)
	}
	return err
}

// Remove deletes the file of a place.
func (p Place) Remove() error {
	return notify(os.Remove(p.String()), Operation{Op: "remove", Path: p.String()})
}

// SyncDir writes the names in a folder to the disk, so that they outlive a power cut.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" { // which has no such call, and needs none
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return notify(d.Sync(), Operation{Op: "syncdir", Path: filepath.Clean(dir)})
}
