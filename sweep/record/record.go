// Package record reads and writes records files: JSON Lines, append-only, one
// line per measured variant, raw samples kept.
//
// A line is a run or a record. Each has the schema version and its kind:
//
//	{"schema":2,"kind":"run","run":"…","time":"…","tool":"…","command":[…],"device":{…},"env":{…},"protocol":{…},"crc":"…"}
//	{"schema":2,"kind":"record","run":"…","key":"…","problem":"rmsnorm/bwd/4096x8192/bf16","family":"…","config":"…","status":"ok",…,"crc":"…"}
//
// A run line stands before the records of its run. The last field is a checksum,
// CRC-32C in eight hex digits of all before its comma. Lines of a packed file may
// have none, as gzip has one of the whole. Within a schema version
// fields may be added, so a reader passes over those that it does not know. The
// end of the file may be torn by a killed run; readers drop that and say so. A
// whole line with another's checksum is an error.
package record

import (
	"fmt"
	"strings"
	"time"

	"normbench/kernels"
	"normbench/sweep/stats"
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
	Shard    *Shard             `json:"shard,omitempty"`    // nil where the run had all problems of its command
}

// A Shard is one of several parts of a command's problems. Each is measured by a run of its own.
type Shard struct {
	Index    int    `json:"index"`    // from 1
	Count    int    `json:"count"`    // of shards
	Problems int    `json:"problems"` // of this one; those of each family against itself count by themselves
	Variants int    `json:"variants"` // likewise
	All      int    `json:"all"`      // problems of all shards
	Plan     string `json:"plan"`     // hash of what the shards measure together
}

