package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
)

// Notes are one-line remarks about a file that was read all the same, such as a
// torn last line that was dropped.
type Notes []string

// Read calls each for every record of a file, in the order of the file, with
// its run. The record is the callee's to keep; runs are shared. Path is a
// records file, plain or gzipped, or a results folder with one inside. A torn
// last line is dropped with a note; other bad lines, an empty file and a newer
// schema are errors that name file and line. An error of each ends the reading
// and is returned with file and line before it.
func Read(path string, each func(*Record, *Run) error) (Notes, error) {
	return readFile(path, func(it *item) error {
		if it.record == nil {
			return nil
		}
		return each(it.record, it.run)
	})
}

// Load reads a records file as Read does and keeps a summary of each record. Of
// two records with one key the later counts, in its own place.
func Load(path string) (*File, error) {
	path, err := find(path)
	if err != nil {
		return nil, err
	}
	file := &File{Path: path}
	if file.Notes, err = readFile(path, func(it *item) error { file.add(it.record, it.run); return nil }); err != nil {
		return nil, err
	}
	return file, nil
}

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
	return read(f, path, each)
}

// A reader makes sense of the lines of a file, one after the other.
type reader struct {
	name string
	each func(*item) error
	runs map[string]*keyer
	n    int     // lines that are whole
	more int     // lines of the last append that may follow; -1 where that is not known
	torn []*item // the rest of the last append from its first line on that is not whole
	// The finals of a problem are held back until all are there.
	finals []*item
	notes  Notes
}

// read scans a records file, resolves each record's run, and settles what a bad
// line means. each gets the runs too, as items without a record.
func read(in io.Reader, name string, each func(*item) error) (Notes, error) {
	r := &reader{name: name, each: each, runs: map[string]*keyer{}}
	var bad error
	err := scan(in, func(it *item) bool {
		bad = r.take(it)
		return bad == nil
	})
	switch {
	case bad != nil:
		return nil, bad
	case err != nil && hint.Of(err) == "":
		return nil, hint.Errorf(textfile.PackedHelp, "%s: %w", name, durable.Cause(err))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case r.n+len(r.torn) == 0:
		return nil, hint.Errorf("a sweep writes one", "%s is empty", name)
	}
	r.dropFinals()
	if n := len(r.torn); n == 1 {
		r.note(r.torn[0], "dropped the last line, which is incomplete")
	} else if n > 1 {
		r.note(r.torn[0], "dropped the last %d lines, which are incomplete", n)
	}
	return r.notes, nil
}

func (r *reader) note(it *item, format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf("%s:%d: %s", r.name, it.line, fmt.Sprintf(format, args...)))
}

func (r *reader) bad(it *item, err error) error { return fmt.Errorf("%s:%d: %w", r.name, it.line, err) }

func (r *reader) take(it *item) error {
	switch {
	case it.torn && (it.ours || r.n > 0) && (len(r.torn) == 0 || r.more != 0):
		if len(r.torn) == 0 && r.more == 0 {
			r.more = -1
		}
		r.torn = append(r.torn, it)
		return nil
	case len(r.torn) > 0 && it.err == nil && r.goesOn(it):
		r.torn = append(r.torn, it)
		return nil
	case r.n == 0 && it.err != nil && (len(r.torn) > 0 || errors.Is(it.err, errSyntax)):
		return hint.Errorf(findHelp, "%s is not a records file", r.name)
	case len(r.torn) > 0: // it was not the last append
		return r.bad(r.torn[0], r.torn[0].err)
	case it.err != nil:
		return r.bad(it, it.err)
	}
	r.n++
	r.more = it.more
	if len(r.finals) > 0 && !sameFinals(it.record, r.finals[0].record) {
		r.dropFinals()
	}
	if it.record == nil {
		it.run.takeTimer(r.runs[strings.TrimSuffix(it.run.ID, FinalsSuffix)])
		r.runs[it.run.ID] = newKeyer(it.run)
		return r.hand(it)
	}
	return r.takeRecord(it)
}

// goesOn says whether a whole line is of the append of which lines before it are not whole.
func (r *reader) goesOn(it *item) bool {
	before := r.more
	r.more = it.more
	if before < 0 {
		return it.more < it.of-1 // there are lines before it
	}
	return it.more < before
}

func (r *reader) takeRecord(it *item) error {
	rec := it.record
	k := r.runs[rec.Run]
	if k == nil {
		return r.bad(it, hint.Errorf("keep the run lines when you cut or join records files",
			"run %q has no line before this record", rec.Run))
	}
	it.run = k.run
	// The stream's key is of a family that is not recorded.
	if rec.Family != Stream && k.key(it.problem, rec.Variant().String(), Code{rec.Source, rec.Launch}.String()) != rec.Key {
		return r.bad(it, hint.Errorf(lineHelp, "the record's key is not that of its run, problem, variant and source"))
	}
	if rec.Finals == 0 {
		return r.hand(it)
	}
	if r.finals = append(r.finals, it); len(r.finals) < rec.Finals {
		return nil
	}
	for _, f := range r.finals {
		if err := r.hand(f); err != nil {
			return err
		}
	}
	r.finals = nil
	return nil
}

func (r *reader) hand(it *item) error {
	if err := r.each(it); err != nil {
		return r.bad(it, err)
	}
	return nil
}

// sameFinals says whether a record, nil for a run, goes on with the finals of a problem.
func sameFinals(a, b *Record) bool {
	return a != nil && a.Run == b.Run && a.Problem == b.Problem && a.Finals == b.Finals
}

// dropFinals leaves out finals of which the others are missing.
func (r *reader) dropFinals() {
	if n := len(r.finals); n > 0 {
		f := r.finals[0]
		r.note(f, "left out %d of the %d finals of %s, as the others are missing", n, f.record.Finals, f.record.Problem)
	}
	r.finals = nil
}

const findHelp = "give a records.jsonl, or the results folder with one"

// find is the records file of path, a file or a folder with one in it or in its
// only device's folder.
func find(path string) (string, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return path, nil
	}
	for _, name := range []string{FileName, FileName + ".gz"} {
		if _, err := os.Stat(filepath.Join(path, name)); !errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(path, name), nil
		}
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

// open opens a records file.
func open(path string) (*textfile.File, error) {
	f, err := textfile.Open(path)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), findHelp), "records %s: %w", path, durable.Cause(err))
	}
	return f, nil
}
