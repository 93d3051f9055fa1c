// Package record reads and writes records files: JSON Lines, append-only, one
// line per measured variant, raw samples kept.
//
// A line is a run or a record. Each has the schema version and its kind:
//
//	{"schema":2,"kind":"run","run":"…","time":"…","tool":"…","command":[…],"device":{…},"env":{…},"protocol":{…},"crc":"…"}
//	{"schema":2,"kind":"record","run":"…","key":"…","problem":"rmsnorm/bwd/4096x8192/bf16","family":"…","config":"…","status":"ok",…,"crc":"…"}
//
// A run line stands before the records of its run. The last field is a checksum,
// CRC-32C in eight hex digits of all before its comma. Within a schema version
// fields may be added, so a reader passes over those that it does not know. The
// end of the file may be torn by a killed run; readers drop that and say so. A
// whole line with another's checksum is an error.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Schema is the version of the lines that this package writes, and the newest
// that it reads.
const Schema = 2

// FileName is the records file in a results folder.
const FileName = "records.jsonl"

// Stream is the family of the stream record: a copy that moves the compulsory
// bytes of the problem, measured once per problem and run.
const Stream = "stream"

// A Run is one invocation that measured something. Its line stands before its
// records.
type Run struct {
	ID       string             `json:"run"`
	Time     time.Time          `json:"time"`
	Tool     string             `json:"tool"` // version of normbench
	Command  []string           `json:"command"`
	Device   kernels.DeviceInfo `json:"device"`
	Env      map[string]string  `json:"env,omitempty"` // host, os, commit and what else may explain a number
	Protocol Protocol           `json:"protocol"`
	SelfTest []Trial            `json:"selftest,omitempty"` // of the device, just before the run
	FloorUS  float64            `json:"floor_us,omitempty"` // an empty launch on a GPU, microseconds; 0 where not known
}

// FinalsSuffix makes the ID of a search's run that of its finals.
const FinalsSuffix = "-finals"

// The check of selftest whose finding is the floor, and one of runs up to 2026-11-25. It failed on
// every H100 and H200 by the driver's default of a limit, with nothing kept in the L2.
const (
	floorTrial   = "floor: an empty launch"
	droppedTrial = "L2 set aside for persisting lines"
)

// takeTimer fills in the floor of a run that was written without the number: it stands in
// the text of its selftest. The finals of a search were written without either, and have those
// of the search's run, which may be nil. A check that selftest makes no more is left out.
func (r *Run) takeTimer(search *Run) {
	r.SelfTest = slices.DeleteFunc(r.SelfTest, func(t Trial) bool { return t.Name == droppedTrial })
	if search != nil && len(r.SelfTest) == 0 {
		r.SelfTest, r.FloorUS = search.SelfTest, max(r.FloorUS, search.FloorUS)
	}
	for _, t := range r.SelfTest {
		if t.Name == floorTrial && r.FloorUS == 0 {
			fmt.Sscanf(t.Found, "%f us", &r.FloorUS)
		}
	}
}

