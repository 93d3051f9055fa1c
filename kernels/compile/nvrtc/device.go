package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A file as it stands in its repository has host code beside its kernels: launches, bindings, a main
// function. NVRTC and the emulator take device code alone. DeviceCode leaves in a source what its
// entry can reach, by name, and blanks the rest, so that lines keep their numbers.

var hostRE = regexp.MustCompile(`<<<|\bcudaLaunchKernel\w*\b|\bint\s+main\s*\(`)

// HasHostCode says whether a source, with the headers that it includes from the folders, launches
// kernels itself.
func (s Source) HasHostCode(folders []string) bool {
	if s.IsCompiled() || s.IsPython() {
		return false
	}
	key := s.deviceKey("", folders, nil)
	if found, ok := hostCodes.Load(key); ok {
		return found.(bool)
	}
	has := hostRE.MatchString(StripComments(s.Joined(folders, nil)))
	hostCodes.Store(key, has)
	return has
}

// Joined returns a source as one text, with headers of the source and of the folders in place of their
// #include. Headers for which keep holds stay as they are included.
func (s Source) Joined(folders []string, keep func(name string) bool) string {
	return s.joinHeaders(folders, nil, keep).text()
}

func (s Source) deviceKey(entry string, folders, without []string) deviceKey {
	return deviceKey{s.Name, s.Text, fmt.Sprint(s.Headers), strings.Join(folders, "\n"),
		strings.Join(without, "\n"), entry}
}

// A deviceKey has all that DeviceCode depends on except the files of the folders, which a process reads
// once.
type deviceKey struct{ name, text, headers, folders, without, entry string }

var hostCodes, deviceCodes sync.Map // bool and Source by deviceKey: each visit of a variant asks for both

// DeviceCode returns the part of a source that an entry reaches, as one text with headers in place of
// their #include. Headers for which keep holds stay as they are included; those of without become empty.
func (s Source) DeviceCode(entry string, folders, without []string, keep func(name string) bool) Source {
	key := s.deviceKey(entry, folders, without)
	if keep != nil {
		key.without += "\nof the emulator"
	}
	if found, ok := deviceCodes.Load(key); ok {
		return found.(Source)
	}
	f := s.joinHeaders(folders, without, keep)
	made := Source{Name: s.Name, Text: withTypes(blankUnreached(f.text(), entry), entry), Headers: map[string]string{}}
	deviceCodes.Store(key, made)
	return made
}

// typesRE finds types by the header that they come from.
var typesRE = map[string]*regexp.Regexp{
	"cuda_bf16.h": regexp.MustCompile(`\b(?:__)?nv_bfloat162?\b`),
	"cuda_fp16.h": regexp.MustCompile(`\b(?:__)?half2?\b`),
	"type_traits": regexp.MustCompile(`\bstd::aligned_(?:storage|union)`),
}

// withTypes includes the headers of types that a text or an entry names, and defines the numbers of math.h. Headers that
// a source is without may have brought those of two bytes; the rest comes with all that nvcc includes by itself.
func withTypes(text, entry string) string {
	ahead := ""
	for _, header := range []string{"cuda_bf16.h", "cuda_fp16.h", "type_traits"} {
		if typesRE[header].MatchString(text + entry) {
			ahead += "#include <" + header + ">\n"
		}
	}
	for _, macro := range [][2]string{{"INFINITY", "0x7f800000"}, {"NAN", "0x7fffffff"}} {
		if regexp.MustCompile(`\b` + macro[0] + `\b`).MatchString(text) {
			ahead += "#ifndef " + macro[0] + "\n#define " + macro[0] + " __builtin_bit_cast(float, " + macro[1] + ")\n#endif\n"
		}
	}
	return ahead + text
}

// IsCUDA says whether a header is one of CUDA's, which stays an #include.
func IsCUDA(name string) bool {
	first, _, deep := strings.Cut(name, "/")
	switch first {
	case "cub", "thrust", "cuda", "nv", "cooperative_groups", "crt":
		return deep
	}
	return strings.HasPrefix(name, "cuda_") || slices.Contains([]string{"cuda.h", "cooperative_groups.h",
		"math_constants.h", "mma.h", "device_launch_parameters.h", "vector_types.h",
		"device_functions.h", "driver_types.h"}, name)
}

// IsStandard says whether a header is one of C++'s.
func IsStandard(name string) bool {
	_, ok := shims[name]
	return ok && !IsCUDA(name)
}

// A joinedSource has the lines of a source with headers in place of their #include.
type joinedSource struct {
	lines   []string
	folders []string
	without []string // headers that are taken as empty, wherever they lie
	keep    func(string) bool
	headers map[string]string
	seen    map[string]bool // files that are there whatever the macros are
	count   int             // of headers
}

// maxHeaders bounds the headers of a source. One in several conditional places counts each time.
const maxHeaders = 500

