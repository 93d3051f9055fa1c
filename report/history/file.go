// Package history keeps what runs measured, commit by commit, in one small file, and says what moved and
// why. A cause is read off the arms that moved together: the stream, the base, ours and each peer are timed in
// the same rounds, so that what moves them all is the machine's, and what moves one is its own.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/sweep/record"
)

// Schema is the version of the lines that this package writes, and the newest that it reads.
const Schema = 1

// FileName is the history's file where no other is named.
const FileName = "history.jsonl"

// The arms of a cell. A peer's is PeerArm and its name.
const (
	Stream  = "stream"
	Base    = "base"
	Ours    = "ours"
	PeerArm = "peer/"
)

// A Snapshot is a line of the file: what one run measured, as medians.
type Snapshot struct {
	Schema   int             `json:"schema"`
	ID       string          `json:"run"`
	Commit   string          `json:"commit"`
	Time     time.Time       `json:"time"`
	Device   string          `json:"device"` // names a results folder: "nvidia-h200"
	Card     string          `json:"card"`
	UUID     string          `json:"uuid,omitempty"`
	Driver   string          `json:"driver,omitempty"`
	Compiler string          `json:"compiler,omitempty"`
	Protocol record.Protocol `json:"protocol"`
	// Noise is how much a second copy of one kernel differs from the first: the median over the cells, as a
	// fraction. 0 where no cell has a second copy.
	Noise float64 `json:"noise,omitempty"`
	Cells []Cell  `json:"cells"`
}

// A Cell is a problem's times in a run.
type Cell struct {
	Problem kernels.Problem `json:"problem"`
	// Rounds are as many values as each median is of; in a grid, which has no rounds, samples.
	Rounds int                `json:"rounds"`
	US     map[string]float64 `json:"us"`              // medians by arm, microseconds
	Again  float64            `json:"again,omitempty"` // time of the second copy over the first's; 0 where there is none
}

// seal makes the line of a run, with its newline.
func (r *Snapshot) seal() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(durable.Seal(data), '\n'), nil
}

const fileHelp = "`normbench history add RESULT` writes one; --file names another"

// A Log is the history that a file holds.
type Log struct {
	Runs  []Snapshot // in time's order, each once
	Notes []string   // what a person should know of the file

	text []byte // its whole lines
	torn bool   // its last line was dropped
}

// Read reads a history. A torn last line is dropped, with a note. Of two lines of one run the later counts.
func Read(path string) (*Log, error) {
	data, err := textfile.Read(path, textfile.Large)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hint.Errorf(fileHelp, "no history at %s", path)
	case err != nil:
		return nil, hint.Errorf(cmp.Or(hint.Of(err), fileHelp), "history %s: %w", path, durable.Cause(err))
	}
	return parseFile(path, data)
}

// parseFile reads the text of a file; name is for errors.
func parseFile(name string, data []byte) (*Log, error) {
	f := &Log{}
	at := map[string]int{}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		r, err := parseLine(line)
		switch torn := new(tornError); {
		case errors.As(err, &torn) && len(bytes.TrimSpace(rest)) == 0 && (n > 1 || bytes.HasPrefix(line, []byte(lineStart))):
			f.Notes = append(f.Notes, fmt.Sprintf("%s:%d: dropped the last line, which is incomplete", name, n))
			f.torn = true
			continue
		case errors.As(err, &torn) && n == 1:
			return nil, hint.Errorf(fileHelp, "%s is not a history: line 1 %w", name, err)
		case err != nil:
			return nil, hint.Errorf(cmp.Or(hint.Of(err), "delete the line, and add its run again"),
				"%s:%d: %w", name, n, err)
		}
		f.text = append(append(f.text, line...), '\n')
		f.torn = f.torn || !whole
		if i, ok := at[r.ID]; ok {
			f.Runs[i] = *r
			continue
		}
		at[r.ID] = len(f.Runs)
		f.Runs = append(f.Runs, *r)
	}
	f.sort()
	return f, nil
}