// Failed says which checks of the selftest failed: "selftest: 1 of 11 checks failed: ...", "" if none.
func (r *Run) Failed() string {
	var failed []string
	for _, t := range r.SelfTest {
		if !t.OK {
			failed = append(failed, fmt.Sprintf("%s is %s, wanted %s", t.Name, t.Found, t.Wanted))
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return fmt.Sprintf("selftest: %d of %d checks failed: %s", len(failed), len(r.SelfTest), strings.Join(failed, "; "))
}

// A Trial is one check of the ruler on a device; see sweep.SelfTest.
type Trial struct {
	Name   string `json:"name"`
	Found  string `json:"found"`
	Wanted string `json:"wanted"`
	OK     bool   `json:"ok"`
}

// A Protocol says how times were taken.
type Protocol struct {
	Name         string `json:"name"`
	Samples      int    `json:"samples"`          // kept, per variant
	Discard      int    `json:"discard"`          // taken before them and thrown away
	StageSamples int    `json:"stage_samples"`    // per stage, in a pass of their own
	Flush        int64  `json:"flush"`            // bytes moved through the cache before each sample
	Rotate       bool   `json:"rotate,omitempty"` // each sample on another copy of the tensors
	Cold         bool   `json:"cold"`             // the cache holds nothing of the problem before each sample
	// Phase is empty for a grid; PhaseSearch for what a search saw on its way,
	// some of it once, and PhaseFinal for its best, measured again in turns.
	Phase string `json:"phase,omitempty"`
	// Search is the strategy, with its budget if it had one: "auto 10%".
	Search string `json:"search,omitempty"`
}

// The phases of a search.
const (
	PhaseSearch = "search"
	PhaseFinal  = "final"
)

// Cache is how the cache is before each sample: cold, rotate or warm, the three that do not compare.
func (p Protocol) Cache() string {
	switch {
	case p.Rotate:
		return "rotate"
	case p.Cold:
		return "cold"
	}
	return "warm"
}

// TimeOptions are the protocol's for n samples.
func (p Protocol) TimeOptions(n int) kernels.TimeOptions {
	return kernels.TimeOptions{Samples: n, Flush: p.Flush, Rotate: p.Rotate}
}

// A Record is one variant measured on one problem.
type Record struct {
	Run          string          `json:"run"` // ID of its run
	Key          string          `json:"key"` // made by Key
	Time         time.Time       `json:"time"`
	Problem      kernels.Problem `json:"problem"`
	Family       string          `json:"family"` // Stream for the stream
	Config       kernels.Config  `json:"config"`
	Base         bool            `json:"base,omitempty"` // the variant that runs before any tuning
	Status       kernels.Status  `json:"status"`
	Reason       string          `json:"reason,omitempty"` // why the status is not ok
	Source       string          `json:"source"`           // hash of the code, families.Identity.Source
	Launch       string          `json:"launch,omitempty"` // hash of what the plan launches, families.Identity.Launches
	Seed         uint64          `json:"seed"`             // of the inputs
	Bytes        int64           `json:"bytes"`            // compulsory traffic
	ScratchBytes int64           `json:"scratch_bytes,omitempty"`
	Check        *kernels.Check  `json:"check,omitempty"`
	SamplesUS    []float64       `json:"samples_us,omitempty"` // microseconds, in the order taken; see Micros
	Stages       []Stage         `json:"stages,omitempty"`
	StagesBy     string          `json:"stages_by,omitempty"` // events between launches, or CUPTI's record of each kernel alone
	// Visits are the launches of each visit in SamplesUS, where there was more
	// than one. Of the finals of a problem, visits of one number were one round.
	Visits []int `json:"visits,omitempty"`
	// SearchUS is the median that the search had seen before the finals: the
	// smaller it is beside theirs, the more of it was luck.
	SearchUS float64 `json:"search_us,omitempty"`
	// Finals counts the finals of the problem, on each of their records, which
	// follow each other: readers leave them out where some are missing.
	Finals int `json:"finals,omitempty"`
	// Chosen says why the variant is the problem's winner; empty on all others.
	Chosen string `json:"chosen,omitempty"`
	// Entry marks the variant that the tuned table held when the search began.
	Entry bool `json:"entry,omitempty"`
	// BaseAgainUS are, in the finals, the rounds of a second copy of the base.
	BaseAgainUS []float64 `json:"base_again_us,omitempty"`
	GapUS       float64   `json:"gap_us,omitempty"`    // by CUPTI: median time between the launches
	StreamUS    float64   `json:"stream_us,omitempty"` // median time of the stream in this run
	WallMS      float64   `json:"wall_ms,omitempty"`   // what the job took in all
	// State is what the device said of itself after the stream of a problem, under
	// load; other records have none.
	State *kernels.Reading `json:"state,omitempty"`
}

// A Stage holds the samples of one launch of a plan, in microseconds.
type Stage struct {
	Stage     string    `json:"stage"`
	SamplesUS []float64 `json:"samples_us"`
}

// StatusPruned is the status of a variant that a search did not run, for a
// reason of its own: it could not have won.
const StatusPruned kernels.Status = "pruned"

// Variant is the family and config.
func (r *Record) Variant() kernels.Variant {
	return kernels.Variant{Family: r.Family, Config: r.Config}
}

// Micros turns seconds into microseconds of as many digits as the file keeps:
// three after the point, five in all.
func Micros(seconds []float64) []float64 {
	us := make([]float64, len(seconds))
	for i, s := range seconds {
		if us[i] = math.Round(s*1e9) / 1e3; us[i] >= 100 {
			us[i] = digits(us[i], 5)
		}
	}
	return us
}

// A Code identifies what a variant runs, whatever its name: see families.Identity.
type Code struct{ Source, Launch string }

// String is what Key takes; without a Launch, the source alone.
func (c Code) String() string {
	if c.Launch == "" {
		return c.Source
	}
	return c.Source + "/" + c.Launch
}

// Key identifies a measurement: a sweep skips what its records file has under
// the same key, and of two records with one key the later counts. It is the
// first 16 bytes, in hex, of the SHA-256 of
//
//   - the problem and the variant,
//   - the device's ID, architecture, units, driver and compiler: after an
//     update of either the code or its clock may differ, so all is measured
//     again. The UUID is left out, so that equal cards of a CI pool share a
//     results folder; the run line keeps it,
//   - the code and the launches: a Code as a string,
//   - the protocol.
//
// The seed, the host and the version of normbench do not count.
func Key(p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo, source string, pr Protocol) string {
	return newKeyer(d, pr).key(p.String(), v.String(), source)
}

// A keyer makes the keys of a run.
type keyer struct {
	device, protocol []byte
}

func newKeyer(d kernels.DeviceInfo, pr Protocol) *keyer {
	protocol, err := json.Marshal(pr) // a field added later, empty, leaves the key as it was
	if err != nil {
		panic(err) // of plain values
	}
	return &keyer{
		device:   appendParts(nil, d.ID, d.Arch, fmt.Sprint(d.SMs), d.Driver, d.Compiler),
		protocol: appendParts(nil, string(protocol)),
	}
}

func (k *keyer) key(problem, variant, source string) string {
	text := append(appendParts(make([]byte, 0, 1<<10), problem, variant), k.device...)
	text = append(appendParts(text, source), k.protocol...)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:keyLen/2])
}

