package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels/devices/peers"
	"normbench/sweep/shapes"
)

// A CaptureTask is a program whose norms are to be recorded.
type CaptureTask struct {
	Command        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Steps          int    // after which it ends; 0 for its own end
	Out            string // file of shapes
}

const captureHelp = "write `normbench capture --out shapes.yaml -- python train.py ...`, with the Python that has " +
	"the program's torch"

// Capture runs a program and writes the norms that it called. The exit code is the program's: an error
// without a text.
func (l *Lab) Capture(c *CaptureTask) error {
	dir, err := os.MkdirTemp("", "normbench-capture-")
	if err != nil {
		return hint.Errorf("point $TMPDIR at a folder that you may write to", "the capture has no folder: %w", err)
	}
	defer os.RemoveAll(dir)
	code, err := l.runHooked(c, dir)
	if err != nil {
		return err
	}
	got, err := shapes.ReadCapture(dir, strings.Join(c.Command, " "))
	if err != nil {
		return err
	}
	python, failed, torch := shapes.CaptureFailure(dir)
	if got.Calls > 0 {
		l.Notes(got.Notes)
		if err := l.Write(durable.Place{Name: c.Out}, got.Text()); err != nil {
			return err
		}
	}
	switch {
	case failed != "":
		return hint.Errorf("say which torch it is in an issue", "not all of the program was seen: %s", failed)
	case got.Calls > 0 && l.Ctx.Err() != nil:
		return Interruptedf("what was seen is kept in %s", c.Out)
	case got.Calls > 0 && code != 0:
		l.Notef("the program ended with exit code %d; what was seen until then is kept", code)
		return Exit(code, errors.New(""))
	case got.Calls > 0:
		return nil
	case !torch && python != "":
		return hint.Errorf("install PyTorch there, or name the Python that has it", "%s has no torch", python)
	case code != 0:
		l.Notef("the program ended with exit code %d before it called a norm", code)
		return Exit(code, errors.New(""))
	case !torch:
		return hint.Errorf(captureHelp+"; python -I and -E leave the hooks out",
			"%s loaded no torch, so no norm was seen", c.Command[0])
	}
	l.Notes(got.Notes)
	return hint.Errorf("`normbench list models` has models whose norms are known without a run",
		"no norm of %s was seen that is one of ours", strings.Join(c.Command, " "))
}

// runHooked runs the program under the hooks of a folder, and gives its exit code.
func (l *Lab) runHooked(c *CaptureTask, dir string) (int, error) {
	program, err := exec.LookPath(c.Command[0])
	if missing := (*exec.Error)(nil); errors.As(err, &missing) && !errors.Is(err, exec.ErrDot) {
		return 0, hint.Errorf(captureHelp, "%s cannot be run: %w", c.Command[0], missing.Err)
	}
	cmd := exec.Command(program, c.Command[1:]...)
	cmd.Args[0] = c.Command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if cmd.Env, err = peers.PutCapture(dir, c.Steps); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, hint.Errorf(captureHelp, "%s cannot be run: %w", filepath.Base(program), durable.Cause(err))
	}
	// Ctrl-C at the terminal reaches the program by itself; another signal reaches this process alone.
	stop := context.AfterFunc(l.Ctx, func() {
		time.Sleep(2 * time.Second)
		cmd.Process.Signal(syscall.SIGTERM) // of one that has ended it is an error of no use
	})
	defer stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
