package nvrtc

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"normbench/internal/hint"
)

// IncludeVariable lists folders in which #include <...> is looked for first.
const IncludeVariable = "NORMBENCH_INCLUDE"

// UserFolders are those of $NORMBENCH_INCLUDE.
func UserFolders() (folders []string) {
	for _, dir := range filepath.SplitList(os.Getenv(IncludeVariable)) {
		if abs, err := filepath.Abs(dir); err == nil && dir != "" {
			folders = append(folders, abs)
		}
	}
	return folders
}

var (
	splices   = strings.NewReplacer("\\\r\n", "", "\\\n", "")
	rawString = regexp.MustCompile(`R"[^\s()\\"]*\(`)
	literal   = regexp.MustCompile(`^(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')`)
	directive = regexp.MustCompile(`^#\s*(include|import|include_next)\b\s*(?:"([^"]+)"|<([^>]+)>)?`)
)

// Code is a text of C++ or Go without comments, blanks around lines and empty lines. A text with
// raw strings of C++, which may hold any of these, stays as it is.
func Code(text string) string {
	if rawString.MatchString(text) {
		return text
	}
	text = splices.Replace(text)
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

// An inclusion is what one #include of a text names.
type inclusion struct {
	name   string
	system bool // in angle brackets
}

// inclusions are those of a text in its order, inactive lines included, and the first directive
// that includes what is not written there: a macro, #import or #include_next.
func inclusions(text string) (list []inclusion, odd string) {
	for line := range strings.Lines(Code(text)) {
		switch m := directive.FindStringSubmatch(strings.TrimSpace(line)); {
		case m == nil:
		case m[1] == "include" && m[2]+m[3] != "":
			list = append(list, inclusion{m[2] + m[3], m[3] != ""})
		case odd == "":
			odd = strings.TrimSpace(line)
		}
	}
	return list, odd
}

// System are the names that text asks for with #include <...>.
func System(text string) (names []string) {
	list, _ := inclusions(text)
	for _, x := range list {
		if x.system {
			names = append(names, x.name)
		}
	}
	return names
}

// Includes are the names that text asks for with #include "...", in its order, inactive lines
// included.
func Includes(text string) (names []string, err error) {
	list, odd := inclusions(text)
	for _, x := range list {
		if !x.system {
			names = append(names, x.name)
		}
	}
	if odd != "" {
		return names, hint.Errorf(`write #include "FILE" or <FILE>`, "%.60s, which names no file to follow", odd)
	}
	return names, nil
}

// includesSystem says whether a source includes something in angle brackets. Only such a
// source gets the include folders.
func includesSystem(src Source) bool {
	has := func(text string) bool {
		list, _ := inclusions(text)
		return slices.ContainsFunc(list, func(x inclusion) bool { return x.system })
	}
	for _, text := range src.Headers {
		if has(text) {
			return true
		}
	}
	return has(src.Text)
}

// includeFolders are those of $NORMBENCH_INCLUDE, and those that belong to an NVRTC: of its
// toolkit (lib64 beside include), or of the wheels beside its own (nvidia/cuda_nvrtc/lib
// beside nvidia/cuda_runtime/include up to CUDA 12, nvidia/cu13/lib beside include from then on).
func includeFolders(library string) (folders []string) {
	folders = UserFolders()
	files := []string{library}
	if real, err := filepath.EvalSymlinks(library); err == nil {
		files = append(files, real)
	}
	for _, file := range files {
		up := filepath.Dir(filepath.Dir(file))
		for _, dir := range []string{"include", "../include", "../cuda_runtime/include"} {
			dir = filepath.Join(up, dir)
			if _, err := os.Stat(filepath.Join(dir, "cuda_fp16.h")); err != nil || slices.Contains(folders, dir) {
				continue
			}
			// <nv/target>, which cuda_fp16.h includes, is CCCL's.
			for _, dir := range []string{dir, filepath.Join(dir, "cccl"), filepath.Join(up, "../cuda_cccl/include")} {
				if info, err := os.Stat(dir); err == nil && info.IsDir() {
					folders = append(folders, dir)
				}
			}
		}
	}
	return folders
}

// includeFlags are the flags for the folders, where src needs them.
func includeFlags(src Source, folders []string) (flags []string) {
	if len(folders) > 0 && includesSystem(src) {
		for _, dir := range folders {
			flags = append(flags, "--include-path="+dir)
		}
	}
	return flags
}

// A shelf knows the files of include folders by content.
type shelf struct {
	folders []string
	mu      sync.Mutex
	read    map[string]*header // by file; nil for what is not there
}

type header struct {
	sum   string
	names []string
}

// sums are name and hash of each file of the folders, those of first ahead, that src may include,
// and those that they may. So the key of a cubin has what was read, and not where it was; none if
// src needs no folder.
func (s *shelf) sums(src Source, first []string) (sums []string) {
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
					sums = append(sums, name+" "+h.sum)
					visit(filepath.Dir(file), h.names)
				}
				break
			}
		}
	}
	visit("", included(src.Text))
	for _, text := range src.Headers {
		visit("", included(text))
	}
	slices.Sort(sums) // headers come in no order
	return sums
}

func (s *shelf) header(file string) *header {
	if h, ok := s.read[file]; ok {
		return h
	}
	var h *header
	if text, err := os.ReadFile(file); err == nil {
		h = &header{fmt.Sprintf("%x", sha256.Sum256(text)), included(string(text))}
	}
	if s.read == nil {
		s.read = map[string]*header{}
	}
	s.read[file] = h
	return h
}

// included are the names that text includes either way.
func included(text string) (names []string) {
	list, _ := inclusions(text)
	for _, x := range list {
		names = append(names, x.name)
	}
	return names
}
