package triton

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/devicetest"
)

// launches has a kernel that does what it is told, in Triton's interpreter. A file counts how often it is imported.
//
//go:embed testdata/launches.py
var launches string

// oneNumber is the input of a launch of one program on a buffer y of one number.
func oneNumber() []byte {
	in := &bytes.Buffer{}
	for _, v := range []any{[9]uint32{1, 1, 1, 1, 1, 1, 1}, uint32(1), uint32(1), []byte("y"), uint32(4), uint64(4), int32(-1)} {
		_ = binary.Write(in, binary.LittleEndian, v) // a Buffer takes all
	}
	return in.Bytes()
}

// optionsOf returns the options that the kernel of launches is compiled with.
func optionsOf(how string) nvrtc.CompileOptions {
	return nvrtc.CompileOptions{Names: []string{"f"}, Extra: []string{"triton=3.6.0 0", "Y=*i32", fmt.Sprintf("HOW='%s'", how)}}
}

// interpreter returns what launches the kernel, in a real Triton. dir is for what the kernel tells.
func interpreter(t *testing.T) (i *Interpreter, dir string, launch func(ctx context.Context, how string) (LaunchEnd, error)) {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	imports := exec.Command(Python(""), "-c", "import triton, numpy")
	imports.Dir = dir                        // without a triton.py
	assert.Needs(t, "TRITON", imports.Run()) // scripts/triton-env.sh
	t.Setenv("NORMBENCH_TEST_DIR", dir)
	i = NewInterpreter(home, func() Target { return card })
	t.Cleanup(func() {
		i.Close()
		left, err := os.ReadDir(home)
		assert.That(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
	})
	l := &kernels.Launch{Params: []string{"Y=*i32"}, Args: []kernels.Arg{{Kind: kernels.ArgBuffer, Name: "y"}}}
	return i, dir, func(ctx context.Context, how string) (LaunchEnd, error) {
		return i.Interpret(ctx, nvrtc.Source{Name: "user:launches.py", Text: launches}, optionsOf(how), l, oneNumber())
	}
}

// Launches run in processes of their own, which have one import in common: none sees what another has changed,
// and however one ends, it ends alone.
func TestLaunchEndsAlone(t *testing.T) {
	_, dir, launch := interpreter(t)
	var all sync.WaitGroup
	for how, want := range map[string]struct{ ends, says string }{
		"counts": {}, "counts again": {}, "prints": {"", "a row\n"},
		"exits":  {"exit status 5", "on its way"},
		"leaves": {"exit status 6", ""},
		"faults": {"signal: segmentation fault", ""},
		"raises": {"exit status 1", "not run: launches.py: Triton's interpreter: InterpreterError: no such row\n"},
		"strays": {"exit status 3", "y is written 1 element (4 bytes) beyond its end, by program 0\n"},
	} {
		all.Go(func() {
			o, err := launch(t.Context(), how)
			said := ""
			if err != nil {
				said = err.Error()
			}
			assert.That(t, said == want.ends && o.Said == want.says, "%s: %q, says %q", how, said, o.Said)
			if err == nil {
				assert.Equal(t, string(o.Output), "\x01\x00\x00\x00", how)
			}
		})
	}
	all.Go(func() {
		for limit := 2 * time.Second; limit < time.Minute; limit *= 2 { // on a slow machine it may not begin within the first
			ctx, stop := context.WithTimeout(t.Context(), limit)
			_, err := launch(ctx, "hangs")
			stop()
			assert.That(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
			if _, err := os.Stat(filepath.Join(dir, "hangs")); err == nil {
				break
			}
		}
		devicetest.WaitForEnd(t, told(t, dir, "hangs"))
		o, err := launch(t.Context(), "counts after it")
		assert.That(t, err == nil && string(o.Output) == "\x01\x00\x00\x00", "%q, %v", o.Output, err)
	})
	all.Wait()
	imports, err := os.ReadFile(filepath.Join(dir, "imports"))
	assert.That(t, err == nil && len(imports) == 1, "imported %d times, %v", len(imports), err)
	_, err = launch(t.Context(), "kills")
	assert.Error(t, err, "the process of Triton's interpreter ended: signal: killed")
	_, err = launch(t.Context(), "counts")
	assert.NoError(t, err)
}

// Nothing of an interpreter lives on behind Close, nor where who started it is killed.
func TestNoLaunchOutlivesItsInterpreter(t *testing.T) {
	i, dir, launch := interpreter(t)
	done := make(chan error)
	go func() {
		_, err := launch(t.Context(), "hangs until it is closed")
		done <- err
	}()
	pid := told(t, dir, "hangs until it is closed")
	i.Close()
	devicetest.WaitForEnd(t, pid)
	assert.That(t, <-done != nil, "it went on behind Close")

	cmd, ask := startByHand(t, "interpret")
	folder := t.TempDir()
	assert.Write(t, filepath.Join(folder, "in"), string(oneNumber()))
	ask(card, "{}\n")
	ask(serverRequest{ID: 1, Of: "launches", Seconds: 60, Source: &nvrtc.Source{Name: "user:launches.py", Text: launches}},
		"{\"ID\": 1, \"Value\": {}}\n")
	ask(serverRequest{ID: 2, Of: "launches", Seconds: 60, Options: optionsOf("hangs as an orphan"),
		launchRequest: &launchRequest{Folder: folder, Values: map[string]any{}, Buffers: map[string]int{"Y": 0}}}, "")
	pid = told(t, dir, "hangs as an orphan")
	cmd.Process.Kill()
	devicetest.WaitForEnd(t, pid)
	cmd.Wait() //nolint:errcheck // it was killed
}