func (f *Log) sort() {
	slices.SortStableFunc(f.Runs, func(a, b Snapshot) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
}

// lineStart begins every line.
const lineStart = `{"schema":`

// A tornError is of a line that is no whole JSON object.
type tornError struct{ error }

// parseLine reads a line. It looks at the schema first, because a newer line may have any form.
func parseLine(line []byte) (*Snapshot, error) {
	if !json.Valid(line) {
		return nil, &tornError{errors.New("is no JSON")}
	}
	var head struct{ Schema int }
	if err := json.Unmarshal(line, &head); err != nil || head.Schema < 1 {
		return nil, hint.Errorf(fileHelp, "it is no run of a history")
	}
	if head.Schema > Schema {
		return nil, hint.Errorf("update normbench",
			"schema %d is newer than %d, the newest that this normbench reads", head.Schema, Schema)
	}
	if err := durable.Verify(line); err != nil {
		return nil, err
	}
	r := &Snapshot{}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, err
	}
	return r, r.validate()
}

// maxText is how many bytes a text of a run may have.
const maxText = 256

// validate refuses a run that nothing can be made of, and makes its texts lines that can be printed.
func (r *Snapshot) validate() error {
	for _, s := range []*string{&r.ID, &r.Commit, &r.Device, &r.Card, &r.UUID, &r.Driver, &r.Compiler, &r.Protocol.Name} {
		*s = kernels.MakePrintable(*s, maxText)
	}
	if r.ID == "" || r.Device == "" || r.Time.IsZero() {
		return errors.New("it has no run, device or time")
	}
	if len(r.Cells) == 0 {
		return errors.New("it has no cells")
	}
	seen := map[kernels.Problem]bool{}
	for _, c := range r.Cells {
		if seen[c.Problem] {
			return fmt.Errorf("%s is there twice", c.Problem)
		}
		seen[c.Problem] = true
		for arm, us := range c.US {
			if !(us > 0) || math.IsInf(us, 1) {
				return fmt.Errorf("%s: %.80q took %g us, which is no time", c.Problem, arm, us)
			}
			if arm != Stream && arm != Base && arm != Ours && !strings.HasPrefix(arm, PeerArm) {
				return fmt.Errorf("%s: %.80q is no arm", c.Problem, arm)
			}
		}
		if c.Again < 0 || math.IsInf(c.Again, 1) || math.IsNaN(c.Again) {
			return fmt.Errorf("%s: a second copy takes %g times the first's time", c.Problem, c.Again)
		}
	}
	return nil
}

// Add puts runs into a history's file, which need not be there, and says how many were not in it. The file is
// replaced as a whole, by one that has the new lines behind the old ones: whoever reads it sees whole lines.
func Add(path string, runs []Snapshot) (added int, notes []string, err error) {
	if strings.HasSuffix(path, ".gz") {
		return 0, nil, hint.Errorf("unpack it with `gunzip`", "history %s is packed, and cannot be added to", path)
	}
	release, err := record.HoldFolder(filepath.Dir(path))
	if err != nil {
		return 0, nil, err
	}
	defer release()
	f := &Log{}
	data, err := textfile.Read(path, textfile.Large)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, nil, hint.Errorf(cmp.Or(hint.Of(err), fileHelp), "history %s: %w", path, durable.Cause(err))
	default:
		if f, err = parseFile(path, data); err != nil {
			return 0, nil, err
		}
	}
	text := f.text
	for _, r := range runs {
		if err := r.validate(); err != nil {
			return 0, nil, fmt.Errorf("run %s: %w", r.ID, err)
		}
		line, err := r.seal()
		if err != nil {
			return 0, nil, err
		}
		same := func(x Snapshot) bool { return x.ID == r.ID && reflect.DeepEqual(x, *parsed(line)) }
		if slices.ContainsFunc(f.Runs, same) {
			continue
		}
		added++
		text = append(text, line...)
	}
	if added == 0 && !f.torn {
		return 0, f.Notes, nil
	}
	return added, f.Notes, durable.Place{Name: path}.Write(text)
}

// parsed returns a line that was just made, as it will be read.
func parsed(line []byte) *Snapshot {
	r, err := parseLine(bytes.TrimSpace(line))
	if err != nil {
		panic(err) // of a run that is valid
	}
	return r
}
