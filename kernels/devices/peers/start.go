package peers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/worker"
)

// LibraryOptions say how Start runs the peers.
type LibraryOptions struct {
	Python  string        // a program, in the PATH or by its place; "" for the one that runs Triton
	UUID    string        // of the GPU; "" for the first one
	CPU     bool          // run what runs on a CPU, to check it
	Names   []string      // those to start with, callables too; none for all libraries
	Timeout time.Duration // longest that a peer may take over one step; compiling is a step
}

// Program returns the Python that runs the peers.
func (o *LibraryOptions) Program() string { return triton.Python(o.Python) }

// DefaultTimeout is long enough for torch.compile to tune what was not compiled
// ahead, which takes half a minute, and for imports from a cold disk.
const DefaultTimeout = 2 * time.Minute

// Worker is the device of the peers alone.
type Worker struct {
	*worker.Client
	dir     string                   // holds peers.py and libraries while it runs, and what is compiled
	command []string                 // of the Client
	env     []string                 // likewise
	late    map[ProblemVariant]error // what Prepare gave up, by cells without rows
}

const pythonHelp = "install Python 3 with PyTorch for CUDA, or name one with --python"

// Start writes peers.py to a folder of its own and runs it. What Triton compiles for it is kept beside our cubins: that is
// machine code, found by its source, and no choice among configs. The error is one
// line: no Python, no torch, no CUDA.
func Start(ctx context.Context, o LibraryOptions) (*Worker, error) {
	python, err := exec.LookPath(o.Program())
	if err != nil {
		return nil, hint.Errorf(pythonHelp, "the peers' Python %q is not there: %w", o.Program(), err)
	}
	dir, err := os.MkdirTemp("", "normbench-peers-")
	if err == nil {
		err = os.CopyFS(dir, sources)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, hint.Errorf("point $TMPDIR at a folder that you may write to",
			"peers.py cannot be written: %w", err)
	}
	command := []string{python, filepath.Join(dir, program), "--cache", filepath.Join(dir, "cache"),
		"--triton", filepath.Join(nvrtc.DefaultCacheDir(), "peers")}
	if o.UUID != "" {
		command = append(command, "--uuid", o.UUID)
	}
	for _, name := range o.Names {
		command = append(command, "--peer", name)
	}
	// Its standard error is for the reason of its death: libraries say much there.
	var env []string
	if o.CPU {
		env = []string{"NORMBENCH_PEERS_CPU=1"}
	}
	c, err := worker.Start(ctx, worker.ClientOptions{Command: command, Env: env, Timeout: o.Timeout})
	if err != nil {
		os.RemoveAll(dir)
		if hint.Of(err) == "" {
			err = hint.Errorf(pythonHelp, "the peers' Python %q: %w", o.Program(), err)
		}
		return nil, err
	}
	return &Worker{Client: c, dir: dir, command: command, env: env}, nil
}

// Close ends the worker.
func (w *Worker) Close() error {
	err := w.Client.Close()
	os.RemoveAll(w.dir)
	return err
}

// Find is the peer of a name among those of a device.
func Find(all []kernels.Peer, name string) (kernels.Peer, bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return kernels.Peer{}, false
}
