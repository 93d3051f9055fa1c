package kernels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

var nan32 = float32(math.NaN())

// The kinds of devices.
const (
	// The kinds of devices.
	KindCPU  = "cpu"
	KindCUDA = "cuda"
)

// A DeviceInfo describes a device, as the device reports it. Launch rules read the sizes; records keep
// all of it.
type DeviceInfo struct {
	ID     string `json:"id"`   // names the results folder: "nvidia-h200", "cpu-amd-epyc-2c"
	Kind   string `json:"kind"` // KindCPU or KindCUDA
	Name   string `json:"name"`
	UUID   string `json:"uuid,omitempty"`
	Arch   string `json:"arch"`             // "sm_90", "amd64"
	SMs    int    `json:"sms"`              // or cores in use
	Driver string `json:"driver,omitempty"` // CUDA version that it supports: "13.0"
	// DriverVersion is the driver's own: "580.65.06".
	DriverVersion string `json:"driver_version,omitempty"`
	// Compiler is what turned the sources into code: "nvrtc 13.0", "go1.26.8".
	Compiler       string `json:"compiler"`
	CacheBytes     int64  `json:"cache_bytes"` // L2, or last-level cache
	MemoryBytes    int64  `json:"memory_bytes"`
	PeakRate       int64  `json:"peak_rate,omitempty"`        // of the memory, bytes/s; 0 where not known
	SharedPerBlock int    `json:"shared_per_block,omitempty"` // most dynamic shared memory of one CTA, bytes
	RegsPerSM      int    `json:"regs_per_sm,omitempty"`
	// Clusters is how many clusters of 2, 4, 8 and 16 CTAs run at once with one
	// CTA on an SM; zeros where that is not known. It is less than
	// SMs allows: a cluster stays within one group of SMs (a GPC),
	// whose sizes differ from one chip of a model to the next.
	Clusters [4]int `json:"clusters,omitzero"`
}

// ArchNumber returns the number in an architecture's name, 90 of sm_90, and 0 where there is none.
func (d *DeviceInfo) ArchNumber() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(d.Arch, "sm_"))
	return n
}

// ClustersAtOnce returns how many clusters of so many CTAs (a power of two) run at once with one CTA on
// an SM.
func (d *DeviceInfo) ClustersAtOnce(ctas int) int {
	if i := bits.Len(uint(ctas)) - 2; i >= 0 && i < len(d.Clusters) && d.Clusters[i] > 0 {
		return d.Clusters[i]
	}
	return max(d.SMs/max(ctas, 1), 1)
}

// A Device runs variants on problems. Its methods and those of its Benches are
// called by one goroutine at a time.
type Device interface {
	Info() DeviceInfo
	// Prefetch announces variants of a problem that will be asked for soon, so
	// that the device can compile them in the background.
	Prefetch(p Problem, vs []Variant)
	// Open puts a problem on the device: its inputs and its float64 answers. One problem is open at
	// a time.
	Open(ctx context.Context, p Problem, in Inputs) (Bench, error)
	Close() error
}

// A Preparer is a device that can compile a variant without using the hardware, so that several of its
// kind can share one GPU. Devices may leave it out.
type Preparer interface {
	// Prepare returns when v on p is compiled, or cannot be: Check says why. It may
	// be called before the problem is open. The error is that of a device which is lost.
	Prepare(ctx context.Context, p Problem, v Variant) error
}

// A Sensor is a device that can read its own state. Devices may leave it out.
type Sensor interface {
	// Sense reads the state that the device is in now. A zero Reading is what a
	// device answers that has no sensors.
	Sense(ctx context.Context) (Reading, error)
}

// A ProcessIgnorer is a Sensor that can be told which other processes belong to the measurement, such as
// the one that runs the peers: they take turns with it, and do not count as strangers that share the
// device.
type ProcessIgnorer interface {
	IgnoreProcesses(pids ...int)
}

// A CacheWarner is a device that keeps what it compiles. Its warning says why the cache will not be
// there for the next run, "" where it will. Devices that share the folder give the same text. Devices
// may leave it out.
type CacheWarner interface {
	CacheWarning() string
}

