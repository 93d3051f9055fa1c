// Package emulate runs the CUDA sources of kernels without a GPU, slowly: a C++ compiler
// compiles them for this machine, with inline PTX replaced by functions (cxx/), threads
// as fibers and the CTAs of a cluster side by side. It shows wrong answers and bits, accesses
// beyond a buffer, which are not aligned, and barriers that not all threads reach; what a GPU does
// at once and in which order memory changes there is not seen here.
package emulate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"normbench/internal/durable"
	"normbench/internal/proc"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cuda"
)

//go:embed cxx/emulate.h
var header string

//go:embed cxx/runtime.cpp
var runtimeText string

//go:embed cxx/narrow.h
var narrow string

//go:embed cxx/include
var included embed.FS

// headers are the texts of what kernels may include of CUDA's, by name. The rest of those is in emulate.h.
var headers = func() map[string]string {
	all := map[string]string{"cuda_bf16.h": narrow, "cuda_fp16.h": narrow}
	for file, names := range map[string]string{
		"": "cuda.h device_launch_parameters.h vector_types.h vector_functions.h device_functions.h math_functions.h " +
			"device_atomic_functions.h cuda/cmath",
		"runtime.h":   "cuda_runtime.h cuda_runtime_api.h cuda_device_runtime_api.h driver_types.h",
		"fp8.h":       "cuda_fp8.h",
		"assert.h":    "assert.h cassert",
		"constants.h": "math_constants.h",
		"groups.h":    "cooperative_groups.h cooperative_groups/reduce.h",
		"cub.h": "cub/cub.cuh cub/block/block_reduce.cuh cub/warp/warp_reduce.cuh cub/util_type.cuh " +
			"cub/thread/thread_operators.cuh",
	} {
		text, _ := included.ReadFile("cxx/include/" + file) // "" has none
		for name := range strings.FieldsSeq(names) {
			all[name] = string(text)
		}
	}
	for name := range strings.FieldsSeq("algorithm array cfloat climits cmath concepts cstddef cstdint functional " +
		"initializer_list limits numeric optional tuple type_traits utility") {
		all["cuda/std/"+name] = "#include <" + name + ">\nnamespace cuda { namespace std = ::std; }\n"
	}
	return all
}()

// keeps says whether a header stays as it is included.
func keeps(name string) bool {
	_, ok := headers[name]
	return ok || nvrtc.IsCUDA(name) || nvrtc.IsStandard(name)
}

var (
	// ErrNoCompiler says that there is no C++ compiler.
	ErrNoCompiler = errors.New("no C++ compiler")
	// ErrSpace says that the folder of New is on a disk that is full.
	ErrSpace        = errors.New("no space is left for the emulator's programs")
	errCompilerTime = fmt.Errorf("the compiler did not end within %d s of CPU time, or %s",
		compilerSeconds, compilerLimit)
)

// compilerMemory is the most address space that a compiler may have, in KiB: ten times what our
// kernels need.
const compilerMemory = 2 << 20

// compilerSeconds is the most time of a processor that a compiler may take, a hundred times what our
// kernels need. compilerLimit is the longest that one may wait, on a machine that does much else.
const (
	compilerSeconds = 60
	compilerLimit   = 5 * time.Minute
)

