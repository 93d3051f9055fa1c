package nvrtc

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"normbench/internal/hint"
)

// IncludeVariable names the environment variable with folders in which #include <...> is looked for
// first.
const IncludeVariable = "NORMBENCH_INCLUDE"

// UserFolders returns the folders of $NORMBENCH_INCLUDE.
func UserFolders() (folders []string) {
	for _, dir := range filepath.SplitList(os.Getenv(IncludeVariable)) {
		if abs, err := filepath.Abs(dir); err == nil && dir != "" {
			folders = append(folders, abs)
		}
	}
	return folders
}

var (
	rawString = regexp.MustCompile(`R"[^\s()\\"]*\(`)
	literal   = regexp.MustCompile(`^(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')`)
	directive = regexp.MustCompile(`^#\s*(include|import|include_next)\b\s*(?:"([^"]+)"|<([^>]+)>)?`)
)

// joinLines joins lines that a backslash continues.
func joinLines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\\\r\n", ""), "\\\n", "")
}

// StripComments removes comments, blanks around lines and empty lines from a text of C++ or Go. A text
// with raw strings of C++, which may hold any of these, stays as it is.
func StripComments(text string) string {
	if rawString.MatchString(text) {
		return text
	}
	text = joinLines(text)
	var b strings.Builder
	until := func(end string) string { // what stands behind end
		_, rest, _ := strings.Cut(text[2:], end)
		return rest
	}
	for text != "" {
		n := strings.IndexAny(text, `/"'`)
		if n < 0 {
			n = len(text)
		}
		b.WriteString(text[:n])
		switch text = text[n:]; {
		case strings.HasPrefix(text, "//"):
			b.WriteByte('\n')
			text = until("\n")
		case strings.HasPrefix(text, "/*"):
			b.WriteByte(' ')
			text = until("*/")
		case text != "":
			n = max(len(literal.FindString(text)), 1)
			b.WriteString(text[:n])
			text = text[n:]
		}
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// An inclusion lists what a text includes: the names in quotes and in angle brackets, those in inactive
// lines too, and the first directive whose name is not written there: a macro, #import or #include_next.
type inclusion struct {
	quoted, system []string
	odd            string
}

var knownInclusions sync.Map // inclusion by text: families share headers

// inclusions finds what a text includes, and keeps it for the next time.
func inclusions(text string) inclusion {
	if x, ok := knownInclusions.Load(text); ok {
		return x.(inclusion)
	}
	var x inclusion
	for line := range strings.Lines(StripComments(text)) {
		switch m := directive.FindStringSubmatch(strings.TrimSpace(line)); {
		case m == nil:
		case m[1] == "include" && m[2] != "":
			x.quoted = append(x.quoted, m[2])
		case m[1] == "include" && m[3] != "":
			x.system = append(x.system, m[3])
		case x.odd == "":
			x.odd = strings.TrimSpace(line)
		}
	}
	knownInclusions.Store(text, x)
	return x
}

// ReadSource reads a file and the files beside it that it includes or imports by name, and theirs, those
// in inactive lines too. Names that are not beside it are Missing. For a Python file it reads those that
// Imports lists.
func ReadSource(file func(name string) (string, error), name string) (Source, error) {
	text, err := file(name)
	if err != nil {
		return Source{}, err
	}
	src := Source{Name: name, Text: text, Headers: map[string]string{}}
	if src.IsCompiled() {
		return src, nil
	}
	origin := name[:strings.LastIndexByte(name, ':')+1]
	if src.IsPython() {
		return src, src.readImports(file, origin)
	}
	var follow func(text string) error
	follow = func(text string) error {
		x := inclusions(text)
		if x.odd != "" {
			return hint.Errorf(`write #include "FILE" or <FILE>`,
				"%.60s, which names no file to follow", x.odd)
		}
		for _, name := range x.quoted {
			if _, ok := src.Headers[name]; ok {
				continue
			}
			text, err := file(origin + name)
			if err != nil {
				if !src.IsPython() && !slices.Contains(src.Missing, name) {
					src.Missing = append(src.Missing, name)
				}
				continue
			}
			src.Headers[name] = text
			if err := follow(text); err != nil {
				return err
			}
		}
		return nil
	}
	return src, follow(text)
}

// readImports reads the files that Imports lists, if the source has been probed.
func (s *Source) readImports(file func(name string) (string, error), origin string) error {
	text, err := file(Imports(s.Name))
	if err != nil {
		return nil
	}
	var found struct {
		Package, Root string
		Files         []string
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return err
	}
	s.Package, s.Root = found.Package, found.Root
	for _, name := range found.Files {
		if s.Headers[name], err = file(origin + name); err != nil {
			return err
		}
	}
	return nil
}

// includesSystem says whether a source includes a file that is not beside it. Only such a source gets
// the include folders.
func includesSystem(src Source) bool {
	needs := func(text string) bool {
		x := inclusions(text)
		elsewhere := func(name string) bool { _, beside := src.Headers[name]; return !beside }
		return len(x.system) > 0 || slices.ContainsFunc(x.quoted, elsewhere)
	}
	for _, text := range src.Headers {
		if needs(text) {
			return true
		}
	}
	return needs(src.Text)
}

// An includeCache reads the headers of include folders and keeps their hashes.
type includeCache struct {
	folders []string
	mu      sync.Mutex
	read    map[string]*header // by file; nil for what is not there
}

// A header is a file of an include folder: its hash and the names that it includes.
type header struct {
	sum   string
	names []string
}

// HeaderHashes lists name and hash of each file of the folders that src may include.
func HeaderHashes(src Source, folders []string) []string {
	return (&includeCache{}).hashHeaders(src, folders)
}

// hashHeaders lists name and hash of each file of the folders, first's before its own, that src may
// include, and those that these may. So the key of a cubin depends on what was read, and not on where it
// was. It lists none if src needs no folder.
func (s *includeCache) hashHeaders(src Source, first []string) (hashHeaders []string) {
	if s == nil || len(first)+len(s.folders) == 0 || !includesSystem(src) {
		return nil
	}
	folders := slices.Concat(first, s.folders)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	var visit func(dir string, names []string)
	visit = func(dir string, names []string) {
		for _, name := range names {
			for _, folder := range append([]string{dir}, folders...) {
				file := filepath.Join(folder, name)
				if folder == "" {
					continue
				}
				h := s.header(file)
				if h == nil {
					continue
				}
				if !seen[file] {
					seen[file] = true
					hashHeaders = append(hashHeaders, name+" "+h.sum)
					visit(filepath.Dir(file), h.names)
				}
				break
			}
		}
	}
	visit("", listIncludes(src.Text))
	for _, text := range src.Headers {
		visit("", listIncludes(text))
	}
	slices.Sort(hashHeaders) // headers come in no order
	return hashHeaders
}

// header reads and hashes a file, or returns what it read before; nil if there is none.
func (s *includeCache) header(file string) *header {
	if h, ok := s.read[file]; ok {
		return h
	}
	var h *header
	if text, err := os.ReadFile(file); err == nil {
		h = &header{fmt.Sprintf("%x", sha256.Sum256(text)), listIncludes(string(text))}
	}
	if s.read == nil {
		s.read = map[string]*header{}
	}
	s.read[file] = h
	return h
}

// listIncludes lists the names that text includes, in quotes or brackets.
func listIncludes(text string) []string {
	x := inclusions(text)
	return slices.Concat(x.quoted, x.system)
}
