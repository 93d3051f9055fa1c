package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
)

const (
	kindRun    = "run"
	kindRecord = "record"
)

type head struct {
	Schema int    `json:"schema"`
	Kind   string `json:"kind"`
	More   int    `json:"more,omitempty"` // lines of the same append that follow
}

// A line is any line of a records file as the decoder sees it: one pass, no
// look at the kind beforehand. Problem and Config shadow the typed fields of
// Record, because parsing their text for every line took longer than the rest.
type line struct {
	head
	Record
	Problem string `json:"problem"`
	Config  string `json:"config"`

	Tool     string             `json:"tool"`
	Command  []string           `json:"command"`
	Device   kernels.DeviceInfo `json:"device"`
	Env      map[string]string  `json:"env"`
	Protocol Protocol           `json:"protocol"`
	SelfTest []Trial            `json:"selftest"`
	FloorUS  float64            `json:"floor_us"`
}

// encode is the line of a run or record, newline included, with more lines of
// the same append after it.
func encode(v any, more int) ([]byte, error) {
	var w any
	switch v := v.(type) {
	case *Run:
		w = struct {
			head
			*Run
		}{head{Schema, kindRun, more}, v}
	case *Record:
		w = newLean(v, more)
	default:
		return nil, fmt.Errorf("a records file holds no %T", v)
	}
	// Version 1 writes, although version 2 reads: the tags of kernels' types
	// mean version 1's omitempty, and writing is not what takes the time.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(w); err != nil {
		return nil, err
	}
	return append(durable.Seal(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), '\n'), nil
}

// A lean record leaves out what is zero or follows from its problem, and writes
// no more digits than were measured.
type lean struct {
	head
	Record
	Bytes int64 `json:"bytes,omitempty"` // none where it is the problem's
}

func newLean(r *Record, more int) *lean {
	w := &lean{head: head{Schema, kindRecord, more}, Record: *r}
	if w.Bytes = r.Bytes; w.Bytes == r.Problem.Bytes() {
		w.Bytes = 0
	}
	w.Record.SamplesUS, w.BaseAgainUS = micros(r.SamplesUS), micros(r.BaseAgainUS)
	w.SearchUS, w.GapUS, w.StreamUS = micro(r.SearchUS), micro(r.GapUS), micro(r.StreamUS)
	w.WallMS = digits(r.WallMS, 3)
	w.Stages = nil
	for _, s := range r.Stages {
		w.Stages = append(w.Stages, Stage{s.Stage, micros(s.SamplesUS)})
	}
	if r.Check != nil {
		c := *r.Check
		c.Busy, c.Compile, c.Outputs = digits(c.Busy, 3), digits(c.Compile, 3), slices.Clone(c.Outputs)
		for i := range c.Outputs {
			o := &c.Outputs[i]
			o.MaxErr, o.RelL2 = digits(o.MaxErr, 3), digits(o.RelL2, 3)
		}
		w.Check = &c
	}
	return w
}

// micro is a time in microseconds with the digits that are kept of one: three
// after the point, and no more than five in all. The clock of a GPU ticks every
// 0.032.
func micro(us float64) float64 {
	if us >= 100 {
		return digits(us, 5)
	}
	return max(math.Round(us*1e3)/1e3, min(us, 1e-3)) // no time becomes none
}

func micros(us []float64) []float64 {
	var all []float64
	for _, t := range us {
		all = append(all, micro(t))
	}
	return all
}

// digits rounds x to n significant ones.
func digits(x float64, n int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', n-1, 64), 64)
	if err != nil { // beyond all numbers
		return x
	}
	return y
}

// errSyntax marks a line that is not JSON, as a torn one.
var errSyntax = errors.New("not JSON")

// lineHelp is the way out of a line that is damaged.
const lineHelp = "take the file from a copy, or delete the line: a sweep measures again what is missing"

// A problem is one with what every record of it says again.
type problem struct {
	kernels.Problem
	name  string
	bytes int64
}

// A decoder decodes lines. It belongs to one goroutine.
//
// It uses encoding/json/v2 in its form for all toolchains, twice as fast as
// encoding/json here (BenchmarkDecode). github.com/segmentio/encoding is a fifth
// faster still, but v0.5.4 read memory of other values behind an embedded
// pointer, as the race detector's checkptr shows: too much for a fifth.
type decoder struct {
	problems map[string]problem
	configs  map[string]kernels.Config
	words    map[string]string
	problem  problem // of the last record
}

