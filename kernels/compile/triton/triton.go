// Package triton has Triton compile kernels of Python files, and reads what it says of them. A
// launch of theirs is then like any other: no Python is in the timed path.
//
// The Python program triton.py needs Triton only, neither torch nor a GPU. Probing reads files.
// Compiling imports them, which runs them as any import does.
package triton

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/internal/proc"
)

//go:embed triton.py
var program string

// PythonVariable names the Python that has Triton, where it is not python3.
const PythonVariable = "NORMBENCH_PYTHON"

const (
	pythonHelp   = "`pip install triton` for that Python, or name one that has it with --python"
	probeTimeout = time.Minute
	maxAnswer    = 1 << 26 // bytes
)

// Python is the program.
func Python() string {
	if p := os.Getenv(PythonVariable); p != "" {
		return p
	}
	return "python3"
}

// A Request asks for a function: of a file of Source, or of an installed module.
type Request struct{ Source, Module, Function string }

// A Signature is what its file says of a function.
type Signature struct {
	Error   string // instead of all else
	File    string
	Text    string // of the file
	Line    int
	Params  []Parameter
	Wrapped bool   // by @triton.autotune or @triton.heuristics
	Hash    string // of the installed modules that the file imports
	// Compiler names all that the code depends on beside its files: the version of Triton comes
	// first.
	Compiler string
}

// A Parameter is one of a function's.
type Parameter struct {
	Name, Default         string
	Line                  int
	Constexpr, Descriptor bool
}

// Probe reads functions without running their files, whose texts are in sources by name. The error
// says that there is no Python, or no Triton.
func Probe(sources map[string]string, requests []Request) ([]Signature, error) {
	if _, err := exec.LookPath(Python()); err != nil {
		return nil, hint.Errorf(pythonHelp, "there is no Python %q", Python())
	}
	var a struct {
		Version, Error string
		Settings       []string
		Functions      []Signature
	}
	err := ask(map[string]any{"Sources": sources, "Wants": requests}, &a, "probe")
	switch {
	case err != nil:
		return nil, hint.Errorf(pythonHelp, "%s %w", Python(), err)
	case a.Error != "":
		return nil, hint.Errorf(pythonHelp, "%s: %s", Python(), a.Error)
	case isTooOld(a.Version):
		return nil, hint.Errorf("install 3.2 or later", "%s has Triton %s", Python(), a.Version)
	}
	for i := range a.Functions {
		f := &a.Functions[i]
		f.Compiler = strings.Join(append([]string{a.Version, f.Hash[:min(12, len(f.Hash))]},
			a.Settings...), " ")
	}
	return a.Functions, nil
}

// isTooOld says whether a version of Triton is before 3.2.
func isTooOld(version string) bool {
	var major, minor int
	fmt.Sscanf(version, "%d.%d", &major, &minor) //nolint:errcheck // zeros are no version
	return major < 3 || major == 3 && minor < 2
}

// command runs triton.py.
func command(args ...string) []string {
	return append([]string{Python(), "-c", program}, args...)
}

// ask sends one request to a process of its own, and reads its answer.
func ask(request, answer any, args ...string) error {
	child, err := proc.Start(proc.StartOptions{Command: command(args...), MaxLine: maxAnswer})
	if err != nil {
		return err
	}
	defer child.Kill()
	if err := child.Send(request); err != nil {
		return err
	}
	return child.Answer(context.Background(), probeTimeout, answer)
}
