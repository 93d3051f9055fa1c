package nvrtc

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotFound is wrapped by the error of [Find] when no NVRTC library could be loaded. A
// caller that prints hints can suggest NORMBENCH_NVRTC, an installed CUDA toolkit or
// "pip install nvidia-cuda-nvrtc".
var ErrNotFound = errors.New("NVRTC library not found")

// A Source is one CUDA translation unit.
type Source struct {
	Name    string            // file name that errors are reported under, such as "rms_fwd.cu"
	Text    string            // CUDA C++; entry functions are extern "C"
	Headers map[string]string // text by the name that #include asks for, or by the path of a module
	Package string            `json:",omitempty"` // in which a Python source lies, such as "package.kernels"
	Root    string            `json:",omitempty"` // the folder that the package lies in, which is no part of a key
	// Missing are the names that it includes and that do not lie beside it; folders may have them.
	Missing []string `json:"-"`
}

// IsCompiled says whether the text is no source but a cubin or PTX, by the name's ending.
func (s Source) IsCompiled() bool {
	return strings.HasSuffix(s.Name, ".cubin") || strings.HasSuffix(s.Name, ".ptx")
}

// IsPython says whether the text is Python, by the name: FILE.py, or that of a module.
func (s Source) IsPython() bool {
	return strings.HasSuffix(s.Name, ".py") || strings.HasPrefix(s.Name, Module) ||
		strings.Contains(s.Name, ":"+Module)
}

// Imports returns the name under which a probe's findings on a Python source are kept: as JSON, its
// package, the folder of that, and the files of its own that it imports, named from that folder.
func Imports(name string) string { return name + "#imports" }

// Module begins the name of an installed Python module.
const Module = "python:"

// A Macro is one -D on the command line. An empty Value defines the name as empty,
// as "#define NAME" does.
type Macro struct{ Name, Value string }

// CompileOptions say how a source is compiled.
type CompileOptions struct {
	Arch    string   // real architecture: "sm_80", "sm_90a"; "compute_*" is refused
	Defines []Macro  // the order does not matter
	Extra   []string // further NVRTC flags, in the order given, such as "--use_fast_math"
	Include []string // folders in which #include <FILE> is looked for first
	Names   []string // C++ names of kernels, such as kernel<8, float>, to make and to tell the symbols of
	NVCC    string   // the nvcc that compiles, with its version; "" for NVRTC
}

// An EntryReport has the resources that ptxas reports of one entry function. All are zero where the log
// has no report of it.
type EntryReport struct {
	Registers       int // per thread
	StackBytes      int // stack frame per thread
	SpillStoreBytes int // per thread; static count of bytes in store instructions
}

// A Binary is the result of a compilation. It may be shared: callers must not change
// what it points to.
type Binary struct {
	Cubin          []byte                 // ELF image for cuModuleLoadData
	Kernels        map[string]EntryReport // by symbol
	Symbols        map[string]string      // of CompileOptions.Names
	Log            string                 // compiler and ptxas output, warnings included
	Cached         bool                   // this call compiled nothing
	CompileSeconds float64                // wall time of the compilation, also when Cached
	Meta           *Meta                  // of a kernel that says itself how it is launched; else nil
}

// A Meta is what Triton says of a kernel's launch.
type Meta struct {
	Params      []Param    // in order; those that became constants are not among them
	Threads     int        // of a CTA
	Shared      int        // dynamic shared memory, bytes
	Cluster     int        // CTAs of a cluster, along x
	Cooperative bool       // all CTAs are on the device at once
	Early       bool       // programmatic dependent launch
	Descriptors int        // tensor descriptors that the host makes
	Scratch     [][2]int64 // bytes for each CTA and alignment: of global scratch, then of the profiler's
}

// A Param is a parameter of a kernel, with its type as Triton writes it, such as *bf16 or i32.
type Param struct{ Name, Type string }

// Symbol returns the symbol of an entry: that of its C++ name, or the entry itself.
func (b *Binary) Symbol(entry string) string { return cmp.Or(b.Symbols[entry], entry) }

// A CompileError says that NVRTC refused a source.
type CompileError struct {
	Source string // name of the source
	Result string // NVRTC's name of the failure, such as "NVRTC_ERROR_COMPILATION"
	Log    string // the whole log
	// Missing are all headers that are not found, where that is what fails.
	Missing []string
}

