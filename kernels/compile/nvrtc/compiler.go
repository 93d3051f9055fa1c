package nvrtc

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"normbench/internal/nvlib"
)

// A Compiler is a loaded NVRTC library. It is never unloaded. All methods may be called by
// many goroutines at once.
type Compiler struct {
	path         string
	major, minor int
	archs        []int
	includes     []string
	lib          functions
}

// A functions has the functions of NVRTC. A result of 0 is success. The signatures are those of nvrtc.h;
// char** and size_t* are plain pointers.
type functions struct {
	version     func(major, minor *int32) int32
	errorString func(result int32) string
	numArchs    func(n *int32) int32
	archs       func(list *int32) int32
	create      func(prog *uintptr, src, name *byte, numHeaders int32, headers,
		includeNames unsafe.Pointer) int32
	destroy        func(prog *uintptr) int32
	compile        func(prog uintptr, numOptions int32, options unsafe.Pointer) int32
	cubinSize      func(prog uintptr, size *uintptr) int32
	cubin          func(prog uintptr, data *byte) int32
	addName        func(prog uintptr, name *byte) int32
	loweredName    func(prog uintptr, name *byte, lowered **byte) int32
	programLogSize func(prog uintptr, size *uintptr) int32
	programLog     func(prog uintptr, data *byte) int32
}

// Open loads NVRTC from a file, or from a soname that the dynamic loader resolves. It
// fails if the file cannot be loaded or is older than CUDA 11.2, the first version that
// tells its architectures and makes cubins.
func Open(path string) (*Compiler, error) {
	c := &Compiler{}
	var err error
	if c.path, err = nvlib.Load(library.Name, path, map[string]any{
		"nvrtcVersion":              &c.lib.version,
		"nvrtcGetErrorString":       &c.lib.errorString,
		"nvrtcGetNumSupportedArchs": &c.lib.numArchs,
		"nvrtcGetSupportedArchs":    &c.lib.archs,
		"nvrtcCreateProgram":        &c.lib.create,
		"nvrtcDestroyProgram":       &c.lib.destroy,
		"nvrtcCompileProgram":       &c.lib.compile,
		"nvrtcGetCUBINSize":         &c.lib.cubinSize,
		"nvrtcGetCUBIN":             &c.lib.cubin,
		"nvrtcAddNameExpression":    &c.lib.addName,
		"nvrtcGetLoweredName":       &c.lib.loweredName,
		"nvrtcGetProgramLogSize":    &c.lib.programLogSize,
		"nvrtcGetProgramLog":        &c.lib.programLog,
	}); err != nil {
		return nil, err
	}
	var major, minor, n int32
	if r := c.lib.version(&major, &minor); r != 0 {
		return nil, c.callError("nvrtcVersion", r)
	}
	c.major, c.minor = int(major), int(minor)
	if r := c.lib.numArchs(&n); r != 0 || n <= 0 {
		return nil, c.callError("nvrtcGetNumSupportedArchs", r)
	}
	list := make([]int32, n)
	if r := c.lib.archs(&list[0]); r != 0 {
		return nil, c.callError("nvrtcGetSupportedArchs", r)
	}
	for _, a := range list {
		c.archs = append(c.archs, int(a))
	}
	slices.Sort(c.archs)
	c.includes = includeFolders(c.path, c.major)
	// NVRTC loads its builtins by bare soname, and the library of the wheels has no
	// RUNPATH, so the loader would not find them beside it. Once loaded they are found by
	// soname. When they are elsewhere the loader may still find them: not an error here.
	nvlib.Preload(filepath.Join(filepath.Dir(c.path), fmt.Sprintf("libnvrtc-builtins.so.%d.%d*",
		major, minor)))
	return c, nil
}

// Version returns the CUDA version of the library, such as 13, 0.
func (c *Compiler) Version() (major, minor int) { return c.major, c.minor }

// Path returns the file that was loaded.
func (c *Compiler) Path() string { return c.path }

// Archs lists the architectures the library compiles for, ascending, as ten times the major
// plus the minor compute capability: 80, 90, 100.
func (c *Compiler) Archs() []int { return slices.Clone(c.archs) }

// Includes returns the folders in which #include <...> is looked for.
func (c *Compiler) Includes() []string { return slices.Clone(c.includes) }

