// Package triton has Triton compile kernels of Python files, and reads what it says of them. A
// launch of theirs is then like any other: no Python is in the timed path.
//
// The Python program triton.py needs Triton only, neither torch nor a GPU. Probing reads files.
// Compiling imports them, which runs them as any import does.
package triton

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/internal/nvlib"
	"normbench/internal/proc"
	"normbench/kernels/compile/nvrtc"
)

//go:embed triton.py
var program string

// PythonVariable names the Python that has Triton, where none is asked for.
const PythonVariable = "NORMBENCH_PYTHON"

const (
	pythonHelp   = "`pip install triton` for that Python, or name one that has it with --python"
	probeTimeout = time.Minute
	maxAnswer    = 1 << 26 // bytes
)

// ModuleHelp returns what to do where Python has no such module.
func ModuleHelp(python string) string {
	return "install its package for " + Python(python) + ", or name a Python that has it with --python; " +
		"$PYTHONPATH names folders of packages that are not installed"
}

// ImportHelp returns what to do where a source, or its module, does not import.
func ImportHelp(python string) string {
	return "correct it, or install what it imports for " + Python(python) + ", or name a Python that has it with --python; " +
		"$PYTHONPATH names folders of packages that are not installed"
}

// Python returns the program that runs Triton: the one asked for or, of "", the one that $NORMBENCH_PYTHON
// names, that of the virtual environment that normbench is installed in, or python3.
func Python(asked string) string {
	return cmp.Or(asked, os.Getenv(PythonVariable), nvlib.Python(), "python3")
}

// A Request asks for a function: of a file of Source, or of an installed module.
type Request struct{ Source, Module, Function string }

// A FunctionSignature is what its file says of a function.
type FunctionSignature struct {
	Error   string // instead of all else
	File    string
	Text    string // of the file
	Line    int
	Params  []Parameter
	Wrapped bool // by @triton.autotune or @triton.heuristics
	// Package is what the folder of a file of Source is to Python, "" where it is none. Files are texts of what
	// the file imports of its own, by their paths from where its package lies, or from its folder.
	Package string
	Root    string // the folder from which its package is imported
	Files   map[string]string
	// Hash is of whatever else its code can depend on: distributions that it imports, by name and version,
	// and texts of modules that no distribution has.
	Hash string
	// Compiler names all that the code depends on beside its files: the version of Triton comes
	// first.
	Compiler string
}

// A Parameter is one of a function's.
type Parameter struct {
	Name, Default         string
	Line                  int
	Constexpr, Descriptor bool
	// What the function does with it: loads from it, stores to it, hands it to another function. StrideOf are the
	// pointers on the way to which it is multiplied, ByLane with what differs from element to element of a block.
	Loads, Stores, Passed, ByLane bool
	StrideOf                      []string
}

// answer is what a probe finds.
type answer struct {
	Version, Error string
	Settings       []string
	Functions      []FunctionSignature
	Read           map[string][]int64 // files and folders, each with its size and time of change
}

// Probe has a Python read functions without running their files, which lie in a folder; their texts are in sources by name.
// The error says that there is no Python, or no Triton.
func Probe(python, folder string, sources map[string]string, requests []Request) ([]FunctionSignature, error) {
	return probe(Python(python), folder, sources, requests, keeper{})
}

// ProbeFolder is Probe of all functions of a folder. What it finds is kept for the next command, while nothing of it
// changes.
func ProbeFolder(python, folder string, sources map[string]string, requests []Request) ([]FunctionSignature, error) {
	python = Python(python)
	return probe(python, folder, sources, requests, keeperOf(python, absolute(folder), []any{sources, requests}))
}

func probe(python, folder string, sources map[string]string, requests []Request, k keeper) ([]FunctionSignature, error) {
	if _, err := exec.LookPath(python); err != nil {
		return nil, hint.Errorf(pythonHelp, "there is no Python %q", python)
	}
	var a answer
	if !k.read(&a) {
		a = answer{}
		err := ask(python, map[string]any{"Folder": absolute(folder), "Sources": sources, "Wants": requests,
			"Uses": k.file == ""}, &a, "probe")
		switch {
		case err != nil:
			return nil, hint.Errorf(pythonHelp, "%s %w", python, err)
		case a.Error != "":
			return nil, hint.Errorf(pythonHelp, "%s: %s", python, a.Error)
		}
		k.write(&a)
	}
	if isTooOld(a.Version) {
		return nil, hint.Errorf("install 3.2 or later", "%s has Triton %s", python, a.Version)
	}
	for i := range a.Functions {
		f := &a.Functions[i]
		f.Compiler = strings.Join(append([]string{a.Version, f.Hash[:min(12, len(f.Hash))]},
			a.Settings...), " ")
	}
	return a.Functions, nil
}

// Source returns a function's file with what it imports of its own, under a name.
func (f *FunctionSignature) Source(name string) nvrtc.Source {
	return nvrtc.Source{Name: name, Text: f.Text, Headers: f.Files, Package: f.Package, Root: f.Root}
}

// isTooOld says whether a version of Triton is before 3.2.
func isTooOld(version string) bool {
	var major, minor int
	fmt.Sscanf(version, "%d.%d", &major, &minor) //nolint:errcheck // zeros are no version
	return major < 3 || major == 3 && minor < 2
}

// command runs triton.py.
func command(python string, args ...string) []string {
	return append([]string{Python(python), "-c", program}, args...)
}

// ask sends one request to a process of its own, and reads its answer.
func ask(python string, request, answer any, args ...string) error {
	child, err := proc.Start(proc.StartOptions{Command: command(python, args...), MaxLine: maxAnswer})
	if err != nil {
		return err
	}
	defer child.Kill()
	if err := child.Send(request); err != nil {
		return err
	}
	return child.Answer(context.Background(), probeTimeout, answer)
}
