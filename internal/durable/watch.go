package durable

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// An Operation is what a writer does to the file system.
type Operation struct {
	Op       string // create, mkdir, write, sync, truncate, rename, remove, syncdir
	Path, To string
	At       int64 // offset of a write, size of a truncation
	Data     []byte
}

// Watch, where set, is told of each step behind it. Tests that cut the power set it.
var Watch func(Operation)

// A File is one whose steps are watched.
type File struct {
	*os.File
	Path string
	end  int64 // where the next write goes
}

// OpenFile is a file that was opened at a path to append to it, and may be new.
func OpenFile(f *os.File, path string) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &File{f, path, st.Size()}, done(nil, Operation{Op: "create", Path: path})
}

// Write appends.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	done(err, Operation{Op: "write", Path: f.Path, At: f.end, Data: append([]byte(nil), b[:n]...)})
	f.end += int64(n)
	return n, err
}

// WriteString and ReadFrom are not those of os.File, which would go past Write.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// ReadFrom implements io.ReaderFrom.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// Sync brings the file's content to the disk.
func (f *File) Sync() error {
	return done(f.File.Sync(), Operation{Op: "sync", Path: f.Path})
}

// Truncate cuts the file.
func (f *File) Truncate(size int64) error {
	f.end = size
	return done(f.File.Truncate(size), Operation{Op: "truncate", Path: f.Path, At: size})
}

// done tells of a step that went well.
func done(err error, s Operation) error {
	if err == nil && Watch != nil {
		Watch(s)
	}
	return err
}

// Remove deletes the file of a place.
func (p Place) Remove() error {
	return done(os.Remove(p.String()), Operation{Op: "remove", Path: p.String()})
}

// SyncDir makes the names in a folder outlive a power cut.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" { // which has no such call, and needs none
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return done(d.Sync(), Operation{Op: "syncdir", Path: filepath.Clean(dir)})
}
