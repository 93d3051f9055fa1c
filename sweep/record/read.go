package record

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
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
	"normbench/kernels"
	"normbench/sweep/stats"
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
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, f.name, func(_ *decoder, r *Record) *Record { return r },
		func(it *item[*Record], run *Run) error {
			if it.run != nil {
				return nil
			}
			return each(it.value, run)
		})
}

// An Entry summarizes one record.
type Entry struct {
	Run           *Run
	Problem       kernels.Problem
	Variant       kernels.Variant
	Base          bool // the variant that runs before any tuning
	Status        kernels.Status
	Reason        string    // why the status is not ok
	Source        string    // hash of the family's source
	Bytes         int64     // compulsory traffic
	stats.Summary           // of the samples, in microseconds
	Stages        []StageUS // in launch order
	SamplesUS     []float32 // in the order taken, for tests of rank; nil where it is not ok
	StreamUS      float64   // median time of the stream in the same run, 0 where it is not known
	Differing     int64     // elements whose bits changed between runs
	Unordered     bool      // the family states that they may
	Final         *Final    // nil but for a finalist of a search; see Finals

	key  string // of one that is in no file yet
	file *File
	row  uint32
}

// Is says whether an entry of a file is of a code: its key is that of the code under its run.
func (e *Entry) Is(code Code) bool {
	r := e.file.row(e.row)
	return e.file.keyers[r.run].key(e.Problem.String(), e.Variant.String(), code.String()) == hex.EncodeToString(r.key[:])
}

// A Final is what the record of a finalist has beside an Entry.
type Final struct {
	SearchUS  float64   // what the search had seen before the finals
	Chosen    string    // why it is its problem's winner; empty on all others
	Place     int       // in the file: of two finals of a problem the later counts
	Entry     bool      // the tuned table held it when the search began
	Rounds    []float64 // medians of the finals' rounds, microseconds
	BaseAgain []float64 // of a second copy of the base in the same rounds
	Of        int       // finals of its problem; 0 in records of before they were counted
}

// Finals is what e has of the finals; zero where it is of none.
func (e *Entry) Finals() Final {
	if e.Final == nil {
		return Final{}
	}
	return *e.Final
}

// WithFinals returns e with what it has of the finals replaced.
func (e Entry) WithFinals(f Final) Entry {
	e.Final = &f
	return e
}

// StageUS is the median time of one launch of a plan.
type StageUS struct {
	Stage    string
	MedianUS float64
}