// A Reading is the state of a device at one moment. Zero fields are not known.
type Reading struct {
	ClockMHz     int      `json:"clock_mhz,omitempty"`     // of the SMs
	MaxClockMHz  int      `json:"max_clock_mhz,omitempty"` // what ClockMHz could be
	MemClockMHz  int      `json:"mem_clock_mhz,omitempty"`
	PowerW       float64  `json:"power_w,omitempty"`
	TemperatureC int      `json:"temperature_c,omitempty"`
	Throttle     []string `json:"throttle,omitempty"` // reasons why the clock is held down
	Others       []string `json:"others,omitempty"`   // other processes that compute on the device
	Sliced       bool     `json:"sliced,omitempty"`   // the device is a slice of a GPU (MIG)
	// Confidential says that Confidential Computing is on, where events are unreliable.
	Confidential bool `json:"confidential,omitempty"`
	ECC          bool `json:"ecc,omitempty"`
}

// Unfit says why times taken in this state would mislead, "" if they would not: the device is shared,
// sliced or throttled, or runs below the fraction minClock of its full clock.
func (r *Reading) Unfit(minClock float64) string {
	switch {
	case r.Confidential:
		return "Confidential Computing is on: CUDA events are unreliable"
	case r.Sliced:
		return "the GPU is sliced (MIG)"
	case len(r.Others) > 0:
		return "the GPU is shared with " + r.Others[0]
	case len(r.Throttle) > 0:
		return "throttled: " + r.Throttle[0]
	case r.MaxClockMHz > 0 && r.ClockMHz > 0 && float64(r.ClockMHz) < minClock*float64(r.MaxClockMHz):
		return fmt.Sprintf("the clock is %d MHz of %d", r.ClockMHz, r.MaxClockMHz)
	}
	return ""
}

// A Bench is a problem that a device has open.
type Bench interface {
	// Check runs v on poisoned outputs and compares each output with the
	// float64 answer, then runs it repeats-1 more times and compares the bits
	// with those of the first run. After each run the inputs must be what they were, and what lies
	// behind outputs and scratch must be untouched, where the device can see that. The error is a
	// *Failure where v could not run; a wrong answer is not an error but a Check that is not OK.
	Check(ctx context.Context, v Variant, repeats int) (Check, error)
	// Time takes samples of v's run time.
	Time(ctx context.Context, v Variant, o TimeOptions) (Timing, error)
	Close() error
}

// MostHashed bounds the rows that a RowHasher is asked for.
const MostHashed = 128

// A RowHasher is a Bench that can tell the bits of rows.
type RowHasher interface {
	// HashRows runs v once on poisoned outputs and hashes the bits of each of the first rows. It returns
	// the hashes by the name of the output, of those that v writes row by row. Equal rows have equal
	// hashes, wherever they stand. Answers are not compared.
	HashRows(ctx context.Context, v Variant, rows int64) (RowHashes, error)
}

// HashRows asks a bench for hashes of rows; see RowHasher.
func HashRows(ctx context.Context, b Bench, v Variant, rows int64) (RowHashes, error) {
	h, ok := b.(RowHasher)
	if !ok {
		return nil, errors.New("this device does not tell the bits of rows")
	}
	return h.HashRows(ctx, v, rows)
}

// RowHashes are hashes of rows of outputs, by the outputs' names.
type RowHashes map[string][]uint64

// FirstOther names the first row, such as "row 3 of y", whose hash is not that of the row from rows further on in
// whole. It is "" where there is none, and an output that whole has not does not count.
func (h RowHashes) FirstOther(whole RowHashes, from int64) string {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for r, hash := range h[name] {
			if at := from + int64(r); at < int64(len(whole[name])) && whole[name][at] != hash {
				return fmt.Sprintf("row %d of %s", at, name)
			}
		}
	}
	return ""
}

// TimeOptions say how samples are taken.
type TimeOptions struct {
	Samples int `json:"samples"`
	// Flush is the bytes moved through the last-level cache before every sample, outside the timed
	// interval; 0 leaves it warm.
	Flush int64 `json:"flush"`
	// Persist lets the L2 of a GPU keep as many lines for kernels that ask (evict_last) as it can, in
	// this call; else none.
	Persist bool `json:"persist,omitempty"`
	// Stages also times what each launch adds to the plan's time: see ByExposed.
	Stages bool `json:"stages,omitempty"`
}

