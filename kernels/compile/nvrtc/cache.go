package nvrtc

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"normbench/internal/durable"
)

// formatVersion changes whenever the layout of an entry, the fixed flags or the meaning
// of a stored field does. It is part of the key, so older entries are just not found.
const formatVersion = "normbench-cubin 3"

// A Cache keeps compiled kernels in a directory, one file per entry. Any number of
// goroutines and processes may share the directory: entries are written to a temporary
// file and renamed, and checked when read. Failures to compile are not kept.
type Cache struct {
	dir      string
	version  string        // of NVRTC, part of every key of its cubins
	compile  CompileFunc   // by NVRTC; nil without it, where nobody asks for CUDA
	python   Python        // Triton, whose versions are in the options
	includes *includeCache // nil without include folders

	mu      sync.Mutex
	warning string
}

// A CompileFunc compiles a source to a binary.
type CompileFunc func(Source, CompileOptions) (*Binary, error)

// NewCache makes a cache in dir for what c compiles; c is nil without NVRTC. The directory is made when
// the first entry is written.
func NewCache(dir string, c *Compiler) *Cache {
	if c == nil {
		return &Cache{dir: dir}
	}
	return &Cache{dir: dir, version: fmt.Sprintf("%d.%d", c.major, c.minor), compile: c.Compile,
		includes: &includeCache{folders: c.Includes()}}
}

// UsePool makes the cache compile in p's processes, and returns the cache.
func (c *Cache) UsePool(p *Pool) *Cache {
	c.compile = p.Compile
	return c
}

// A Python compiles Python sources, whose code may depend on the target.
type Python interface {
	Compile(Source, CompileOptions) (*Binary, error)
	Target() string
}

// UsePython makes the cache compile Python sources with p, and returns the cache.
func (c *Cache) UsePython(p Python) *Cache {
	c.python = p
	return c
}

// DefaultCacheDir returns $NORMBENCH_CACHE, else normbench/cubin in the user's cache directory, else a
// folder of the user's own in the temporary directory.
func DefaultCacheDir() string {
	if dir := os.Getenv("NORMBENCH_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("normbench-%d", os.Getuid()), "cubin")
	}
	return filepath.Join(dir, "normbench", "cubin")
}

// Compile returns the binary from the cache, or compiles it and keeps it. Callers must not ask for one
// thing twice at a time. The error is that of [Compiler.Compile]: an entry that cannot be read is
// compiled again, and [Cache.Warning] tells of one that cannot be written.
func (c *Cache) Compile(src Source, opt CompileOptions) (*Binary, error) {
	compile := c.compile
	switch {
	case src.IsCompiled():
		return &Binary{Cubin: []byte(src.Text), Cached: true}, nil
	case src.IsPython() && !utf8.ValidString(src.Text):
		return nil, &CompileError{Source: src.Name, Result: "not UTF-8", Log: "it is not in UTF-8"}
	case src.IsPython():
		compile = c.python.Compile
	case opt.NVCC != "":
		compile = compileNVCC
		opt.Include = slices.Concat(opt.Include, c.includes.nvccFolders(opt.NVCC))
	case c.includes != nil:
		src = c.includes.withShims(src, slices.Concat(opt.Include, c.includes.folders))
	}
	key, err := c.key(src, opt)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", src.Name, err)
	}
	file := entryFile(key)
	b, err := c.read(file, key)
	if err == nil {
		b.Cached = true
	} else if b, err = compileEntry(src, opt, compile); err == nil {
		c.write(file, key, b)
	} else {
		return nil, err
	}
	if err := checkCopies(src, opt, b.Cubin); err != nil { // of an entry that an earlier version wrote, too
		return nil, err
	}
	return b, nil
}

// compileEntry compiles a source and finds the symbols of its entries. If headers are missing the error
// names all of them.
func compileEntry(src Source, opt CompileOptions, compile CompileFunc) (*Binary, error) {
	b, err := compile(src, opt)
	failed := new(CompileError)
	if src.IsPython() {
		return b, err
	}
	if errors.As(err, &failed) {
		// The plain name of a template: which kernels there are shows without it.
		ofName := strings.Contains(failed.Log, "name expression") || strings.Contains(failed.Log, "__nv_name_map")
		if plain := withoutPlain(opt); ofName && len(plain.Names) < len(opt.Names) {
			if b, err = compile(src, plain); err != nil {
				return nil, err
			}
			return b, b.resolveNames(src.Name, opt.Names)
		}
		if first := missingHeader(failed.Log); first != "" {
			told := *failed
			told.Missing = allMissing(src, first, func(s Source) string {
				_, err := compile(s, opt)
				if failed := new(CompileError); errors.As(err, &failed) {
					return failed.Log
				}
				return ""
			})
			return nil, &told
		}
	}
	if err != nil {
		return nil, err
	}
	return b, b.resolveNames(src.Name, opt.Names)
}