func newDecoder() *decoder {
	return &decoder{
		problems: map[string]problem{},
		configs:  map[string]kernels.Config{},
		words:    map[string]string{},
	}
}

// decode returns the head and the run or the record of a line, checked.
func (d *decoder) decode(b []byte) (head, *Run, *Record, error) {
	l := new(line)
	sealed, ok := durable.Sealed(b)
	if sealed && !ok {
		return l.head, nil, nil, hint.Errorf(lineHelp, "the line's checksum does not match: it was changed by hand, or is damaged")
	}
	if err := jsonv2.Unmarshal(b, l); err != nil {
		return l.head, nil, nil, diagnose(b, err)
	}
	if err := l.check(); err != nil {
		return l.head, nil, nil, err
	}
	if !sealed {
		return l.head, nil, nil, hint.Errorf(lineHelp, "the line lacks its checksum: it was changed by hand, or is damaged")
	}
	if l.Kind == kindRun {
		r := &Run{l.Run, l.Time, l.Tool, l.Command, l.Device, l.Env, l.Protocol, l.SelfTest, l.FloorUS}
		return l.head, r, nil, r.CheckValid()
	}
	r := &l.Record
	var err error
	if d.problem, err = d.parseProblem(l.Problem); err != nil {
		return l.head, nil, nil, err
	}
	r.Problem = d.problem.Problem
	if r.Bytes == 0 {
		r.Bytes = d.problem.bytes
	}
	if r.Config, ok = d.configs[l.Config]; !ok {
		if r.Config, err = kernels.ParseConfig(l.Config); err != nil {
			return l.head, nil, nil, err
		}
		d.configs[l.Config] = r.Config
	}
	return l.head, nil, r, r.CheckValid()
}

func (d *decoder) parseProblem(text string) (problem, error) {
	p, ok := d.problems[text]
	if !ok {
		k, err := kernels.ParseProblem(text)
		if err != nil {
			return p, err
		}
		p = problem{k, k.String(), k.Bytes()}
		d.problems[text] = p
	}
	return p, nil
}

// intern returns one string for all that equal s, so that a file's words are in
// memory once.
func (d *decoder) intern(s string) string {
	if w, ok := d.words[s]; ok {
		return w
	}
	d.words[s] = s
	return s
}

func (h *head) check() error {
	switch {
	case h.Schema == 0:
		return hint.Errorf("a records file is JSON Lines with \"schema\" and \"kind\" in every line", "not a records line: it has no schema")
	case h.Schema > Schema:
		return hint.Errorf("update normbench", "schema %d is newer than %d, the newest that this normbench reads", h.Schema, Schema)
	case h.Schema < Schema:
		return hint.Errorf("measure again: a sweep writes a new file",
			"schema %d is older than %d, which this normbench reads", h.Schema, Schema)
	case h.Kind == "":
		return hint.Errorf("a records file is JSON Lines with \"schema\" and \"kind\" in every line", "not a records line: it has no kind")
	case h.Kind != kindRun && h.Kind != kindRecord:
		return hint.Errorf("the kinds are run and record", "unknown kind %q", h.Kind)
	}
	return nil
}

// diagnose says what is wrong with a line that did not decode: no JSON, or JSON
// of a newer schema, or a field of another type.
func diagnose(b []byte, err error) error {
	var h head
	var syntactic *jsontext.SyntacticError
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return hint.Errorf("delete or mend the line", "a field stands twice in the line")
	}
	switch headErr := jsonv2.Unmarshal(b, &h); {
	case errors.As(headErr, &syntactic):
		return hint.With(errSyntax, "delete or mend the line")
	case headErr != nil:
		return hint.Errorf("a records file is JSON Lines with \"schema\" and \"kind\" in every line", "not a records line")
	}
	if err := h.check(); err != nil {
		return err
	}
	var semantic *jsonv2.SemanticError
	if !errors.As(err, &semantic) {
		return hint.With(errSyntax, "delete or mend the line")
	}
	return hint.Errorf("delete or mend the line", "%s line with a bad value at %q", h.Kind, string(semantic.JSONPointer))
}
