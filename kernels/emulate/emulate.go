// Package emulate runs the CUDA sources of kernels without a GPU, slowly: a C++ compiler
// compiles them for this machine, with inline PTX replaced by functions (cxx/), threads
// as fibers and the CTAs of a cluster side by side. It shows wrong answers and bits, accesses
// beyond a buffer and barriers that not all threads reach; what a GPU does at once and in
// which order memory changes there is not seen here.
package emulate

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/triton"
)

//go:embed cxx/emulate.h
var header string

//go:embed cxx/runtime.cpp
var runtimeText string

//go:embed cxx/narrow.h
var narrow string

// ErrNoCompiler says that there is no C++ compiler.
var ErrNoCompiler = errors.New("no C++ compiler")

// An Emulator compiles launches with one compiler, into one folder. Many goroutines may use
// it.
type Emulator struct {
	compiler, dir string

	mu    sync.Mutex
	built map[string]*program // by their source
}

type program struct {
	file string
	once sync.Once
	err  error
}

// UnsupportedError says what in a source the emulator does not run, or its compiler does not take.
type UnsupportedError struct {
	Source    string // file
	Construct string // PTX, or the compiler's first error
}

func (u *UnsupportedError) Error() string { return u.Source + ": " + u.Construct }

// flags: contractions would make sums differ from one compiler to the next.
var flags = []string{"-std=c++20", "-O1", "-w", "-ffp-contract=off", "-pthread"}