// withoutPlain returns opt without the names of entries that have no template arguments.
func withoutPlain(opt CompileOptions) CompileOptions {
	opt.Names = slices.DeleteFunc(slices.Clone(opt.Names), func(name string) bool {
		return !strings.Contains(name, "<")
	})
	return opt
}

// key computes the name of the entry that a source with options has.
func (c *Cache) key(src Source, opt CompileOptions) (string, error) {
	flags, err := opt.flags()
	if len(opt.Extra) == 0 { // -lineinfo, such as it is, brings lines into the cubin
		src = src.code()
	}
	if src.IsPython() {
		src.Root = ""
		return cacheKey("triton "+c.python.Target(), src, slices.Concat(flags, opt.Names)), err
	}
	flags = slices.Concat(flags, c.includes.hashHeaders(src, opt.Include), opt.Names)
	version := c.version
	if opt.NVCC != "" {
		_, version = splitVersion(opt.NVCC)
		version = "nvcc " + version
	}
	return cacheKey(version, src, flags), err
}

// code returns src without comments, so that a changed comment compiles nothing again.
func (s Source) code() Source {
	headers := map[string]string{}
	for name, text := range s.Headers {
		headers[name] = StripComments(text)
	}
	return Source{Name: s.Name, Text: StripComments(s.Text), Headers: headers, Missing: s.Missing}
}

// noteWarning keeps the first warning.
func (c *Cache) noteWarning(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.warning == "" {
		c.warning = fmt.Sprintf(format, args...)
	}
}

// Warning says why an entry was not written, or not trusted, in a text that is the same in each process;
// "" if all were. It costs time, not correctness, so it is a warning to show once.
func (c *Cache) Warning() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warning
}

// entryFile returns the path of a key's entry below the cache's folder. The first byte of the key is a
// folder, because a sweep leaves thousands of entries.
func entryFile(key string) string { return filepath.Join(key[:2], key+".cubin") }

// cacheKey hashes everything that a cubin depends on, with SHA-256. The flags hold the architecture and
// the macros in the order of their names.
func cacheKey(version string, src Source, flags []string) string {
	// texts and lists of them have no error
	text, _ := json.Marshal([]any{formatVersion, version, src, flags})
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// sharedVariable names the environment variable with which entries of other users are read, too.
const sharedVariable = "NORMBENCH_CACHE_SHARED"

var errCorrupt = errors.New("corrupt cache entry")

// encodeEntry writes an entry in three parts: the line "normbench-cubin 3 <key> <sha256 of the rest>", a
// line of JSON (the Binary without its cubin), and the cubin. With the key in it an entry under
// another's name is noticed.
func encodeEntry(key string, b *Binary) ([]byte, error) {
	report := *b
	report.Cubin = nil
	line, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	body := slices.Concat(line, []byte("\n"), b.Cubin)
	return slices.Concat(fmt.Appendf(nil, "%s %s %x\n", formatVersion, key, sha256.Sum256(body)), body), nil
}

// decodeEntry reads an entry; it fails with errCorrupt where key or checksum do not match.
func decodeEntry(key string, data []byte) (*Binary, error) {
	head, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok || string(head) != fmt.Sprintf("%s %s %x", formatVersion, key, sha256.Sum256(body)) {
		return nil, errCorrupt
	}
	line, cubin, ok := bytes.Cut(body, []byte("\n"))
	b := &Binary{}
	if !ok || json.Unmarshal(line, b) != nil || len(cubin) == 0 {
		return nil, errCorrupt
	}
	b.Cubin = cubin
	return b, nil
}

var errOtherWriter = errors.New("cache entry of somebody else")

// IsTrusted says whether nobody else may have written a file.
func IsTrusted(st fs.FileInfo) bool { return otherWriter(st) == "" || os.Getenv(sharedVariable) != "" }

// read reads an entry. It refuses one that somebody else may have written, as its code would run on the
// GPU.
func (c *Cache) read(file, key string) (*Binary, error) {
	f, err := os.Open(filepath.Join(c.dir, file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if why := otherWriter(st); why != "" && os.Getenv(sharedVariable) == "" {
		c.noteWarning("cubins in %s are not read, as %s; %s=1 trusts whoever writes there", c.dir, why,
			sharedVariable)
		return nil, errOtherWriter
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return decodeEntry(key, data)
}

// write writes an entry without syncing it: the checksum catches what a power cut leaves.
func (c *Cache) write(file, key string, b *Binary) {
	data, err := encodeEntry(key, b)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join(c.dir, file)), 0o777)
	}
	if err == nil {
		err = durable.Place{Root: c.dir, Name: file, Unsynced: true}.WriteFrom(bytes.NewReader(data))
	}
	if err != nil {
		c.noteWarning("cubins are not kept in %s, so the next run compiles them again: %v", c.dir,
			durable.Cause(err))
	}
}
