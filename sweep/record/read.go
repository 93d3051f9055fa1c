package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
)

// Notes are one-line remarks about a file that was read all the same, such as a
// torn last line that was dropped.
type Notes []string

// Read calls each for every record of a file, in the order of the file, with its run. The record is the
// callee's to keep; runs are shared. path is a records file, plain or packed, or a results folder with
// one inside. A torn last line is dropped with a note. Other bad lines, an empty file and a newer schema
// are errors that name file and line. An error of each ends the reading and is returned with file and
// line before it.
func Read(path string, each func(*Record, *Run) error) (Notes, error) {
	return readFile(path, func(it *item) error {
		if it.record == nil {
			return nil
		}
		return each(it.record, it.run)
	})
}

// Load reads a records file as Read does and keeps an outcome of each record. Of two records with one
// key the later counts, in its own place.
func Load(path string) (*File, error) {
	path, err := find(path)
	if err != nil {
		return nil, err
	}
	file := &File{Path: path}
	file.Notes, err = readFile(path, file.add)
	return file, err
}

// readFile finds and reads a records file and calls each for every run and record.
func readFile(path string, each func(*item) error) (Notes, error) {
	path, err := find(path)
	if err != nil {
		return nil, err
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := newReader(path, each)
	if err := r.read(f); err != nil {
		return nil, err
	}
	return r.notes, nil
}

// A lineReader turns the lines of a file into runs and records, one after the other. Lines of one append
// count together or not at all: it holds them back until the last one has come.
type lineReader struct {
	name    string
	each    func(*item) error
	runs    map[string]*keyer
	pending []*item         // lines of an append whose last line has not come
	torn    *item           // the first of them that is damaged, and
	last    *item           // the last that is not; nil for none
	intact  int             // lines that are not damaged
	seen    map[uint64]bool // sums of the lines of whole appends
	stale   bool            // the last line is a copy of one of them, behind one that is damaged
	// Where the last whole append ends, and whether with a newline.
	end     int64
	newline bool
	notes   Notes
}

func newReader(name string, each func(*item) error) *lineReader {
	return &lineReader{name: name, each: each, runs: map[string]*keyer{}, seen: map[uint64]bool{}}
}

// read reads a whole records file and decides what a bad line means: the end of an interrupted append,
// which is dropped with a note, or damage, which is an error. It delivers runs as items without a
// record.
func (r *lineReader) read(in io.Reader) error {
	var bad error
	err := scan(in, func(it *item) bool {
		bad = r.takeLine(it)
		return bad == nil
	})
	switch n := len(r.pending); {
	case bad != nil:
		return bad
	case err == nil && r.stale: // somebody has joined the file of others: a torn append seldom ends so
		return r.bad(r.torn, r.torn.err)
	case err != nil && hint.Of(err) == "":
		return hint.Errorf(textfile.PackedHelp, "%s: %w", r.name, durable.Cause(err))
	case err != nil:
		return fmt.Errorf("%s: %w", r.name, err)
	case r.intact+n == 0:
		return hint.Errorf("a sweep writes one", "%s is empty", r.name)
	case n == 1:
		r.note("dropped the last line, which is incomplete")
	case n > 1:
		r.note("dropped the last %d lines, which are incomplete", n)
	}
	return nil
}

// note adds a note about the lines of the pending append.
func (r *lineReader) note(format string, args ...any) {
	r.notes = append(r.notes,
		fmt.Sprintf("%s:%d: %s", r.name, r.pending[0].line, fmt.Sprintf(format, args...)))
}

// bad puts file and line before an error.
func (r *lineReader) bad(it *item, err error) error {
	return fmt.Errorf("%s:%d: %w", r.name, it.line, err)
}

// takeLine takes the next line, and delivers the pending append when the line completes it. It fails
// when the file cannot be what interrupted appends leave.
func (r *lineReader) takeLine(it *item) error {
	r.stale = r.torn != nil && it.err == nil && r.seen[it.hash] && r.isOpen()
	switch {
	case r.stale: // the disk has an older block there: the record is known
		r.pending = append(r.pending, it)
		return nil
	case r.joins(it):
	case r.intact == 0 && it.err != nil && (r.torn != nil || errors.Is(it.err, errSyntax)):
		return hint.Errorf(findHelp, "%s is not a records file", r.name)
	case r.torn != nil: // it was not the last append
		return r.bad(r.torn, r.torn.err)
	case it.err != nil:
		return r.bad(it, it.err)
	default: // somebody has cut the file, or joined it of others
		r.note("left out %d lines of an append, as the others are missing", len(r.pending))
		r.pending, r.last = nil, nil
	}
	r.pending = append(r.pending, it)
	if it.err == nil {
		r.intact++
		r.last = it
	} else if r.torn == nil {
		r.torn = it
	}
	if r.torn != nil || it.more > 0 {
		return nil
	}
	for _, it := range r.pending {
		r.seen[it.hash] = true
		if err := r.deliver(it); err != nil {
			return r.bad(it, err)
		}
	}
	r.pending, r.last, r.end, r.newline = nil, nil, it.end, it.newline
	return nil
}

// isOpen says whether the pending append may still get lines: none of it is damaged, or its last line
// has not come.
func (r *lineReader) isOpen() bool { return r.torn == nil || r.last == nil || r.last.more > 0 }

// joins says whether a line may belong to the pending append, or begin one.
func (r *lineReader) joins(it *item) bool {
	switch {
	case it.torn, it.foreign && r.torn != nil: // a disk may have anything there
		return (it.looksOurs || r.intact > 0) && r.isOpen()
	case it.err != nil:
		return false
	case len(r.pending) == 0:
		return true
	case r.last == nil:
		return it.more < it.of-1 // there are lines before it
	case it.of != r.last.of:
		return false
	case r.torn != nil:
		return it.more < r.last.more
	}
	return it.more == r.last.more-1
}

// deliver checks a run or a record and passes it to each.
func (r *lineReader) deliver(it *item) error {
	if it.record == nil {
		r.runs[it.run.ID] = newKeyer(it.run)
	} else if err := r.resolve(it); err != nil {
		return err
	}
	return r.each(it)
}

// resolve finds the run of a record, and checks the record's key, or computes it where the line has
// none.
func (r *lineReader) resolve(it *item) error {
	rec := it.record
	k := r.runs[rec.Run]
	if k == nil {
		return hint.Errorf("keep the run lines when you cut or join records files",
			"run %q has no line before this record", rec.Run)
	}
	it.run = k.run
	if rec.Family == Stream { // its key is of a family that is not recorded
		return nil
	}
	if key := k.key(it.problem, it.variant, it.code, rec.BaseOf); rec.Key == "" {
		rec.Key = key
	} else if rec.Key != key {
		return hint.Errorf(lineHelp,
			"the record's key is not that of its run, problem, variant and source")
	}
	return nil
}

const findHelp = "give a records.jsonl, or the results folder with one"

// find resolves path to a records file: itself, or the one in that folder or in its only device's
// folder.
func find(path string) (string, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return path, nil
	}
	if HasFile(path) {
		return textfile.FindPacked(filepath.Join(path, FileName)), nil
	}
	devices := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(path, "*", FileName+"*"))
	for _, f := range files {
		devices[filepath.Dir(f)] = true
	}
	if len(devices) != 1 {
		return "", hint.Errorf(findHelp, "folder %s has no %s", path, FileName)
	}
	return find(filepath.Dir(files[0]))
}

// HasFile says whether a folder has a records file of its own, packed or not.
func HasFile(folder string) bool { return exists(textfile.FindPacked(filepath.Join(folder, FileName))) }

// exists says whether there is something of that name, readable or not.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// open opens a records file.
func open(path string) (*textfile.Reader, error) {
	f, err := textfile.Open(path)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), findHelp), "records %s: %w", path,
			durable.Cause(err))
	}
	return f, nil
}