// Compile compiles a source to a cubin. It takes from tenths of a second to seconds and knows no cache.
// The error is a [*CompileError] if the source or a flag is wrong.
func (c *Compiler) Compile(src Source, opt CompileOptions) (*Binary, error) {
	flags, err := c.flags(src, opt)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", src.Name, err)
	}
	names := slices.Sorted(maps.Keys(src.Headers))
	var texts []string
	for _, name := range names {
		texts = append(texts, src.Headers[name])
	}
	var mem pinnedMemory
	defer mem.Unpin()
	source, name, expressions := mem.string(src.Text), mem.string(src.Name), map[string]*byte{}
	ctexts, cnames, cflags := mem.list(texts), mem.list(names), mem.list(flags)
	for _, n := range opt.Names {
		expressions[n] = mem.string(n)
	}
	if mem.nul {
		return nil, fmt.Errorf("compile %s: NUL byte in source, header or flag", src.Name)
	}

	start := time.Now()
	var prog uintptr
	if r := c.lib.create(&prog, source, name, int32(len(names)), ctexts, cnames); r != 0 {
		return nil, c.callError("nvrtcCreateProgram", r)
	}
	defer c.lib.destroy(&prog)
	for _, expression := range expressions {
		if r := c.lib.addName(prog, expression); r != 0 {
			return nil, c.callError("nvrtcAddNameExpression", r)
		}
	}
	result := c.lib.compile(prog, int32(len(flags)), cflags)
	text, err := c.read("ProgramLog", prog, c.lib.programLogSize, c.lib.programLog)
	if err != nil {
		return nil, err
	}
	log := strings.TrimSuffix(string(text), "\x00")
	if result != 0 {
		return nil, &CompileError{Source: src.Name, Result: c.lib.errorString(result), Log: log}
	}
	symbols := map[string]string{}
	for n, expression := range expressions {
		var lowered *byte // the program's
		if r := c.lib.loweredName(prog, expression, &lowered); r != 0 {
			return nil, c.callError("nvrtcGetLoweredName of "+n, r)
		}
		symbols[n] = gostring(lowered)
	}
	cubin, err := c.read("Cubin", prog, c.lib.cubinSize, c.lib.cubin)
	if err == nil && len(cubin) == 0 {
		err = fmt.Errorf("nvrtcGetCubin in %s: no cubin", c.path)
	}
	if err != nil {
		return nil, err
	}
	return &Binary{
		Cubin:          cubin,
		Kernels:        parseLog(log),
		Symbols:        symbols,
		Log:            log,
		CompileSeconds: time.Since(start).Seconds(),
	}, nil
}

// flags returns the flags of opt, and the include folders if the source needs them.
func (c *Compiler) flags(src Source, opt CompileOptions) ([]string, error) {
	flags, err := opt.flags()
	if includesSystem(src) {
		for _, dir := range slices.Concat(opt.Include, c.includes) {
			flags = append(flags, "--include-path="+dir)
		}
	}
	return flags, err
}

// A pinnedMemory holds memory that C reads during some calls. C keeps none of it, but sees pointers to
// pointers, so Go must not move it.
type pinnedMemory struct {
	runtime.Pinner
	nul bool // a string has a NUL byte
}

func (m *pinnedMemory) string(s string) *byte {
	m.nul = m.nul || strings.IndexByte(s, 0) >= 0
	b := make([]byte, len(s)+1)
	copy(b, s)
	m.Pin(&b[0])
	return &b[0]
}

func (m *pinnedMemory) list(list []string) unsafe.Pointer {
	if len(list) == 0 {
		return nil
	}
	var ptrs []*byte
	for _, s := range list {
		ptrs = append(ptrs, m.string(s))
	}
	m.Pin(&ptrs[0])
	return unsafe.Pointer(&ptrs[0])
}

// gostring copies a C string.
func gostring(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// read reads one result of a program: size returns its length, get its bytes.
func (c *Compiler) read(name string, prog uintptr, size func(uintptr, *uintptr) int32,
	get func(uintptr, *byte) int32) ([]byte, error) {
	var n uintptr
	if r := size(prog, &n); r != 0 || n == 0 {
		return nil, c.resultError("nvrtcGet"+name+"Size", r)
	}
	data := make([]byte, n)
	return data, c.resultError("nvrtcGet"+name, get(prog, &data[0]))
}

// resultError makes the error of a call's result, nil for success.
func (c *Compiler) resultError(call string, result int32) error {
	if result == 0 {
		return nil
	}
	return c.callError(call, result)
}

func (c *Compiler) callError(call string, result int32) error {
	return fmt.Errorf("%s in %s: %s", call, c.path, c.lib.errorString(result))
}