// joinHeaders makes the joinedSource of a source.
func (s Source) joinHeaders(folders, without []string, keep func(string) bool) *joinedSource {
	f := &joinedSource{folders: folders, without: without, keep: keep, headers: s.Headers, seen: map[string]bool{}}
	if keep == nil {
		f.keep = IsCUDA
	}
	f.add(base(s.Name), "", s.Text, true)
	return f
}

// base cuts the prefix off a file's name that says where it is from.
func base(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

func (f *joinedSource) text() string { return strings.Join(f.lines, "\n") + "\n" }

var (
	conditionRE = regexp.MustCompile(`^\s*#\s*(if|ifdef|ifndef|endif)\b\s*(\w*)`)
	onceRE      = regexp.MustCompile(`^\s*#\s*pragma\s+once\b`)
	macroDefRE  = regexp.MustCompile(`^\s*#\s*define\s+(\w+)\s*$`)
)

// add appends a file, whose folder among those of headers is dir. It is there for certain where no
// condition stands around it.
func (f *joinedSource) add(name, dir, text string, certain bool) {
	f.mark(1, name)
	depth, guarded := 0, guard(text)
	number := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		number++
		switch m := conditionRE.FindStringSubmatch(line); {
		case onceRE.MatchString(line):
			line = ""
		case m == nil:
		case m[1] == "endif":
			depth--
		case guarded == "" || m[2] != guarded || depth > 0:
			depth++
		default:
			guarded = "\x00" // its own endif takes one off at the end, behind all includes
		}
		m := directive.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[1] != "include" || m[2]+m[3] == "" {
			f.lines = append(f.lines, line)
			continue
		}
		if !f.include(m[2], m[3], dir, certain && depth <= 0) {
			f.lines = append(f.lines, line)
			continue
		}
		f.mark(number+1, name)
	}
}

// mark tells the compiler which line follows.
func (f *joinedSource) mark(number int, name string) {
	f.lines = append(f.lines, fmt.Sprintf("#line %d %q", number, name))
}

// guard returns the macro of a header's guard, "" without one.
func guard(text string) string {
	macro := ""
	for line := range strings.Lines(StripComments(text)) {
		line = strings.TrimSpace(line)
		if macro != "" {
			if m := macroDefRE.FindStringSubmatch(line); m != nil && m[1] == macro {
				return macro
			}
			return ""
		}
		m := conditionRE.FindStringSubmatch(line)
		if onceRE.MatchString(line) {
			continue
		}
		if m == nil || m[1] != "ifndef" {
			return ""
		}
		macro = m[2]
	}
	return ""
}

// include appends a header that is found. One that is there already is not appended again. A header in quotes may
// have a name like CUDA's, as cuda_utils.cuh has: it is the source's own where it does not lie among CUDA's.
func (f *joinedSource) include(quoted, system, dir string, certain bool) bool {
	name := quoted + system
	if slices.Contains(f.without, name) {
		return true
	}
	kept := f.keep(name)
	if kept && quoted == "" {
		return false
	}
	at := name
	text, ok := f.headers[quoted]
	if !ok {
		at, text, ok = find(f.folders, dir, name, quoted != "")
		ok = ok && !(kept && liesAmongCUDA(at, name))
	}
	if !ok {
		return false
	}
	if f.seen[at] {
		return true
	}
	if f.count++; f.count > maxHeaders {
		return false
	}
	f.seen[at] = true
	once := fmt.Sprintf("NORMBENCH_ONCE_%x", at)
	f.lines = append(f.lines, "#ifndef "+once, "#define "+once)
	folder := ""
	if filepath.IsAbs(at) {
		folder = filepath.Dir(at)
	}
	f.add(name, folder, text, certain)
	f.lines = append(f.lines, "#endif")
	if !certain { // where it is included again the condition may hold
		delete(f.seen, at)
	}
	return true
}

// liesAmongCUDA says whether a header of this name was found in a folder of CUDA's.
func liesAmongCUDA(at, name string) bool {
	_, err := os.Stat(filepath.Join(strings.TrimSuffix(at, name), "cuda_runtime.h"))
	return err == nil
}

// find reads a header of the folders: beside the file that includes it by name, else in the first
// folder that has it. What lies outside of the folders is not found.
func find(folders []string, dir, name string, quoted bool) (path, text string, ok bool) {
	for _, folder := range folders {
		if rel, err := filepath.Rel(folder, dir); quoted && dir != "" && err == nil && filepath.IsLocal(rel) {
			if text, ok = readBelow(folder, filepath.Join(rel, name)); ok {
				return filepath.Join(dir, name), text, true
			}
		}
	}
	for _, folder := range folders {
		if text, ok = readBelow(folder, name); ok {
			return filepath.Join(folder, name), text, true
		}
	}
	return "", "", false
}

// Found says whether one of the folders has a header.
func Found(folders []string, name string) bool {
	_, _, ok := find(folders, "", name, false)
	return ok
}

func readBelow(folder, name string) (string, bool) {
	if !filepath.IsLocal(name) {
		return "", false
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", false
	}
	defer root.Close()
	text, err := root.ReadFile(name)
	return string(text), err == nil
}
