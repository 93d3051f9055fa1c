package triton

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// An Interpreter runs launches in Triton's interpreter. It uses the processes of a Service. The one that has imported
// a source forks one for each launch, which so costs neither the imports nor, however it ends, another launch.
type Interpreter struct{ service *Service }

// NewInterpreter returns an Interpreter without processes, which keeps its files in a folder. The target is asked for
// once there is something to interpret.
func NewInterpreter(dir string, target func() Target) *Interpreter {
	c := NewService(0, target)
	c.mode, c.home = "interpret", dir
	return &Interpreter{c}
}

// UsePython has a Python interpret, as Python reads its name.
func (t *Interpreter) UsePython(python string) { t.service.UsePython(python) }

// Close ends the processes. Nothing is interpreted behind it.
func (t *Interpreter) Close() { t.service.Close() }

// Import has a source imported, unless it is.
func (t *Interpreter) Import(ctx context.Context, src nvrtc.Source) error {
	s, err := t.service.server(ctx, startTimeout)
	if err == nil {
		if err = s.open(ctx, src, startTimeout); err != nil {
			s.forget(src)
		}
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the process of Triton's interpreter %w", err)
	}
	return err
}

// A launchRequest asks for a launch. The folder has its input, and gets its output and what it says.
type launchRequest struct {
	Folder  string
	Values  map[string]any // of parameters, by name
	Buffers map[string]int // likewise, by their place in the input
}

// A LaunchEnd has what the process of a launch left behind.
type LaunchEnd struct {
	Output []byte
	Said   string // on standard error
	Code   int    // of its exit, negative if a signal ended it
}

// Interpret runs a launch of a source's function. It reads and writes what package emulate's programs do: buffers in
// the order in which the arguments first name them. The error says how the process ended, if not well.
func (t *Interpreter) Interpret(ctx context.Context, src nvrtc.Source, opt nvrtc.CompileOptions, l *kernels.Launch,
	input []byte) (o LaunchEnd, err error) {
	r := launchRequest{Values: map[string]any{}, Buffers: map[string]int{}}
	place := map[string]int{}
	for i, a := range l.Args {
		name, told, _ := strings.Cut(l.Params[i], "=")
		switch {
		case a.Kind == kernels.ArgBuffer && a.Name != "":
			if _, ok := place[a.Name]; !ok {
				place[a.Name] = len(place)
			}
			r.Buffers[name] = place[a.Name]
		case a.Kind == kernels.ArgBuffer:
		case told == "True":
			r.Values[name] = a.Int != 0
		case a.Kind.IsFloat():
			r.Values[name] = a.Float
		default:
			r.Values[name] = a.Int
		}
	}
	if r.Folder, err = os.MkdirTemp(t.service.home, "launch-"); err != nil {
		return o, err
	}
	defer os.RemoveAll(r.Folder)
	if err := os.WriteFile(filepath.Join(r.Folder, "in"), input, 0o666); err != nil {
		return o, err
	}
	limit := 24 * time.Hour
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)+time.Second) // the process ends behind ctx
	}
	var end struct{ Code int }
	_, err = t.service.ask(ctx, src, startTimeout, serverRequest{Options: opt, launchRequest: &r,
		Seconds: limit.Seconds()}, &end)
	switch {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case err != nil:
		return o, fmt.Errorf("the process of Triton's interpreter %w", err)
	}
	said, err := os.ReadFile(filepath.Join(r.Folder, "said"))
	if err != nil {
		return o, err
	}
	o.Said, o.Code = string(said), end.Code
	switch {
	case end.Code < 0:
		return o, fmt.Errorf("signal: %s", syscall.Signal(-end.Code))
	case end.Code > 0:
		return o, fmt.Errorf("exit status %d", end.Code)
	}
	o.Output, err = os.ReadFile(filepath.Join(r.Folder, "out"))
	if errors.Is(err, fs.ErrNotExist) { // the kernel has ended it
		err = nil
	}
	return o, err
}