// An Emulator compiles launches with one compiler, into one folder. Many goroutines may use
// it.
type Emulator struct {
	compiler, dir string
	checks, links []string // flags
	triton        *triton.Interpreter
	target        triton.Target
	// alive is a pipe whose other end closes when this process dies, however it does.
	alive, living *os.File
	cleaner       *exec.Cmd

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

var (
	// flags: contractions would make sums differ from one compiler to the next.
	flags = []string{"-std=c++20", "-O1", "-w", "-ffp-contract=off", "-pthread"}
	// checked are those of kernels, by the compiler's kind. They have it call what runtime.cpp
	// checks accesses with.
	checked = map[bool][]string{
		false: {sanitize, "--param",
			"asan-instrumentation-with-call-threshold=0", "--param", "asan-stack=0", "--param",
			"asan-globals=0"},
		true: {sanitize, "-mllvm",
			"-asan-instrumentation-with-call-threshold=0", "-mllvm", "-asan-stack=0", "-mllvm",
			"-asan-globals=0"},
	}
	// linked has a program linked without the compiler's library of what runtime.cpp has.
	linked = map[bool][]string{
		false: {"-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"},
		true:  {"-fno-sanitize-link-runtime"},
	}
)

const sanitize = "-fsanitize=kernel-address,alignment,bounds"

// UsePython has a Python interpret kernels of Triton, as triton.Python reads its name, and returns e.
func (e *Emulator) UsePython(python string) *Emulator {
	e.triton.UsePython(python)
	return e
}

// New finds the compiler, $CXX or g++; dir is for what it makes. Close frees what the Emulator holds.
func New(ctx context.Context, dir string) (*Emulator, error) {
	name := os.Getenv("CXX")
	if name == "" {
		name = "g++"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	e := &Emulator{compiler: path, dir: dir, built: map[string]*program{},
		target: triton.Target{Name: "an emulated GPU", Arch: "sm_90", SMs: 1}}
	e.triton = triton.NewInterpreter(dir, func() triton.Target { return e.target })
	if e.alive, e.living, err = os.Pipe(); err != nil {
		return nil, err
	}
	if err = e.startCleaner(); err == nil {
		err = e.prepare(ctx)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// startCleaner starts a process that removes the folder if this one dies before Close.
func (e *Emulator) startCleaner() error {
	const clean = `trap '' INT TERM HUP; read -r _; sleep 0.2; rm -rf "$1"`
	e.cleaner = exec.Command("sh", "-c", clean, "sh", e.dir)
	e.cleaner.Stdin = e.alive
	return e.cleaner.Start()
}

// prepare compiles what is the same for all launches.
func (e *Emulator) prepare(ctx context.Context) error {
	for name, text := range headers {
		if err := os.MkdirAll(filepath.Dir(e.file(name)), 0o777); err != nil {
			return e.spaceFor(err, "")
		}
		if err := e.write(name, text); err != nil {
			return err
		}
	}
	version, err := exec.CommandContext(ctx, e.compiler, "--version").Output()
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoCompiler, e.compiler, err)
	}
	clang := bytes.Contains(version, []byte("clang"))
	e.checks, e.links = checked[clang], linked[clang]
	if err := e.write("emulate.h", header); err != nil {
		return err
	}
	if err := e.write("runtime.cpp", runtimeText); err != nil {
		return err
	}
	runtime := make(chan error, 1)
	go func() { runtime <- e.keep(ctx, version, "runtime.cpp", "runtime.o") }()
	args := append([]string{"-x", "c++-header"}, e.checks...)
	if clang { // its header is only good beside the text that it was made of
		err = e.compileOnce(ctx, "emulate.h", append(args, "-o", e.file("emulate.h.gch"))...)
	} else {
		err = e.keep(ctx, version, "emulate.h", "emulate.h.gch", args...)
	}
	return cmp.Or(err, <-runtime)
}

// keep compiles a file that is the same for all launches. runtime.o takes a compiler as long as the programs of ten
// launches, the header as long as three. Both are kept beside the cubins. What cannot be kept, the next emulator
// compiles again.
func (e *Emulator) keep(ctx context.Context, version []byte, from, to string, args ...string) error {
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %q %q %s %s %v", e.compiler, version, flags, args, header, runtimeText, headers))
	kept := durable.Place{Root: nvrtc.DefaultCacheDir(), Name: fmt.Sprintf("emulator-%x%s", key, filepath.Ext(to))}
	if data, err := readTrusted(kept.String()); err == nil {
		return e.write(to, string(data))
	}
	if err := e.compileOnce(ctx, from, append(args, "-o", e.file(to))...); err != nil {
		return err
	}
	data, err := os.ReadFile(e.file(to))
	if err == nil && os.MkdirAll(kept.Root, 0o777) == nil {
		_ = kept.WriteFrom(bytes.NewReader(data))
	}
	return err
}

// readTrusted reads a file that nobody else may have written: it is run here.
func readTrusted(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !nvrtc.IsTrusted(st) {
		err = fs.ErrPermission
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// compileOnce compiles what is the same for all launches.
func (e *Emulator) compileOnce(ctx context.Context, name string, args ...string) error {
	out, err := e.cxx(ctx, append(args, "-c", e.file(name))...)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrSpace) {
		return err
	}
	return fmt.Errorf("compile %s: %w: %s", name, err, oneLine(out))
}

// Close has compilers that still run end, and Triton's interpreter. The folder stays.
func (e *Emulator) Close() {
	e.triton.Close()
	if e.cleaner.Process != nil {
		_ = e.cleaner.Process.Kill()
		_ = e.cleaner.Wait() // it was killed
	}
	e.alive.Close()
	e.living.Close()
}

func (e *Emulator) file(name string) string { return filepath.Join(e.dir, name) }

// write writes a file for the compiler.
func (e *Emulator) write(name, text string) error {
	return e.spaceFor(os.WriteFile(e.file(name), []byte(text), 0o666), "")
}

// spaceFor is err, or an ErrSpace where that is what err or a compiler's output says.
func (e *Emulator) spaceFor(err error, out string) error {
	if errors.Is(err, syscall.ENOSPC) || err != nil && strings.Contains(out, syscall.ENOSPC.Error()) ||
		err != nil && strings.Contains(out, "No space left on device") {
		return fmt.Errorf("%w in %s", ErrSpace, filepath.Dir(e.dir))
	}
	return err
}

// exitFault is the exit code of a program that found a fault of the kernel, and said which.
const exitFault = 3

// Run does one launch with the sources of r on mem, which has a buffer for each name among
// its arguments. With lastFirst CTAs run from the last to the first.
func (e *Emulator) Run(ctx context.Context, r *kernels.Registry, l *kernels.Launch,
	mem map[string]*kernels.Memory, lastFirst bool) error {
	run, err := e.build(ctx, r, l)
	if err != nil {
		return err
	}
	in, names, err := input(l, mem, lastFirst)
	if err != nil {
		return err
	}
	o, err := run(ctx, in.Bytes())
	if err != nil {
		if _, why, ok := strings.Cut(o.Said, "not run: "); ok {
			return &UnsupportedError{l.Source, oneLine(why)}
		}
		err = e.spaceFor(err, o.Said)
		switch {
		case o.Said == "": // a signal ended it
			return fmt.Errorf("%s: %w", l.Entry, err)
		case o.Code == exitFault:
			return fmt.Errorf("%s: %s", l.Entry, oneLine(o.Said))
		}
		return fmt.Errorf("%s: %w: %s", l.Entry, err, oneLine(o.Said))
	}
	out := bytes.NewReader(o.Output)
	for _, name := range names {
		if _, err := io.ReadFull(out, mem[name].Bytes); err != nil {
			return fmt.Errorf("%s: what became of %s: %w", l.Entry, name, err)
		}
	}
	return nil
}

// A runner runs what was built of a launch, on its input. The error says how that ended, if not well.
type runner func(ctx context.Context, in []byte) (triton.LaunchEnd, error)

// runProgram is the runner of a program that was compiled.
func runProgram(ctx context.Context, file string, in []byte) (o triton.LaunchEnd, err error) {
	cmd := exec.Command(file)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	err = proc.Run(ctx, cmd)
	o.Output, o.Said = out.Bytes(), errs.String()
	if cmd.ProcessState != nil {
		o.Code = cmd.ProcessState.ExitCode()
	}
	return o, err
}

// input is what the program of a launch reads, with the names of its buffers in their order.
func input(l *kernels.Launch, mem map[string]*kernels.Memory, lastFirst bool) (*bytes.Buffer, []string,
	error) {
	together := max(l.Cluster, 1)
	if l.Resident {
		together = l.Grid[0] * l.Grid[1] * l.Grid[2]
	}
	in := &bytes.Buffer{}
	put := func(v any) { _ = binary.Write(in, binary.LittleEndian, v) } // a Buffer takes all
	order := 0
	if lastFirst {
		order = 1
	}
	block := l.Threads()
	for _, n := range []int{l.Grid[0], l.Grid[1], l.Grid[2], block[0], block[1], block[2], together,
		l.Shared, order} {
		put(uint32(n))
	}
	var names []string
	for name := range kernels.BuffersOf(l.Args) {
		if slices.Contains(names, name) {
			continue
		}
		if mem[name] == nil {
			return nil, nil, fmt.Errorf("%s: no buffer %q", l.Entry, name)
		}
		names = append(names, name)
	}
	put(uint32(len(names)))
	for _, name := range names {
		put(uint32(len(name)))
		in.WriteString(name)
		put(uint32(mem[name].DType.Size()))
		put(uint64(len(mem[name].Bytes)))
		in.Write(mem[name].Bytes)
	}
	put(uint32(len(l.Args)))
	for _, a := range l.Args {
		slots := make([]uint64, a.Slots())
		a.Put(slots, func(string) uint64 { return 0 })
		put(uint32(a.Size()))
		put(slots)
		var places []uint32 // of pointers: the slot, and the buffer
		for at, name := range a.Pointers() {
			if name != "" {
				places = append(places, uint32(at), uint32(slices.Index(names, name)))
			}
		}
		put(uint32(len(places) / 2))
		put(places)
	}
	return in, names, nil
}

// build compiles a launch's program, once, and returns what runs it. Of Triton's kernels that is Triton's
// interpreter, which imports the source here.
func (e *Emulator) build(ctx context.Context, r *kernels.Registry, l *kernels.Launch) (runner, error) {
	own := *l
	own.NVCC, own.Without = false, nil // program sees to them
	u, err := cuda.NewUnit(r, &own, "sm_90")
	if err != nil {
		return nil, err
	}
	if u.Source.IsPython() {
		if err := e.triton.Import(ctx, u.Source); err != nil {
			return nil, fmt.Errorf("%s: %w", l.Entry, err)
		}
		return func(ctx context.Context, in []byte) (triton.LaunchEnd, error) {
			return e.triton.Interpret(ctx, u.Source, u.Options, l, in)
		}, nil
	}
	if u.Source, err = nvrtc.ReadSource(r.File, l.Source); err != nil {
		return nil, err
	}
	file, err := e.program(ctx, u, l)
	return func(ctx context.Context, in []byte) (triton.LaunchEnd, error) { return runProgram(ctx, file, in) }, err
}

// program compiles a unit, once. A source that the emulator does not take as a whole is cut to what the entry reaches:
// beside the kernel may stand what the emulator lacks.
func (e *Emulator) program(ctx context.Context, u cuda.Unit, l *kernels.Launch) (string, error) {
	if u.Source.IsCompiled() {
		return "", &UnsupportedError{l.Source, "compiled code"}
	}
	text := textOf(u.Source, l)
	file, err := e.programOf(ctx, u, l, text)
	if unsupported := new(UnsupportedError); errors.As(err, &unsupported) {
		if cut := cutText(u.Source, l); cut != text {
			return e.programOf(ctx, u, l, cut)
		}
	}
	return file, err
}

// programOf compiles a text, once.
func (e *Emulator) programOf(ctx context.Context, u cuda.Unit, l *kernels.Launch, text string) (string, error) {
	text, err := withoutPTX(text)
	if err == nil {
		err = checkIncludes(text)
	}
	if err != nil {
		return "", &UnsupportedError{l.Source, err.Error()}
	}
	var b strings.Builder
	b.WriteString("#include \"emulate.h\"\n")
	for _, header := range []string{"cub/cub.cuh", "cooperative_groups.h"} {
		of, _, _ := strings.Cut(strings.TrimSuffix(header, ".h"), "/")
		if strings.Contains(text, "#include <"+of) { // ahead of macros that may have a name of theirs
			fmt.Fprintf(&b, "#include <%s>\n", header)
		}
	}
	for _, d := range u.Options.Defines {
		fmt.Fprintf(&b, "#define %s %s\n", d.Name, d.Value)
	}
	b.WriteString(withShared(text, l.Shared))
	fmt.Fprintf(&b, "int main() { return emulate::main(%s); }\n", l.Entry)
	source := b.String()
	e.mu.Lock()
	one, ok := e.built[source]
	if !ok {
		one = &program{file: e.file("launch" + strconv.Itoa(len(e.built)))}
		e.built[source] = one
	}
	e.mu.Unlock()
	one.once.Do(func() { one.err = e.compile(ctx, l, one.file, source) })
	return one.file, one.err
}

// compile compiles a program. Functions of CUDA's that the emulator lacks end the run where a thread calls them: a file
// may have them for other kernels.
func (e *Emulator) compile(ctx context.Context, l *kernels.Launch, file, source string) error {
	err := e.compileAs(ctx, l, file, source)
	if unknown := new(unknownError); errors.As(err, &unknown) && ctx.Err() == nil {
		first, rest, _ := strings.Cut(source, "\n")
		var b strings.Builder
		b.WriteString(first + "\n")
		for _, name := range unknown.names {
			fmt.Fprintf(&b, "template <typename... A> emulate::Anything %s(const A &...) { emulate::lacks(%q); }\n",
				name, name+lackingHelp)
		}
		if e.compileAs(ctx, l, file, b.String()+rest) == nil {
			return nil
		}
	}
	return err
}

// An unknownError is an UnsupportedError of functions that the emulator lacks.
type unknownError struct {
	UnsupportedError
	names []string
}

func (u *unknownError) Unwrap() error { return &u.UnsupportedError }

// unknownFunctions lists the functions of CUDA's that a compiler does not know.
func unknownFunctions(out string) (names []string) {
	for _, m := range unknownRE.FindAllStringSubmatch(out, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

var unknownRE = regexp.MustCompile(`error: '(__[a-z]\w*)' was not declared in this scope`)

func (e *Emulator) compileAs(ctx context.Context, l *kernels.Launch, file, source string) error {
	if err := e.write(filepath.Base(file)+".cpp", source); err != nil {
		return err
	}
	out, err := e.cxx(ctx, slices.Concat(e.checks, []string{"-I", e.dir, "-o", file, file + ".cpp",
		e.file("runtime.o")}, e.links)...)
	all := out
	if _, what, ok := strings.Cut(out, "undefined reference to "); ok {
		what, _, _ = strings.Cut(what, "\n")
		out = "error: no definition of " + what
	}
	place, what, found := strings.Cut(out, "error: ")
	at := l.Source
	if m := placeRE.FindStringSubmatch(place); m != nil && !filepath.IsAbs(m[1]) {
		at = m[1] + ":" + m[2]
	}
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, ErrSpace):
		return err
	case errors.Is(err, errCompilerTime):
		return &UnsupportedError{l.Source, err.Error()}
	case strings.Contains(out, "virtual memory exhausted") || strings.Contains(out, "out of memory"):
		return &UnsupportedError{l.Source, fmt.Sprintf("the compiler needs more than %d GiB",
			compilerMemory>>20)}
	case found && strings.Contains(what, "No such file"):
		names := e.missingHeaders(ctx, file+".cpp")
		if without := withoutHeaders(source, names); l.NVCC && without != source {
			return e.compile(ctx, l, file, without) // nvcc finds those, or says so; what they declare is the host's
		}
		return &UnsupportedError{l.Source, "no header " + strings.Join(names, ", ")}
	case found:
		what, _, _ = strings.Cut(what, "\n")
		unsupported := UnsupportedError{at, missingNameError(what)}
		if names := unknownFunctions(all); len(names) > 0 {
			return &unknownError{unsupported, names}
		}
		return &unsupported
	}
	return fmt.Errorf("compile %s for %s: %w: %s", l.Source, l.Entry, err, oneLine(out))
}

// placeRE finds the file and the line that an error is at.
var placeRE = regexp.MustCompile(`(?:^|\n)([^\n:]+):(\d+):\d+: (?:fatal )?$`)

// withoutHeaders returns a source without the lines that include some headers.
func withoutHeaders(source string, names []string) string {
	return includeRE.ReplaceAllStringFunc(source, func(line string) string {
		m := includedRE.FindStringSubmatch(includeRE.FindStringSubmatch(line)[1])
		if m != nil && slices.Contains(names, m[1]+m[2]) {
			return ""
		}
		return line
	})
}

// missingHeaders lists all headers that a program includes and that are not there.
func (e *Emulator) missingHeaders(ctx context.Context, file string) (names []string) {
	// The compiler makes a rule of make: what is not there stands as it is included.
	out, _ := e.cxx(ctx, "-I", e.dir, "-M", "-MG", file)
	_, list, _ := strings.Cut(out, ":")
	for name := range strings.FieldsSeq(strings.ReplaceAll(list, "\\\n", " ")) {
		if !filepath.IsAbs(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// guarded runs a command with bounds of its memory, in KiB, and of its processor time, in seconds. It
// kills the command and what it has started when standard input number 3 ends: then normbench has died.
const guarded = `ulimit -v "$1" 2>/dev/null
ulimit -t "$2"
(read -r _ <&3; kill -9 0) >/dev/null 2>&1 & guard=$!
exec 3<&-
shift 2
"$@"
status=$?
kill -9 "$guard"
exit "$status"`

// cxx runs the compiler, and returns what it says.
func (e *Emulator) cxx(ctx context.Context, args ...string) (string, error) {
	within, stop := context.WithTimeout(ctx, compilerLimit)
	defer stop()
	cmd := exec.Command("sh", slices.Concat([]string{"-c", guarded, "sh", strconv.Itoa(compilerMemory),
		strconv.Itoa(compilerSeconds), e.compiler}, flags, args)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.ExtraFiles = []*os.File{e.alive}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := proc.Run(within, cmd)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case within.Err() != nil || err != nil && strings.Contains(out.String(), "CPU time limit exceeded"):
		err = errCompilerTime
	}
	return out.String(), e.spaceFor(err, out.String())
}

// textOf returns what is compiled of a source, in one file: of one with host code what the entry reaches.
func textOf(src nvrtc.Source, l *kernels.Launch) string {
	if l.NVCC || len(l.Without) > 0 || l.Mangled && src.HasHostCode(l.Include) {
		return cutText(src, l)
	}
	return forCPU(src.Joined(l.Include, keeps))
}

// cutText returns what the entry reaches of a source, in one file.
func cutText(src nvrtc.Source, l *kernels.Launch) string {
	return forCPU(src.DeviceCode(l.Entry, l.Include, l.Without, keeps).Text)
}

func forCPU(text string) string {
	return staticRE.ReplaceAllString(noinlineRE.ReplaceAllString(text, ""), "__shared__")
}

var (
	// noinlineRE finds a word of CUDA's that the standard library uses otherwise.
	noinlineRE = regexp.MustCompile(`\b__noinline__\b`)
	// staticRE finds static beside __shared__, which is static in the emulator.
	staticRE = regexp.MustCompile(`\bstatic\s+__shared__|\b__shared__\s+static\b`)
)

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
