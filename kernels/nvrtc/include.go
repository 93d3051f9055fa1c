package nvrtc

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

// includeVariable lists folders in which #include <...> is looked for first.
const includeVariable = "NORMBENCH_INCLUDE"

// includeRE has the name that a line includes in angle brackets, or in quotes. The blanks of
// the preprocessor are spaces, tabs, comments and continued lines.
var includeRE = func() *regexp.Regexp {
	const blanks = `(?:[ \t\v\f]|/\*[^\n]*?\*/|\\\r?\n)*`
	return regexp.MustCompile(`(?m)^` + blanks + `#` + blanks + `include` + blanks + `(?:<([^>\n]+)>|"([^"\n]+)")`)
}()

// Includes are the names that text asks for with #include "...", in its order, inactive lines
// included.
func Includes(text string) (names []string) {
	for _, m := range includeRE.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			names = append(names, m[2])
		}
	}
	return names
}

// includesSystem says whether a source includes something in angle brackets. Only such a
// source gets the include folders.
func includesSystem(src Source) bool {
	has := func(text string) bool {
		return slices.ContainsFunc(includeRE.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] != "" })
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
	for _, dir := range filepath.SplitList(os.Getenv(includeVariable)) {
		if abs, err := filepath.Abs(dir); err == nil && dir != "" {
			folders = append(folders, abs)
		}
	}
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

// sums are name and hash of each file of the folders that src may include, and those that they may. So
// the key of a cubin has what was read, and not where it was; none if src needs no folder.
func (s *shelf) sums(src Source) (sums []string) {
	if s == nil || len(s.folders) == 0 || !includesSystem(src) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	var visit func(dir string, names []string)
	visit = func(dir string, names []string) {
		for _, name := range names {
			for _, folder := range append([]string{dir}, s.folders...) {
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
	for _, m := range includeRE.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1]+m[2])
	}
	return names
}