// appendParts keeps neighbours apart by their lengths.
func appendParts(b []byte, parts ...string) []byte {
	for _, s := range parts {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(append(append(b, ':'), s...), '\n')
	}
	return b
}

const keyLen = 32

// CheckValid says what no run line can hold, or nil. It is called before every
// write and after every read.
func (r *Run) CheckValid() error {
	const help = "a run line needs an ID, a time, a device and a protocol"
	switch {
	case r.ID == "":
		return hint.Errorf(help, "run without an ID")
	case r.Time.IsZero():
		return hint.Errorf(help, "run %s without a time", r.ID)
	case r.Device.ID == "":
		return hint.Errorf(help, "run %s without a device", r.ID)
	case r.Protocol.Name == "":
		return hint.Errorf(help, "run %s without a protocol", r.ID)
	case !(r.FloorUS >= 0) || math.IsInf(r.FloorUS, 0):
		return hint.Errorf(help, "run %s with a floor of %g us", r.ID, r.FloorUS)
	}
	if err := r.Device.Validate(); err != nil { // its ID names a folder
		return hint.Errorf(help, "run %s: %w", kernels.Printable(r.ID, 64), err)
	}
	return nil
}

// CheckValid says what no record line can hold, or nil. It is called before
// every write and after every read.
func (r *Record) CheckValid() error {
	if err := r.Problem.Validate(); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return hint.Errorf("ok records have samples, all others a reason; times are finite microseconds above 0",
			"record of %s on %s %s", r.Variant(), r.Problem, fmt.Sprintf(format, args...))
	}
	switch {
	case r.Run == "":
		return bad("has no run")
	case !isKey(r.Key):
		return bad("has key %q, not %d hex digits", r.Key, keyLen)
	case r.Time.IsZero():
		return bad("has no time")
	case r.Family == "":
		return bad("has no family")
	case !isWord(r.Status):
		return bad("has status %q", r.Status)
	case r.Bytes <= 0:
		return bad("has %d compulsory bytes", r.Bytes)
	case r.Finals < 0:
		return bad("has %d finals", r.Finals)
	case r.ScratchBytes < 0:
		return bad("has %d scratch bytes", r.ScratchBytes)
	case !(r.StreamUS >= 0) || math.IsInf(r.StreamUS, 0):
		return bad("has a stream time of %g us", r.StreamUS)
	case !(r.WallMS >= 0) || math.IsInf(r.WallMS, 0):
		return bad("has a wall time of %g ms", r.WallMS)
	case r.Status != kernels.StatusOK && len(r.SamplesUS)+len(r.Stages) > 0:
		return bad("is %s and yet has samples", r.Status)
	case r.Status != kernels.StatusOK && r.Reason == "":
		return bad("is %s without a reason", r.Status)
	case r.Status == kernels.StatusOK && len(r.SamplesUS) == 0:
		return bad("is ok without samples")
	}
	if i := badSample(r.BaseAgainUS); i >= 0 {
		return bad("has a round of %g us", r.BaseAgainUS[i])
	}
	if len(r.Visits) > 0 {
		sum := 0
		for _, v := range r.Visits {
			if v < 1 || v > len(r.SamplesUS) {
				return bad("has a visit of %d of its %d launches", v, len(r.SamplesUS))
			}
			sum += v
		}
		if sum != len(r.SamplesUS) {
			return bad("has visits of %d launches and %d samples", sum, len(r.SamplesUS))
		}
	}
	if !(r.SearchUS >= 0) || math.IsInf(r.SearchUS, 0) {
		return bad("has a search time of %g us", r.SearchUS)
	}
	if i := badSample(r.SamplesUS); i >= 0 {
		return bad("has a sample of %g us", r.SamplesUS[i])
	}
	for _, s := range r.Stages {
		if s.Stage == "" || len(s.SamplesUS) == 0 {
			return bad("has a stage %q with %d samples", s.Stage, len(s.SamplesUS))
		}
		if i := badSample(s.SamplesUS); i >= 0 {
			return bad("has a sample of %g us in stage %s", s.SamplesUS[i], s.Stage)
		}
	}
	if r.Check != nil {
		for _, o := range r.Check.Outputs {
			if !isFinite(o.MaxErr) || !isFinite(o.RelL2) {
				return bad("has an error that is not finite in output %s", o.Name)
			}
		}
		if !isFinite(r.Check.Busy) {
			return bad("has a check time that is not finite")
		}
		if !(r.Check.Compile >= 0) || math.IsInf(r.Check.Compile, 0) {
			return bad("has a compile time of %g s", r.Check.Compile)
		}
	}
	return nil
}

// badSample is the index of the first sample that is no time, or -1.
func badSample(us []float64) int {
	for i, s := range us {
		if !(s > 0) || math.IsInf(s, 0) {
			return i
		}
	}
	return -1
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func isKey(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return len(s) == keyLen
}

// isWord takes statuses of later versions too: readers only ask whether one is
// ok.
func isWord(s kernels.Status) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return s != ""
}