// New finds the compiler, $CXX or g++; dir is for what it makes.
func New(dir string) (*Emulator, error) {
	name := os.Getenv("CXX")
	if name == "" {
		name = "g++"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	e := &Emulator{compiler: path, dir: dir, built: map[string]*program{}}
	for _, name := range []string{"cuda_bf16.h", "cuda_fp16.h"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(narrow), 0o666); err != nil {
			return nil, err
		}
	}
	for _, once := range []struct{ name, text, to, language string }{
		{"emulate.h", header, "emulate.h.gch", "c++-header"},
		{"runtime.cpp", runtimeText, "runtime.o", "c++"},
	} {
		if err := os.WriteFile(filepath.Join(dir, once.name), []byte(once.text), 0o666); err != nil {
			return nil, err
		}
		args := []string{"-x", once.language, "-c", "-o", filepath.Join(dir, once.to),
			filepath.Join(dir, once.name)}
		if out, err := exec.Command(path, append(flags[:len(flags):len(flags)],
			args...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile %s: %w: %s", once.name, err, oneLine(string(out)))
		}
	}
	return e, nil
}

// Run does one launch with the sources of r on mem, which has a buffer for each name among
// its arguments.
func (e *Emulator) Run(ctx context.Context, r *kernels.Registry, l *kernels.Launch,
	mem map[string]*kernels.Memory) error {
	program, err := e.build(ctx, r, l)
	if err != nil {
		return err
	}
	in, names, err := input(l, mem)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	if err := cmd.Run(); err != nil {
		if _, why, ok := strings.Cut(errs.String(), "not run: "); ok && len(program) > 1 {
			return &UnsupportedError{l.Source, oneLine(why)}
		}
		if errs.Len() == 0 { // a signal ended it
			return fmt.Errorf("%s: %w", l.Entry, err)
		}
		return fmt.Errorf("%s: %w: %s", l.Entry, err, oneLine(errs.String()))
	}
	for _, name := range names {
		if _, err := io.ReadFull(&out, mem[name].Bytes); err != nil {
			return fmt.Errorf("%s: what became of %s: %w", l.Entry, name, err)
		}
	}
	return nil
}

// input is what the program of a launch reads, with the names of its buffers in their order.
func input(l *kernels.Launch, mem map[string]*kernels.Memory) (*bytes.Buffer, []string, error) {
	together := max(l.Cluster, 1)
	if l.Resident {
		together = l.Grid[0] * l.Grid[1] * l.Grid[2]
	}
	in := &bytes.Buffer{}
	put := func(v any) { _ = binary.Write(in, binary.LittleEndian, v) } // a Buffer takes all
	for _, n := range []int{l.Grid[0], l.Grid[1], l.Grid[2], l.Block, together} {
		put(uint32(n))
	}
	var names []string
	for _, a := range l.Args {
		if a.Kind == kernels.ArgBuffer && a.Name != "" && !slices.Contains(names, a.Name) {
			if mem[a.Name] == nil {
				return nil, nil, fmt.Errorf("%s: no buffer %q", l.Entry, a.Name)
			}
			names = append(names, a.Name)
		}
	}
	put(uint32(len(names)))
	for _, name := range names {
		put(uint64(len(mem[name].Bytes)))
		in.Write(mem[name].Bytes)
	}
	put(uint32(len(l.Args)))
	for _, a := range l.Args {
		kind, v := uint32(0), uint64(0)
		switch {
		case a.Kind != kernels.ArgBuffer:
			v = a.Bits()
		case a.Name != "":
			kind, v = 1, uint64(slices.Index(names, a.Name))
		}
		put(kind)
		put(v)
	}
	return in, names, nil
}

// build compiles a launch's program, once, and returns its command. Of Triton's kernels it is
// Triton's interpreter.
func (e *Emulator) build(ctx context.Context, r *kernels.Registry, l *kernels.Launch) ([]string, error) {
	u, err := cuda.NewUnit(r, l, "sm_90")
	if err != nil {
		return nil, err
	}
	if u.Source.IsPython() {
		return triton.Interpreter(e.dir, u.Source, u.Options, l)
	}
	file, err := e.program(ctx, u, l)
	return []string{file}, err
}

// program compiles a unit, once.
func (e *Emulator) program(ctx context.Context, u cuda.Unit, l *kernels.Launch) (string, error) {
	if u.Source.IsCompiled() {
		return "", &UnsupportedError{l.Source, "compiled code"}
	}
	var b strings.Builder
	b.WriteString("#include \"emulate.h\"\n")
	for _, d := range u.Options.Defines {
		fmt.Fprintf(&b, "#define %s %s\n", d.Name, d.Value)
	}
	text, err := withoutPTX(join(u.Source.Text, u.Source.Headers, map[string]bool{}))
	if err != nil {
		return "", &UnsupportedError{l.Source, err.Error()}
	}
	shared := strconv.Itoa(max(l.Shared, 16))
	b.WriteString(dynamicShared.ReplaceAllString(text,
		"static thread_local ${1}["+shared+" / sizeof(${2})];"))
	fmt.Fprintf(&b, "int main() { return emulate::main(%s); }\n", l.Entry)
	source := b.String()
	e.mu.Lock()
	one, ok := e.built[source]
	if !ok {
		one = &program{file: filepath.Join(e.dir, "launch"+strconv.Itoa(len(e.built)))}
		e.built[source] = one
	}
	e.mu.Unlock()
	one.once.Do(func() { one.err = e.compile(ctx, l, one.file, source) })
	return one.file, one.err
}

func (e *Emulator) compile(ctx context.Context, l *kernels.Launch, file, source string) error {
	if err := os.WriteFile(file+".cpp", []byte(source), 0o666); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, e.compiler, append(flags[:len(flags):len(flags)], "-I", e.dir,
		"-o", file, file+".cpp", filepath.Join(e.dir, "runtime.o"))...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, what, found := strings.Cut(string(out), "error: "); err != nil && found {
		what, _, _ = strings.Cut(what, "\n")
		return &UnsupportedError{l.Source, what}
	}
	if err != nil {
		return fmt.Errorf("compile %s for %s: %w: %s", l.Source, l.Entry, err, oneLine(string(out)))
	}
	return nil
}

// join is a source with the headers that it includes by name in their place, each once.
func join(text string, headers map[string]string, seen map[string]bool) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), `#include "`)
		if !ok {
			b.WriteString(line)
			continue
		}
		name = strings.TrimSuffix(name, `"`)
		if !seen[name] {
			seen[name] = true
			b.WriteString(join(headers[name], headers, seen))
		}
	}
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
