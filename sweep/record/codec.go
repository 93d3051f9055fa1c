package record

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
)

const (
	kindRun    = "run"
	kindRecord = "record"
)

// A Line is a line of a records file: a *Run or a *Record.
type Line = interface{ CheckValid() error }

// A head has the fields that begin each line.
type head struct {
	Schema int    `json:"schema"`
	Kind   string `json:"kind"`
	More   int    `json:"more,omitempty"` // lines of the same append that follow
	Of     int    `json:"of,omitempty"`   // lines of the append, where there are several
}

// writing says how lines are encoded: with version 1's omitempty, which the tags of kernels' types mean,
// and with five significant digits, as no more are measured.
var writing = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(func(e *jsontext.Encoder, x float64) error {
		return e.WriteToken(jsontext.Float(digits(x, 5)))
	})))

// encode writes a line as text with its newline. more is the number of lines of the same append that
// follow, of the number of all its lines.
func encode(v Line, more, of int) ([]byte, error) {
	h := head{Schema: Schema, More: more}
	if of > 1 {
		h.Of = of
	}
	var line any
	switch v := v.(type) {
	case *Run:
		h.Kind = kindRun
		line = struct {
			head
			*Run
		}{h, v}
	case *Record:
		h.Kind = kindRecord
		r := struct {
			head
			*Record
			Bytes int64 `json:"bytes,omitempty"` // none where it is the problem's
		}{h, v, v.Bytes}
		if r.Bytes == v.Problem.Bytes() {
			r.Bytes = 0
		}
		line = r
	default:
		return nil, fmt.Errorf("a records file holds no %T", v)
	}
	text, err := jsonv2.Marshal(line, writing)
	if err != nil {
		return nil, err
	}
	if text = append(durable.Seal(text), '\n'); len(text) > maxLine {
		return nil, fmt.Errorf("a line of %d MiB, which could not be read again", len(text)>>20)
	}
	return text, nil
}

// Micros converts seconds to microseconds with the digits that the file keeps: five, and at most three
// after the point. The clock of a GPU ticks every 0.032 us.
func Micros(seconds []float64) []float64 {
	us := make([]float64, len(seconds))
	for i, s := range seconds {
		if us[i] = digits(s*1e6, 5); us[i] > 1e-3 {
			us[i] = math.Round(us[i]*1e3) / 1e3
		}
	}
	return us
}

// digits rounds x to n significant digits.
func digits(x float64, n int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', n-1, 64), 64)
	if err != nil { // beyond all numbers
		return x
	}
	return y
}

// The errors of a line that a write which was cut short may leave.
var (
	// These are the errors of a line that may be left of an interrupted write.
	errSyntax = errors.New("not JSON")
	errSum    = errors.New("the line's checksum does not match: it was changed by hand, or is damaged")
)

// The ways out of a line that is damaged, and of one that is no record.
const (
	lineHelp = "take the file from a copy, or delete the line: a sweep measures again what is missing"
	headHelp = `a records file is JSON Lines with "schema" and "kind" in every line`
	mendHelp = "delete or mend the line"
)

// A decoder decodes lines.
//
// It uses encoding/json/v2 in its form for all toolchains, twice as fast as encoding/json here.
// github.com/segmentio/encoding is a fifth faster still, but v0.5.4 read memory of other values behind
// an embedded pointer, as the race detector's checkptr shows: too much for a fifth.
type decoder struct {
	// To parse a problem and a config for every line took longer than the rest.
	problems map[string]namedProblem
	configs  map[string]kernels.Config
}

// A namedProblem is a problem with its text and its compulsory bytes, as every record of it needs both.
type namedProblem struct {
	kernels.Problem
	name  string
	bytes int64
}

// parseProblem parses a problem and computes its text and bytes.
func parseProblem(text string) (namedProblem, error) {
	p, err := kernels.ParseProblem(text)
	if err != nil {
		return namedProblem{}, err
	}
	return namedProblem{p, p.String(), p.Bytes()}, nil
}

func newDecoder() *decoder {
	return &decoder{problems: map[string]namedProblem{}, configs: map[string]kernels.Config{}}
}

// decode fills in what a line says, or its error and what kind of damage that is.
func (d *decoder) decode(it *item, line []byte) {
	if it.err = d.fill(it, line); it.err != nil {
		it.torn = errors.Is(it.err, errSyntax) || errors.Is(it.err, errSum)
		sealed, _ := durable.CheckSeal(line)
		it.foreign = !it.torn && !sealed
		it.looksOurs = mayBeOurs(line)
	}
}

// fill decodes and checks a line; it fills in its run or its record.
func (d *decoder) fill(it *item, b []byte) error {
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
		Shard    *Shard             `json:"shard"`
	}
	if sealed, ok := durable.CheckSeal(b); sealed && !ok {
		return hint.With(errSum, lineHelp)
	}
	if err := textfile.CheckConflict(b); err != nil {
		return err
	}
	if err := jsonv2.Unmarshal(b, &l); err != nil {
		return diagnose(b, err)
	}
	if err := l.check(); err != nil {
		return err
	}
	if it.more, it.of = l.More, l.Of; l.Kind == kindRun {
		it.run = &Run{l.Run, l.Time, l.Tool, l.Command, l.Device, l.Env, l.Protocol, l.SelfTest,
			l.FloorUS, l.Shard}
		it.run.makePrintable()
		return it.run.CheckValid()
	}
	p, err := parseOnce(d.problems, l.Problem, parseProblem)
	if err != nil {
		return err
	}
	r := &l.Record
	if r.Config, err = parseOnce(d.configs, l.Config, kernels.ParseConfig); err != nil {
		return err
	}
	if r.Problem = p.Problem; r.Bytes == 0 {
		r.Bytes = p.bytes
	}
	it.record, it.problem, it.variant = r, p.name, r.Variant().String()
	it.code = CodeHash{r.Source, r.Launch}.String()
	r.makePrintable()
	return r.CheckValid()
}

// parseOnce parses a text, or returns what it parsed of the same text before: to parse a problem and a
// config for every line took longer than the rest.
func parseOnce[T any](known map[string]T, text string, parse func(string) (T, error)) (T, error) {
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

// check refuses a line of another schema or of an unknown kind.
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

// diagnose says what is wrong with a line that did not decode: it is no JSON, or of a newer schema, or
// has a field of another type.
func diagnose(b []byte, err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return hint.Errorf(mendHelp, "a field stands twice in the line")
	}
	var h head
	var syntactic *jsontext.SyntacticError
	var semantic *jsonv2.SemanticError
	headErr := jsonv2.Unmarshal(b, &h)
	switch {
	case errors.As(headErr, &syntactic), b[0] != '{': // an end of a line may be a number by itself
		return hint.With(errSyntax, mendHelp)
	case headErr != nil:
		return hint.Errorf(headHelp, "not a records line")
	case h.check() != nil:
		return h.check()
	case !errors.As(err, &semantic):
		return hint.With(errSyntax, mendHelp)
	}
	return hint.Errorf(mendHelp, "%s line with a bad value at %q", h.Kind,
		string(semantic.JSONPointer))
}