// Load reads a records file as Read does and keeps a summary of each record. Of
// two records with one key the later counts, in its own place.
func Load(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file := &File{Path: f.name}
	file.Notes, err = read(f, f.name, summarize, func(it *item[Entry], run *Run) error {
		if it.run != nil {
			file.Runs = append(file.Runs, it.run)
			return nil
		}
		it.value.Run = run
		file.add(&it.value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Summarize is the entry of a record of run, as Load makes it.
func Summarize(r *Record, run *Run) Entry {
	e := summarize(newDecoder(), r)
	e.Run = run
	return e
}

// summarize is Summarize without the run.
func summarize(d *decoder, r *Record) Entry {
	e := Entry{
		key:     r.Key,
		Problem: r.Problem, Variant: kernels.Variant{Family: d.intern(r.Family), Config: r.Config}, Base: r.Base,
		Status: kernels.Status(d.intern(string(r.Status))), Reason: d.intern(r.Reason),
		Source: d.intern(r.Source), Bytes: r.Bytes,
		Summary: stats.Summarize(r.SamplesUS), StreamUS: r.StreamUS,
	}
	if len(r.SamplesUS) > 0 {
		e.SamplesUS = make([]float32, len(r.SamplesUS))
		for i, v := range r.SamplesUS {
			e.SamplesUS[i] = float32(v)
		}
	}
	if r.SearchUS > 0 || r.Chosen != "" {
		f := &Final{SearchUS: r.SearchUS, Chosen: d.intern(r.Chosen), Entry: r.Entry, BaseAgain: r.BaseAgainUS, Of: r.Finals}
		n := 0
		for _, v := range r.Visits {
			f.Rounds = append(f.Rounds, stats.Median(r.SamplesUS[n:n+v]))
			n += v
		}
		e.Final = f
	}
	for _, s := range r.Stages {
		e.Stages = append(e.Stages, StageUS{d.intern(s.Stage), stats.Median(s.SamplesUS)})
	}
	if r.Check != nil {
		e.Differing, e.Unordered = r.Check.Differing, r.Check.Unordered
	}
	return e
}

// read scans a records file, resolves each record's run, holds the finals of a
// problem back until all are there, and settles what a bad line means. each gets
// the runs too, as items with run set.
func read[T any](r io.Reader, name string, take func(*decoder, *Record) T, each func(*item[T], *Run) error) (notes Notes, err error) {
	type known struct {
		run   *Run
		keyer *keyer
	}
	runs := map[string]known{}
	type ref struct {
		id, key, problem, variant, source string
		finals                            int
		value                             T
	}
	n, tornLines := 0, 0
	var first *item[ref] // of the torn lines
	placed := false      // the error has its line
	bad := func(line int, err error) error {
		placed = true
		return fmt.Errorf("%s:%d: %w", name, line, err)
	}
	var group []*item[ref] // finals of one problem and run
	leave := func() {
		if len(group) > 0 {
			g := &group[0].value
			notes = append(notes, fmt.Sprintf("%s:%d: left out %d of the %d finals of %s, as the others are missing", name, group[0].line, len(group), g.finals, g.problem))
		}
		group = nil
	}
	hand := func(raw *item[ref], run *Run) error {
		it := &item[T]{raw.line, raw.start, raw.end, raw.newline, raw.torn, raw.head, raw.run, raw.value.value, raw.err}
		if err := each(it, run); err != nil {
			return bad(raw.line, err)
		}
		return nil
	}
	err = scan(r,
		func(d *decoder, r *Record) ref {
			x := ref{id: d.intern(r.Run), problem: d.problem.name, finals: r.Finals, value: take(d, r)}
			if r.Family != Stream { // whose key is of a family that is not recorded
				x.key, x.variant, x.source = r.Key, r.Variant().String(), Code{r.Source, r.Launch}.String()
			}
			return x
		},
		func(raw *item[ref]) error {
			switch {
			case raw.torn:
				if tornLines++; first == nil {
					first = raw
				}
				return nil
			case n == 0 && (errors.Is(raw.err, errSyntax) || first != nil && raw.err != nil):
				placed = true
				return hint.Errorf("give a records.jsonl, or the results folder with one", "%s is not a records file", name)
			case first != nil: // it was not the end after all
				return bad(first.line, first.err)
			case raw.err != nil:
				return bad(raw.line, raw.err)
			}
			n++
			x := &raw.value
			if len(group) > 0 {
				if g := &group[0].value; raw.run != nil || g.id != x.id || g.problem != x.problem || g.finals != x.finals {
					leave()
				}
			}
			if raw.run != nil {
				raw.run.takeTimer(runs[strings.TrimSuffix(raw.run.ID, FinalsSuffix)].run)
				runs[raw.run.ID] = known{raw.run, newKeyer(raw.run.Device, raw.run.Protocol)}
				return hand(raw, raw.run)
			}
			k, ok := runs[x.id]
			if !ok {
				return bad(raw.line, hint.Errorf("keep the run lines when you cut or join records files",
					"run %q has no line before this record", x.id))
			}
			if x.variant != "" && k.keyer.key(x.problem, x.variant, x.source) != x.key {
				return bad(raw.line, hint.Errorf(lineHelp, "the record's key is not that of its run, problem, variant and source"))
			}
			if x.finals == 0 {
				return hand(raw, k.run)
			}
			if group = append(group, raw); len(group) < x.finals {
				return nil
			}
			for _, g := range group {
				if err := hand(g, k.run); err != nil {
					return err
				}
			}
			group = nil
			return nil
		})
	switch {
	case err != nil && placed:
		return nil, err
	case err != nil && hint.Of(err) == "":
		return nil, hint.Errorf(textfile.PackedHelp, "%s: %w", name, cause(err))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case tornLines == 0 && n == 0:
		return nil, hint.Errorf("a sweep writes one", "%s is empty", name)
	}
	leave()
	if tornLines > 0 {
		notes = append(notes, tornNote(name, first.line, tornLines))
	}
	return notes, nil
}

func tornNote(name string, line, lines int) string {
	if lines == 1 {
		return fmt.Sprintf("%s:%d: dropped the last line, which is incomplete", name, line)
	}
	return fmt.Sprintf("%s:%d: dropped the last %d lines, which are incomplete", name, line, lines)
}

// A source is an open records file with its full name.
type source struct {
	io.Reader
	file *os.File
	name string
	size int64 // in bytes, 0 where it is packed or no regular file
}

func (s *source) Close() error { return s.file.Close() }

// open finds the records file of path, a file or a folder with one in it or in
// its only device's folder, and undoes gzip, known by its first bytes.
func open(path string) (*source, error) {
	const help = "give a records.jsonl, or the results folder with one"
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		file := filepath.Join(path, FileName)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(file + ".gz"); err == nil {
				file += ".gz"
			} else if device := onlyDevice(path); device != "" {
				return open(device)
			} else {
				return nil, hint.Errorf(help, "folder %s has no %s", path, FileName)
			}
		}
		path = file
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, hint.Errorf(help, "records %s: %w", path, cause(err))
	}
	s := &source{f, f, path, 0}
	b := bufio.NewReaderSize(f, 1<<16)
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		if s.Reader, err = gzip.NewReader(b); err != nil {
			f.Close()
			return nil, hint.Errorf(textfile.PackedHelp, "records %s: %w", path, cause(err))
		}
	} else {
		s.Reader = b
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			s.size = st.Size()
		}
	}
	return s, nil
}

// onlyDevice is the one folder with records below a folder of results, or "".
func onlyDevice(path string) string {
	files, _ := filepath.Glob(filepath.Join(path, "*", FileName+"*"))
	device := ""
	for _, f := range files {
		if d := filepath.Dir(f); device == "" || device == d {
			device = d
		} else {
			return ""
		}
	}
	return device
}

// cause is err without the operation and path that it repeats.
func cause(err error) error { return durable.Cause(err) }
