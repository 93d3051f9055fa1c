// Package triton has Triton compile kernels of Python files, and reads what it says of them. A
// launch of theirs is then like any other: no Python is in the timed path.
//
// The Python program triton.py needs Triton only, neither torch nor a GPU. Probing reads files.
// Compiling imports them, which runs them as any import does.
package triton

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"normbench/internal/hint"
	"normbench/internal/proc"
	"normbench/kernels/nvrtc"
)

//go:embed triton.py
var program string

// PythonVariable names the Python that has Triton, where it is not python3.
const PythonVariable = "NORMBENCH_PYTHON"

const (
	pythonHelp = "`pip install triton` for that Python, or name one that has it with --python"
	// maxProcesses bounds the compilers: each takes some 300 MB.
	maxProcesses = 32
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

// A Function is what its file says of it.
type Function struct {
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
func Probe(sources map[string]string, requests []Request) ([]Function, error) {
	if _, err := exec.LookPath(Python()); err != nil {
		return nil, hint.Errorf(pythonHelp, "there is no Python %q", Python())
	}
	var a struct {
		Version, Error string
		Settings       []string
		Functions      []Function
	}
	err := talk([]string{"probe"}, map[string]any{"Sources": sources, "Wants": requests}, &a)
	switch {
	case err != nil:
		return nil, hint.Errorf(pythonHelp, "%s %w", Python(), err)
	case a.Error != "":
		return nil, hint.Errorf(pythonHelp, "%s: %s", Python(), a.Error)
	case older(a.Version):
		return nil, hint.Errorf("install 3.2 or later", "%s has Triton %s", Python(), a.Version)
	}
	for i := range a.Functions {
		f := &a.Functions[i]
		f.Compiler = strings.Join(append([]string{a.Version, f.Hash[:min(12, len(f.Hash))]},
			a.Settings...), " ")
	}
	return a.Functions, nil
}

func version(text string) (major, minor int) {
	fmt.Sscanf(text, "%d.%d", &major, &minor) //nolint:errcheck // zeros are no version
	return major, minor
}

func older(text string) bool {
	major, minor := version(text)
	return major < 3 || major == 3 && minor < 2
}

// command runs triton.py.
func command(args ...string) []string {
	return append([]string{Python(), "-c", program}, args...)
}

// talk sends one request to a process of its own, and reads the last of its answers.
func talk(args []string, request any, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	child, err := proc.Start(proc.Options{Command: command(args...), MaxLine: maxAnswer})
	if err != nil {
		return err
	}
	defer child.Kill()
	child.Send(line)
	if line, err = child.Line(context.Background(), time.Now().Add(probeTimeout)); err == nil &&
		args[0] != "probe" {
		line, err = child.Line(context.Background(), time.Now().Add(probeTimeout)) // behind the greeting
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

var importRE = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+\.?(\w+)|import[ \t]+([\w., \t]+))`)

// Beside are the files beside a Python file that it imports, and those that they do, by name.
func Beside(text string, read func(name string) (string, error)) map[string]string {
	files := map[string]string{}
	var follow func(text string)
	follow = func(text string) {
		for _, name := range imports(text) {
			if _, ok := files[name]; ok {
				continue
			}
			if text, err := read(name); err == nil {
				files[name] = text
				follow(text)
			}
		}
	}
	follow(text)
	return files
}

// imports are the names of files that a Python file may import.
func imports(text string) (names []string) {
	for _, m := range importRE.FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(m[1]+m[2], ",") {
			if word := strings.Fields(name); len(word) > 0 {
				first, _, _ := strings.Cut(word[0], ".")
				names = append(names, first+".py")
			}
		}
	}
	return names
}

// A Cache keeps what Triton compiles beside what NVRTC does, and like it.
type Cache struct {
	cuda *nvrtc.Cache // nil without NVRTC
	size int

	mu   sync.Mutex
	step time.Duration
	pool *nvrtc.Pool  // nil until a kernel of Triton comes
	own  *nvrtc.Cache // of what the pool compiles
	dir  string       // what the pool's processes import, and Triton's own cache
}

// NewCache is a cache of both. Of Triton's compilers there are size processes, once one is needed.
func NewCache(cuda *nvrtc.Cache, size int) *Cache {
	return &Cache{cuda: cuda, size: min(size, maxProcesses)}
}

// Compile is nvrtc.Cache's, for Python too.
func (c *Cache) Compile(src nvrtc.Source, opt nvrtc.Options) (*nvrtc.Binary, error) {
	switch {
	case !src.Python() && c.cuda == nil:
		return nil, nvrtc.ErrNotFound
	case !src.Python():
		return c.cuda.Compile(src, opt)
	case !utf8.ValidString(src.Text):
		return nil, &nvrtc.CompileError{Source: src.Name, Result: "not UTF-8", Log: "it is not in UTF-8"}
	}
	own, err := c.start(opt)
	if err != nil {
		return nil, err
	}
	return own.Compile(src, opt)
}

// start makes the pool for the version of Triton that a unit names.
func (c *Cache) start(opt nvrtc.Options) (*nvrtc.Cache, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pool != nil {
		return c.own, nil
	}
	var err error
	if c.dir, err = os.MkdirTemp("", "normbench-triton-"); err != nil {
		return nil, hint.Errorf("point $TMPDIR at a folder that you may write to",
			"Triton has no folder: %w", err)
	}
	var major, minor int
	for _, s := range opt.Extra {
		if v, ok := strings.CutPrefix(s, "triton="); ok {
			major, minor = version(v)
		}
	}
	c.pool = nvrtc.NewForeignPool(c.size, major, minor, command("compile", c.dir)...)
	c.own = nvrtc.NewForeignCache(nvrtc.DefaultCacheDir(), "triton", c.pool)
	if c.step > 0 {
		c.pool.Within(c.step)
	}
	return c.own, nil
}

// Within is nvrtc.Pool's.
func (c *Cache) Within(step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.step = step; c.pool != nil {
		c.pool.Within(step)
	}
}

// Unkept is nvrtc.Cache's.
func (c *Cache) Unkept() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cache := range []*nvrtc.Cache{c.cuda, c.own} {
		if cache != nil && cache.Unkept() != "" {
			return cache.Unkept()
		}
	}
	return ""
}

// Close ends Triton's processes. Nothing is compiled behind it.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pool != nil {
		c.pool.Close()
		os.RemoveAll(c.dir)
	}
}