// Ways to take the times of stages. A launch's exposed time is the time of the plan up to this launch
// less that of the plan up to the one before, each between two events: so exposed k2 is the plan's time
// less that of the plan without its last launch, and stages add up to the whole. A launch that starts
// before the one ahead of it has ended hides a part of its own time.
const (
	ByExposed = "exposed"
	ByEvents  = "events" // in records of earlier versions: events between launches
	ByCUPTI   = "cupti"  // each kernel alone: of a peer, by torch's profiler, and in earlier records
)

// A Timing holds samples in seconds. Each sample is one run of the whole plan, from the start of its
// first launch to the end of its last.
type Timing struct {
	Seconds []float64      `json:"seconds"`
	Stages  []StageSeconds `json:"stages,omitempty"`
	By      string         `json:"by,omitempty"`   // how Stages were taken: ByExposed, or ByCUPTI
	Gaps    []float64      `json:"gaps,omitempty"` // by CUPTI: seconds between a sample's launches
	// Host is the median seconds that the host takes to enqueue a sample of foreign code; in none of
	// Seconds.
	Host float64 `json:"host,omitempty"`
	// Busy is the wall seconds in which the device was at work for this call, flushes included.
	Busy float64 `json:"busy"`
}

// StageSeconds are the samples of one launch of a plan.
type StageSeconds struct {
	Stage   string    `json:"stage"`
	Seconds []float64 `json:"seconds"`
}