// MissingHelp is the hint about missing headers.
const MissingHelp = "name their folders under include: or with --include; of CUDA's headers the wheels " +
	"nvidia-cuda-runtime and nvidia-cuda-cccl have all; those that only host code needs stand under without:"

// Error is one line: the first error of the log, which starts with file and line where
// NVRTC gave them.
func (e *CompileError) Error() string {
	line := firstError(e.Log)
	if strings.Contains(line, "could not open source file") ||
		strings.Contains(line, "cannot open source file") {
		line += "; --include names folders of headers, and the wheel nvidia-cuda-runtime has CUDA's"
	}
	switch {
	case len(e.Missing) > 0:
		return fmt.Sprintf("compile %s: no header %s", e.Source, strings.Join(e.Missing, ", "))
	case line == "":
		return fmt.Sprintf("compile %s: %s", e.Source, e.Result)
	case strings.HasPrefix(line, e.Source):
		return "compile " + line
	}
	return fmt.Sprintf("compile %s: %s", e.Source, line)
}

// firstError returns the first line of a log that reports an error, or its first line
// with text when none does.
func firstError(log string) string {
	var first string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if first == "" {
			first = line
		}
		// "k.cu(3): error: …", "k.cu(3): catastrophic error: …", "nvrtc: error: …",
		// "ptxas error   : …", "ptxas fatal   : …"
		for _, mark := range []string{"error: ", "error : ", "ptxas error", "ptxas fatal"} {
			if strings.Contains(line, mark) {
				return strings.Join(strings.Fields(line), " ")
			}
		}
	}
	return first
}

// FixedFlags are the flags of every compilation. None asks for line numbers in the code.
var FixedFlags = []string{
	"--std=c++17",
	"-default-device",
	"--ptxas-options=-v", // puts the resource report in the program log
}

// flags returns the NVRTC command line. It is also part of the cache key, so equal options in another
// order must give equal flags.
func (o CompileOptions) flags() ([]string, error) {
	if !strings.HasPrefix(o.Arch, "sm_") {
		return nil, fmt.Errorf("architecture %q is not of the form sm_NN", o.Arch)
	}
	flags := []string{"--gpu-architecture=" + o.Arch}
	standard := func(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, "-"), "std=") }
	for _, f := range FixedFlags {
		if !standard(f) || !slices.ContainsFunc(o.Extra, standard) { // NVRTC takes one
			flags = append(flags, f)
		}
	}
	defines := slices.Clone(o.Defines)
	slices.SortFunc(defines, func(a, b Macro) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	for i, d := range defines {
		if d.Name == "" {
			return nil, errors.New("macro without a name")
		}
		if i > 0 && defines[i-1].Name == d.Name {
			return nil, fmt.Errorf("macro %s is defined twice", d.Name)
		}
		flags = append(flags, "--define-macro="+d.Name+"="+d.Value)
	}
	return append(flags, o.Extra...), nil
}

// report finds what parseLog reads, in this order: an entry's name, the name of the function whose
// properties follow, these, and an entry's registers.
var report = regexp.MustCompile(`Compiling entry function '([^']+)'|Function properties for '?([^'\s]+)|` +
	`(\d+) bytes stack frame, (\d+) bytes spill stores|: Used (\d+) registers`)

// parseLog reads the resource report of ptxas -v. It ignores what it does not know: the
// log also has warnings, and the report gained fields over the years.
//
// A report is
//
//	ptxas info    : Compiling entry function 'k' for 'sm_90'
//	ptxas info    : Function properties for k
//	    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//	ptxas info    : Used 32 registers, used 1 barriers, 2048 bytes smem, 400 bytes cmem[0]
//
// where properties are also printed for device functions that were not inlined. Those
// are left out.
func parseLog(log string) map[string]EntryReport {
	kernels := map[string]EntryReport{}
	var entry, properties string // the entry that is reported, and the function of the properties
	for _, m := range report.FindAllStringSubmatch(log, -1) {
		switch {
		case m[1] != "":
			entry, properties = m[1], ""
			kernels[entry] = EntryReport{}
		case m[2] != "":
			properties = m[2]
		case entry == "" || m[3] != "" && properties != entry:
		default:
			k := kernels[entry]
			for i, n := range []*int{&k.StackBytes, &k.SpillStoreBytes, &k.Registers} {
				if v, err := strconv.Atoi(m[3+i]); err == nil {
					*n = v
				}
			}
			kernels[entry] = k
		}
	}
	return kernels
}
