package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
)

// An ExitError ends the program with its code, whether a signal came or not. The text of a nil error
// is not printed: the command has said it already.
type ExitError struct {
	Code int
	Err  error
}

func (x *ExitError) Error() string {
	if x.Err == nil {
		return ""
	}
	return x.Err.Error()
}

func (x *ExitError) Unwrap() error { return x.Err }

// Exit makes one.
func Exit(code int, err error) error { return &ExitError{code, err} }

// The exit codes of more than one command.
const (
	ExitGate    = 1   // a wrong result, or a gate that failed
	ExitTrouble = 2   // usage, or anything else that went wrong, as a result that could not be written
	ExitSignal  = 130 // interrupted with the work kept, which is no error and not called one
)

// Interruptedf is what a command ends with that a signal stopped. It says what became of its work.
func Interruptedf(format string, args ...any) error {
	return Exit(ExitSignal, fmt.Errorf("interrupted; "+format, args...))
}

// CheckPlace says why a file cannot be written, or nil.
func CheckPlace(p durable.Place) error {
	err := p.Check()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		err = hint.With(err, "make the folder first")
	}
	return hint.Errorf(durable.Help(err), "cannot write %s: %w", p, durable.Cause(err))
}

// WithRecords adds to an error of writing, after something was measured, a hint that says where the records
// are.
func (l *Lab) WithRecords(err error) error { return withRecords(err, l.Saved) }

func withRecords(err error, saved string) error {
	if _, gone := os.Stat(saved); err == nil || gone != nil {
		return err
	}
	kept := "what was measured is kept in " + saved
	if h := hint.Of(err); h != "" {
		kept = h + "; " + kept
	}
	return hint.With(err, kept)
}

// Write writes a file, and says so.
func (l *Lab) Write(p durable.Place, data []byte) error {
	if err := p.Write(data); err != nil {
		return err
	}
	l.Notef("wrote %s", p)
	return nil
}

// OpenWriter opens the results folder of a device for records, and says what of it was not read. A
// folder in which the other files of that name cannot be written is refused. Until it is read a signal
// ends the program: nothing is measured yet.
func (l *Lab) OpenWriter(out, id string, others ...string) (*record.Writer, error) {
	w, err := l.openWriter(record.OpenWriter, out, id, others)
	if err == nil {
		l.Saved = w.Path()
	}
	return w, err
}

func (l *Lab) openWriter(open func(in, below string) (*record.Writer, record.Notes, error), out, id string,
	others []string) (*record.Writer, error) {
	stop := context.AfterFunc(l.Ctx, l.quit)
	defer stop()
	if err := record.CheckFolder(out, id); err != nil {
		return nil, err
	}
	for _, name := range others {
		if dir := filepath.Dir(name); dir != "." { // that of a family
			if err := record.CheckFolder(out, filepath.Join(id, dir)); err != nil {
				return nil, err
			}
		}
		if err := CheckPlace(durable.Place{Root: out, Name: filepath.Join(id, name)}); err != nil {
			return nil, err
		}
	}
	w, notes, err := open(out, id)
	if err != nil {
		return nil, err
	}
	l.NoteOnce(notes...)
	return w, nil
}

// NewRun describes this invocation for the records.
func (l *Lab) NewRun(info kernels.DeviceInfo, pr record.Protocol) record.Run {
	host, _ := os.Hostname()
	env := map[string]string{"host": host, "os": runtime.GOOS, "go": runtime.Version()}
	for _, name := range []string{"GITHUB_SHA", "CI_COMMIT_SHA", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"} {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	for _, p := range l.peers {
		if p.Missing == "" {
			env[kernels.PeerVariant(p.Name).Family] = p.Version
		}
	}
	return record.Run{
		ID:       uuid.NewString()[:13],
		Time:     time.Now().UTC().Truncate(time.Millisecond),
		Tool:     l.Tool,
		Command:  l.Command,
		Device:   info,
		Env:      env,
		Protocol: pr,
	}
}

// TestTimer tests the timer of each device. The first one's result is kept with the run, with what the
// others failed and the least floor; cards that differ by more than the noise are named. A failed
// check does not end the command: the tables of the run say it. CPUs are tested one by one, as they
// may share a host. Their floor is not kept, because other programs move it by more than it is.
func (l *Lab) TestTimer(run *record.Run, devices ...kernels.Device) error {
	if _, replayed := devices[0].(*replay.Device); replayed {
		return nil
	}
	gpu := devices[0].Info().Kind == kernels.KindCUDA
	seen := map[string]bool{} // workers of one GPU take turns
	devices = slices.DeleteFunc(slices.Clone(devices), func(d kernels.Device) bool {
		id := d.Info().UUID
		again := id != "" && seen[id]
		seen[id] = true
		return again
	})
	tests := make([]record.Run, len(devices))
	var g errgroup.Group
	if !gpu {
		g.SetLimit(1)
	}
	for i, dev := range devices {
		g.Go(func() (err error) {
			tests[i].SelfTest, tests[i].FloorUS, err = sweep.SelfTest(l.Ctx, l.Registry, dev)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	run.SelfTest, run.FloorUS = slices.Clone(tests[0].SelfTest), 0
	if gpu {
		run.FloorUS = tests[0].FloorUS
	}
	var cards []string
	var rates, floors []float64
	for i, one := range tests {
		for _, x := range one.SelfTest {
			if i > 0 && !x.OK {
				x.Name = fmt.Sprintf("device %d: %s", i+1, x.Name)
				run.SelfTest = append(run.SelfTest, x)
			}
		}
		if gpu {
			run.FloorUS = min(run.FloorUS, one.FloorUS)
		}
		rates, floors = append(rates, one.StreamRate()), append(floors, one.FloorUS)
		cards = append(cards, fmt.Sprintf("device %d of %d: stream %.0f GB/s, an empty launch %.2f us",
			i+1, len(devices), rates[i], floors[i]))
	}
	if failed := run.Failures(); failed != "" {
		l.Notef("%s", failed)
	}
	if gpu && (slices.Max(rates) > cardsDiffer*slices.Min(rates) ||
		slices.Max(floors)-slices.Min(floors) > floorsDiffer) {
		l.Notes(append([]string{"the cards differ, and a time is of the one that took the problem"},
			cards...))
	}
	return nil
}

// Cards of one kind whose streams differ by this factor, or whose floors by so many microseconds,
// are named: more than the selftest's own noise, 0.8% and 0.1 us on an H200.
const (
	cardsDiffer  = 1.02
	floorsDiffer = 0.3
)
