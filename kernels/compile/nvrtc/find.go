package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"normbench/internal/nvlib"
)

// library says where NVRTC is looked for, the newest first: a newer NVRTC knows more architectures and
// still compiles for all that a driver of its age can run.
var library = nvlib.LibraryQuery{
	Name: "NVRTC", Variable: "NORMBENCH_NVRTC",
	Sonames: []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"},
	Folders: []string{"lib64", "targets/*/lib"},
}

// Find loads NVRTC: the file named by the environment variable NORMBENCH_NVRTC, or where
// [nvlib.Find] looks, libnvrtc.so.13 before .12 and .11.2.
//
// The error is one line, names these places and wraps [ErrNotFound].
func Find() (*Compiler, error) {
	c, err := nvlib.Find(library, Open)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return c, nil
}

var runtimeVersion = regexp.MustCompile(`(?m)^#define\s+CUDART_VERSION\s+(\d+)\d{3}\s`)

// includeFolders lists the folders of $NORMBENCH_INCLUDE, and those that belong to an NVRTC: of its
// toolkit (lib64 beside include), or of the wheels beside its own (nvidia/cuda_nvrtc/lib beside
// nvidia/cuda_runtime/include up to CUDA 12, nvidia/cu13/lib beside include from then on). If none has
// CUDA's headers it adds those of a toolkit or of wheels of the same major version.
func includeFolders(library string, major int) []string {
	folders := UserFolders()
	add := func(dir string) {
		// <nv/target>, which cuda_fp16.h includes, is CCCL's.
		for _, dir := range []string{dir, filepath.Join(dir, "cccl"),
			filepath.Join(dir, "../../cuda_cccl/include")} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(folders, dir) {
				folders = append(folders, dir)
			}
		}
	}
	has := func(dir, file string) bool { _, err := os.Stat(filepath.Join(dir, file)); return err == nil }
	real, err := filepath.EvalSymlinks(library)
	if err != nil {
		real = library
	}
	for _, file := range []string{library, real} {
		for _, dir := range []string{"include", "../include", "../cuda_runtime/include"} {
			if dir = filepath.Join(filepath.Dir(filepath.Dir(file)), dir); has(dir, "cuda_fp16.h") {
				add(dir)
			}
		}
	}
	if slices.ContainsFunc(folders, func(dir string) bool { return has(dir, "cuda_bf16.h") }) {
		return folders
	}
	for _, dir := range nvlib.Headers() {
		text, _ := os.ReadFile(filepath.Join(dir, "cuda_runtime_api.h"))
		m := runtimeVersion.FindSubmatch(text)
		if m != nil && string(m[1]) == fmt.Sprint(major) && has(dir, "cuda_bf16.h") {
			add(dir)
			break
		}
	}
	return folders
}
