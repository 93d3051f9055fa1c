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

// A Line is what a records file holds: a *Run or a *Record.
type Line = interface{ CheckValid() error }

// A head is the beginning of each line.
type head struct {
	Schema int    `json:"schema"`
	Kind   string `json:"kind"`
	More   int    `json:"more,omitempty"` // lines of the same append that follow
	Of     int    `json:"of,omitempty"`   // lines of the append, where there are several
}

// encode is the text of a line, newline included, with more lines of the same
// append after it, which has so many in all. The record is rounded.
func encode(v Line, more, of int) ([]byte, error) {
	var w any
	if of == 1 {
		of = 0
	}
	switch v := v.(type) {
	case *Run:
		w = struct {
			head
			*Run
		}{head{Schema, kindRun, more, of}, v}
	case *Record:
		r := struct {
			head
			*Record
			Bytes int64 `json:"bytes,omitempty"` // none where it is the problem's
		}{head{Schema, kindRecord, more, of}, v, v.Bytes}
		if r.Bytes == v.Problem.Bytes() {
			r.Bytes = 0
		}
		w = r
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

// rounded is r with no more digits than were measured, as it is written.
func (r *Record) rounded() *Record {
	c := *r
	c.SamplesUS, c.BaseAgainUS = micros(r.SamplesUS), micros(r.BaseAgainUS)
	c.SearchUS, c.GapUS, c.StreamUS = micro(r.SearchUS), micro(r.GapUS), micro(r.StreamUS)
	c.WallMS = digits(r.WallMS, 3)
	c.Stages = nil
	for _, s := range r.Stages {
		c.Stages = append(c.Stages, Stage{s.Stage, micros(s.SamplesUS)})
	}
	if r.Check != nil {
		check := *r.Check
		check.Busy, check.Compile = digits(check.Busy, 3), digits(check.Compile, 3)
		check.Outputs = slices.Clone(check.Outputs)
		for i := range check.Outputs {
			o := &check.Outputs[i]
			o.MaxErr, o.RelL2 = digits(o.MaxErr, 3), digits(o.RelL2, 3)
		}
		c.Check = &check
	}
	return &c
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

// The errors of a line that a write which was cut short may leave.
var (
	errSyntax = errors.New("not JSON")
	errSum    = errors.New("the line's checksum does not match: it was changed by hand, or is damaged")
)

// The ways out of a line that is damaged, and of one that is no record.
const (
	lineHelp = "take the file from a copy, or delete the line: a sweep measures again what is missing"
	headHelp = `a records file is JSON Lines with "schema" and "kind" in every line`
	mendHelp = "delete or mend the line"
)

// maxText is how long a text of a line may be.
const maxText = 16 << 10

// A decoder decodes lines. It belongs to one goroutine.
//
// It uses encoding/json/v2 in its form for all toolchains, twice as fast as
// encoding/json here. github.com/segmentio/encoding is a fifth faster still, but
// v0.5.4 read memory of other values behind an embedded pointer, as the race
// detector's checkptr shows: too much for a fifth.
type decoder struct {
	// To parse a problem and a config for every line took longer than the rest.
	problems map[string]problem
	configs  map[string]kernels.Config
	chunk    []byte // whose lines it decodes
}

// A problem is one with what every record of it says again.
type problem struct {
	kernels.Problem
	name  string
	bytes int64
}

func parseProblem(text string) (problem, error) {
	p, err := kernels.ParseProblem(text)
	if err != nil {
		return problem{}, err
	}
	return problem{p, p.String(), p.Bytes()}, nil
}

func newDecoder() *decoder {
	return &decoder{problems: map[string]problem{}, configs: map[string]kernels.Config{}}
}

// decode fills in what a line says, the run or the record checked.
func (d *decoder) decode(it *item, b []byte) error {
	var l struct { // any line, so that one pass is enough
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
	sealed, ok := durable.Sealed(b)
	if sealed && !ok {
		return hint.With(errSum, lineHelp)
	}
	if err := jsonv2.Unmarshal(b, &l); err != nil {
		return diagnose(b, err)
	}
	if err := l.check(); err != nil {
		return err
	}
	if !sealed {
		return hint.Errorf(lineHelp, "the line lacks its checksum: it was changed by hand, or is damaged")
	}
	if it.more, it.of = l.More, l.Of; l.Kind == kindRun {
		l.Tool = kernels.Printable(l.Tool, maxText)
		for k, text := range l.Env { // peers' versions, the host
			delete(l.Env, k)
			l.Env[kernels.Printable(k, maxText)] = kernels.Printable(text, maxText)
		}
		for i := range l.Command {
			l.Command[i] = kernels.Printable(l.Command[i], maxText)
		}
		it.run = &Run{l.Run, l.Time, l.Tool, l.Command, l.Device, l.Env, l.Protocol, l.SelfTest, l.FloorUS}
		return it.run.CheckValid()
	}
	p, err := parsed(d.problems, l.Problem, parseProblem)
	if err != nil {
		return err
	}
	r := &l.Record
	for _, s := range []*string{(*string)(&r.Status), &r.Reason, &r.Chosen} {
		if *s != "" {
			*s = kernels.Printable(*s, maxText)
		}
	}
	if r.Config, err = parsed(d.configs, l.Config, kernels.ParseConfig); err != nil {
		return err
	}
	if r.Problem = p.Problem; r.Bytes == 0 {
		r.Bytes = p.bytes
	}
	it.record, it.problem = r, p.name
	return r.CheckValid()
}

// parsed is what parse makes of a text, once for each.
func parsed[T any](known map[string]T, text string, parse func(string) (T, error)) (T, error) {
	v, ok := known[text]
	if ok {
		return v, nil
	}
	v, err := parse(text)
	if err == nil {
		known[text] = v
	}
	return v, err
}

func (h *head) check() error {
	switch {
	case h.Schema == 0:
		return hint.Errorf(headHelp, "not a records line: it has no schema")
	case h.Schema > Schema:
		return hint.Errorf("update normbench",
			"schema %d is newer than %d, the newest that this normbench reads", h.Schema, Schema)
	case h.Schema < Schema:
		return hint.Errorf("measure again: a sweep writes a new file",
			"schema %d is older than %d, which this normbench reads", h.Schema, Schema)
	case h.Kind == "":
		return hint.Errorf(headHelp, "not a records line: it has no kind")
	case h.Kind != kindRun && h.Kind != kindRecord:
		return hint.Errorf("the kinds are run and record", "unknown kind %q", h.Kind)
	}
	return nil
}

// diagnose says what is wrong with a line that did not decode: no JSON, or JSON
// of a newer schema, or a field of another type.
func diagnose(b []byte, err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return hint.Errorf(mendHelp, "a field stands twice in the line")
	}
	var h head
	var syntactic *jsontext.SyntacticError
	var semantic *jsonv2.SemanticError
	headErr := jsonv2.Unmarshal(b, &h)
	switch {
	case errors.As(headErr, &syntactic):
		return hint.With(errSyntax, mendHelp)
	case headErr != nil:
		return hint.Errorf(headHelp, "not a records line")
	case h.check() != nil:
		return h.check()
	case !errors.As(err, &semantic):
		return hint.With(errSyntax, mendHelp)
	}
	return hint.Errorf(mendHelp, "%s line with a bad value at %q", h.Kind, string(semantic.JSONPointer))
}
