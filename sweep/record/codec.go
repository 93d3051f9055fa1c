package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
}

// encode is the line of a run or record, newline included.
func encode(v any) ([]byte, error) {
	var w any
	switch v := v.(type) {
	case *Run:
		w = struct {
			head
			*Run
		}{head{Schema, kindRun}, v}
	case *Record:
		w = struct {
			head
			*Record
		}{head{Schema, kindRecord}, v}
	default:
		return nil, fmt.Errorf("a records file holds no %T", v)
	}
	// Version 1 writes, although version 2 reads: the tags of kernels' types
	// mean version 1's omitempty, and writing is not what takes the time.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(w)
	return b.Bytes(), err
}

// errSyntax marks a line that is not JSON, as a torn one.
var errSyntax = errors.New("not JSON")

// A decoder decodes lines. It belongs to one goroutine.
//
// It uses encoding/json/v2 in its form for all toolchains, twice as fast as
// encoding/json here (BenchmarkDecode). github.com/segmentio/encoding is a fifth
// faster still, but v0.5.4 read memory of other values behind an embedded
// pointer, as the race detector's checkptr shows: too much for a fifth.
type decoder struct {
	line     line
	reuse    bool // lend the same Record for every line
	problems map[string]kernels.Problem
	configs  map[string]kernels.Config
	words    map[string]string
}

func newDecoder(reuse bool) *decoder {
	return &decoder{
		reuse:    reuse,
		problems: map[string]kernels.Problem{},
		configs:  map[string]kernels.Config{},
		words:    map[string]string{},
	}
}

// decode returns the run or the record of a line, checked. With d.reuse the
// record and its samples are valid until the next call; strings last.
func (d *decoder) decode(b []byte) (*Run, *Record, error) {
	l := new(line)
	if d.reuse {
		l = &d.line
		*l = line{Record: Record{SamplesUS: l.SamplesUS[:0]}}
	}
	if err := jsonv2.Unmarshal(b, l); err != nil {
		return nil, nil, diagnose(b, err)
	}
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	if l.Kind == kindRun {
		r := &Run{l.Run, l.Time, l.Tool, l.Command, l.Device, l.Env, l.Protocol, l.SelfTest}
		return r, nil, r.CheckValid()
	}
	r := &l.Record
	var ok bool
	var err error
	if r.Problem, ok = d.problems[l.Problem]; !ok {
		if r.Problem, err = kernels.ParseProblem(l.Problem); err != nil {
			return nil, nil, err
		}
		d.problems[l.Problem] = r.Problem
	}
	if r.Config, ok = d.configs[l.Config]; !ok {
		if r.Config, err = kernels.ParseConfig(l.Config); err != nil {
			return nil, nil, err
		}
		d.configs[l.Config] = r.Config
	}
	return nil, r, r.CheckValid()
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
	case h.Schema < 0:
		return hint.Errorf("schemas count from 1", "schema %d does not exist", h.Schema)
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