// String writes the shard as --shard takes it: 3/8.
func (s *Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Folder is where a shard's files are, below the folder of all.
func (s *Shard) Folder() string { return fmt.Sprintf("shard-%d-of-%d", s.Index, s.Count) }

// IsIn says whether the shard is one of those that it counts.
func (s *Shard) IsIn() bool { return 1 <= s.Index && s.Index <= s.Count }

// FinalsSuffix is appended to the ID of a search's run to make the ID of its finals' run.
const FinalsSuffix = "-finals"

// The checks of selftest whose findings are numbers of a run.
const (
	stepTrial   = "timer step"
	streamTrial = "stream, "
	noiseTrial  = "noise: "
)

// EmptyUS computes the time of an empty launch less a step of the timer, in microseconds; 0 where it is
// not known. No true time is shorter.
func (r *Run) EmptyUS() float64 {
	step := 1.0 // as much as selftest lets pass
	for _, t := range r.SelfTest {
		if t.Name == stepTrial {
			fmt.Sscanf(t.Found, "%f us", &step)
		}
	}
	return max(r.FloorUS-step, 0)
}

// StreamRate reads the rate of the selftest's stream, in GB/s; 0 where it is not known.
func (r *Run) StreamRate() (rate float64) {
	for _, t := range r.SelfTest {
		if strings.HasPrefix(t.Name, streamTrial) {
			fmt.Sscanf(t.Found, "%f GB/s", &rate)
		}
	}
	return rate
}

// StreamNoise returns the spread of the selftest's stream, relatively; 0 where it is not known.
func (r *Run) StreamNoise() (noise float64) {
	for _, t := range r.SelfTest {
		if strings.HasPrefix(t.Name, noiseTrial) {
			fmt.Sscanf(t.Found, "%f%%", &noise)
		}
	}
	return noise / 100
}

// Failures says which checks of the selftest failed: "selftest: 1 of 11 checks failed: ...", "" if none.
func (r *Run) Failures() string {
	var failed []string
	for _, t := range r.SelfTest {
		if !t.OK {
			failed = append(failed, fmt.Sprintf("%s is %s, wanted %s", t.Name, t.Found, t.Wanted))
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return fmt.Sprintf("selftest: %d of %d checks failed: %s", len(failed), len(r.SelfTest),
		strings.Join(failed, "; "))
}

// A Trial is one check of the timer by sweep.SelfTest.
type Trial struct {
	Name   string `json:"name"`
	Found  string `json:"found"`
	Wanted string `json:"wanted"`
	OK     bool   `json:"ok"`
}

// A Protocol says how times were taken. It is part of a record's key.
type Protocol struct {
	Name         string `json:"name"`
	Samples      int    `json:"samples"`          // kept, per variant
	Discard      int    `json:"discard"`          // taken before them and thrown away
	StageSamples int    `json:"stage_samples"`    // per stage, in a pass of their own
	Flush        int64  `json:"flush"`            // bytes moved through the cache before each sample
	Rotate       bool   `json:"rotate,omitempty"` // of earlier versions: each sample on another copy of the tensors
	Cold         bool   `json:"cold"`             // the cache holds nothing of the problem before each sample
	// Inputs is the kernels.InputsVersion that was checked and timed; 0 stands for 1.
	Inputs int `json:"inputs,omitempty"`
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

// Cache returns the state of the cache before each sample: cold, rotate or warm. Times of different
// states do not compare.
func (p Protocol) Cache() string {
	switch {
	case p.Rotate:
		return "rotate"
	case p.Cold:
		return "cold"
	}
	return "warm"
}

// TimeOptions makes the device's options for n samples with this protocol.
func (p Protocol) TimeOptions(n int) kernels.TimeOptions {
	return kernels.TimeOptions{Samples: n, Flush: p.Flush}
}

// A Record is one variant measured on one problem.
type Record struct {
	Run     string          `json:"run"`           // ID of its run
	Key     string          `json:"key,omitempty"` // made by Key; where a line has none, by its reader
	Time    time.Time       `json:"time"`
	Problem kernels.Problem `json:"problem"`
	Family  string          `json:"family"` // Stream for the stream
	Config  kernels.Config  `json:"config"`
	Base    bool            `json:"base,omitempty"` // the variant that runs before any tuning
	// BaseOf is the family that was measured against itself: Base marks its own default, Default
	// what normbench runs, beside it. It is "" where the base is normbench's default.
	BaseOf       string         `json:"base_of,omitempty"`
	Default      bool           `json:"default,omitempty"`
	Status       kernels.Status `json:"status"`
	Reason       string         `json:"reason,omitempty"` // why the status is not ok
	Source       string         `json:"source"`           // hash of the code, families.Identity.Source
	Launch       string         `json:"launch,omitempty"` // hash of what the plan launches, families.Identity.Launches
	Seed         uint64         `json:"seed"`             // of the inputs
	Bytes        int64          `json:"bytes"`            // compulsory traffic
	ScratchBytes int64          `json:"scratch_bytes,omitempty"`
	Check        *kernels.Check `json:"check,omitempty"`
	SamplesUS    []float64      `json:"samples_us,omitempty"` // microseconds, in the order taken; see Micros
	Stages       []Stage        `json:"stages,omitempty"`
	StagesBy     string         `json:"stages_by,omitempty"` // how: kernels.ByExposed and others
	// Visits are the launches of each visit in SamplesUS, where there was more
	// than one. Of the finals of a problem, visits of one number were one round.
	Visits []int `json:"visits,omitempty"`
	// SearchUS is the median that the search had seen before the finals: the
	// smaller it is beside theirs, the more of it was luck.
	SearchUS float64 `json:"search_us,omitempty"`
	// Finals counts the finals of the problem, on each of their records.
	Finals int `json:"finals,omitempty"`
	// Chosen says why the variant is the problem's winner; empty on all others.
	Chosen string `json:"chosen,omitempty"`
	// Entry marks the variant that the tuned table held when the search began.
	Entry bool `json:"entry,omitempty"`
	// BaseAgainUS are, in the finals, the rounds of a second copy of the base.
	BaseAgainUS []float64 `json:"base_again_us,omitempty"`
	GapUS       float64   `json:"gap_us,omitempty"`    // of a peer, by its profiler: median time between the launches
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

// Evidence begins the part of a reason that says why a crash or a timeout is blamed on the variant.
const Evidence = " (it took its device down "

// Variant returns the family and config.
func (r *Record) Variant() kernels.Variant {
	return kernels.Variant{Family: r.Family, Config: r.Config}
}

// Rounds computes the median of each visit in SamplesUS; nil where there was only one visit.
func (r *Record) Rounds() (us []float64) {
	n := 0
	for _, v := range r.Visits {
		us = append(us, stats.Median(r.SamplesUS[n:n+v]))
		n += v
	}
	return us
}