// A Check is the result of comparing a variant's outputs with the float64 answers.
type Check struct {
	Outputs []OutputCheck `json:"outputs"`
	// Unwritten are the problem's outputs that the family does not write (Family.Unwritten).
	Unwritten []string `json:"unwritten,omitempty"`
	// Changed are the inputs whose bits a run has changed.
	Changed []string `json:"changed,omitempty"`
	// Beyond says where a run has written behind the end of a buffer, "" for nowhere.
	Beyond    string     `json:"beyond,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
	Repeats   int        `json:"repeats"`             // runs whose bits were compared
	Differing int64      `json:"differing,omitempty"` // elements whose bits changed between runs
	// Unordered repeats what the family states of the config: its bits may change
	// from run to run.
	Unordered bool `json:"unordered,omitempty"`
	// Digest is a hash of all outputs' bits: equal for equal bits.
	Digest uint64  `json:"digest,omitempty"`
	Busy   float64 `json:"busy,omitempty"`
	// Compile is the seconds that compilers took for the variant's code, each unit counted
	// once, also where its binary came from a cache; 0 where that is not known, or
	// nothing is compiled.
	Compile float64 `json:"compile,omitempty"`
}

// OK says whether every output is right. Whether its bits are always the same is in Differing.
func (c *Check) OK() bool { return c.Reason() == "" }

// Breaks says whether bits differed that the family says are always the same.
func (c *Check) Breaks() bool { return c.Differing > 0 && !c.Unordered }

// Reason says what is wrong, "" if nothing is: inputs that have changed, a write behind a buffer, the
// first wrong output.
func (c *Check) Reason() string {
	var reasons []string
	if len(c.Changed) > 0 {
		reasons = append(reasons, "it has changed its input "+strings.Join(c.Changed, ", "))
	}
	if c.Beyond != "" {
		reasons = append(reasons, c.Beyond)
	}
	for _, o := range c.Outputs {
		if why := o.reason(); why != "" {
			reasons = append(reasons, why)
			break
		}
	}
	return strings.Join(reasons, "; ")
}

// reason says what is wrong with the output, "" if nothing is.
func (o *OutputCheck) reason() string {
	switch {
	case o.Void:
		return fmt.Sprintf("%s is not checked: less than half of its %d answers are finite", o.Name, o.Elems)
	case o.Bad == 0:
		return ""
	case o.Unwritten == o.Bad:
		return fmt.Sprintf("%s is never written in %d of %d elements, first at %d: want %g", o.Name, o.Bad, o.Elems,
			o.First, o.Want)
	}
	unwritten := ""
	if o.Unwritten > 0 {
		unwritten = fmt.Sprintf(" (%d of them never written)", o.Unwritten)
	}
	return fmt.Sprintf("%s is wrong in %d of %d elements%s, first at %d: got %g, want %g", o.Name, o.Bad, o.Elems,
		unwritten, o.First, o.Got, o.Want)
}

// CheckTimed makes the Failure of a variant whose outputs are wrong after so many timed runs; nil if
// they are right.
func (c *Check) CheckTimed(runs int) error {
	if why := c.Reason(); why != "" {
		return Failf(StatusWrong, "after %d timed runs %s", runs, why)
	}
	return nil
}

// Main returns the resources of the main kernel: of stage k1, ahead of which a launch may clear a
// buffer, else of the first launch. It is nil where none are known.
func (c *Check) Main() *Resource {
	if c == nil || len(c.Resources) == 0 {
		return nil
	}
	i := slices.IndexFunc(c.Resources, func(r Resource) bool { return r.Stage == "k1" })
	return &c.Resources[max(i, 0)]
}

// An OutputCheck compares one output with its float64 answer.
type OutputCheck struct {
	Name  string `json:"name"`
	Elems int64  `json:"elems"`
	Bad   int64  `json:"bad,omitempty"` // elements outside the tolerance, unwritten ones included
	// Unwritten is how many elements are as they were poisoned.
	Unwritten int64 `json:"unwritten,omitempty"`
	// Void says that less than half of the answers are finite, though the inputs are.
	Void   bool    `json:"void,omitempty"`
	MaxErr float64 `json:"max_err,omitempty"` // largest |got-want| / tolerance; at most 1 passes
	RelL2  float64 `json:"rel_l2,omitempty"`  // ||got-want|| / ||want||
	First  int64   `json:"first,omitempty"`
	Got    Number  `json:"got,omitempty"` // at First
	Want   Number  `json:"want,omitempty"`
}

// A Resource says what one launch of a plan takes of the device.
type Resource struct {
	Stage     string `json:"stage"`
	Registers int    `json:"registers,omitempty"`     // per thread
	Spill     int    `json:"spill,omitempty"`         // bytes per thread stored to local memory
	Local     int    `json:"local,omitempty"`         // bytes of local memory per thread, spills included
	Shared    int    `json:"shared,omitempty"`        // bytes per CTA, static and dynamic
	Occupancy int    `json:"blocks_per_sm,omitempty"` // CTAs resident on one SM
	Threads   int    `json:"threads,omitempty"`       // per CTA
	CTAs      int    `json:"ctas,omitempty"`          // in the grid
}

// A Number is a float64 whose JSON form has NaN and infinities too, as strings.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Appendf(nil, "%q", fmt.Sprint(f)), nil
	}
	return fmt.Appendf(nil, "%g", f), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	var f float64
	if len(b) > 1 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	_, err := fmt.Sscan(string(b), &f)
	*n = Number(f)
	return err
}

// A Status says how the measurement of a variant ended.
type Status string

// The statuses. Only StatusOK records carry times.
const (
	StatusOK       Status = "ok"
	StatusRefused  Status = "refused"  // the space has a reason against it
	StatusCompile  Status = "compile"  // the compiler refused it
	StatusResource Status = "resource" // it does not fit the device: registers, shared memory, threads
	StatusLaunch   Status = "launch"   // the launch failed, or the kernel faulted
	StatusWrong    Status = "wrong"    // its answer is wrong
	StatusTimeout  Status = "timeout"  // it did not end in time
	StatusCrash    Status = "crash"    // it took its worker down
	StatusUnfit    Status = "unfit"    // the machine was not fit to time it: throttled, shared, slow
)

// A Failure says why a variant could not be measured. It is a result, not a bug: it is recorded, and the
// run goes on.
type Failure struct {
	Status Status `json:"status"`
	Reason string `json:"reason"`
	// Broken says that the device lost its state: the Bench is of no use any
	// more, and the problem must be opened again.
	Broken bool `json:"broken,omitempty"`
	// Before says that the device was lost before it was asked to run the variant,
	// which it says nothing about.
	Before bool `json:"-"`
}

func (f *Failure) Error() string { return string(f.Status) + ": " + f.Reason }

// Failf makes a Failure with a formatted reason.
func Failf(s Status, format string, args ...any) *Failure {
	return &Failure{Status: s, Reason: fmt.Sprintf(format, args...)}
}
