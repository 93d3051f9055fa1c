package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"normbench/kernels/nvrtc"
)

// planted puts something else in the place of an entry of the cache of cubins: another kernel's, one
// that anybody may write, a damaged one, a link, a folder. What a kernel gets is its own cubin.
func (h *harness) planted(c *nvrtc.Compiler, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	var sources [2]nvrtc.Source
	var own [2][]byte
	for i, name := range []string{"first", "second"} {
		sources[i] = nvrtc.Source{Name: name + ".cu", Text: `extern "C" __global__ void ` + name + "(int* x) { *x = 7; }\n"}
		b, err := nvrtc.NewCache(dir, c).Compile(sources[i], nvrtc.Options{Arch: "sm_90"})
		if err != nil {
			v.wrongf("%v", err)
			return v
		}
		own[i] = b.Cubin
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 2 {
		v.wrongf("%d entries, %v", len(files), err)
		return v
	}
	at := r.IntN(2)
	data, err := os.ReadFile(files[at])
	if err != nil {
		v.wrongf("%v", err)
	}
	other, err := os.ReadFile(files[1-at])
	if err != nil {
		v.wrongf("%v", err)
	}
	switch r.IntN(7) {
	case 0:
		data = other
	case 1:
		data[r.IntN(len(data))] ^= 1 << r.IntN(8)
	case 2:
		data = data[:r.IntN(len(data))]
	case 3:
		data = bytes.ReplaceAll(data, []byte("first"), []byte("secnd"))
	case 4: // by anybody, with a checksum that is right
		err = os.Chmod(files[at], 0o666)
	case 5:
		if err = os.Remove(files[at]); err == nil {
			err = os.Symlink(files[1-at], files[at])
		}
	case 6:
		if err = os.Remove(files[at]); err == nil {
			err = os.Mkdir(files[at], 0o755)
		}
	}
	if st, e := os.Lstat(files[at]); e == nil && st.Mode().IsRegular() {
		err = os.WriteFile(files[at], data, 0o644)
	}
	if err != nil {
		v.wrongf("%v", err)
	}
	for i := range sources {
		b, err := nvrtc.NewCache(dir, c).Compile(sources[i], nvrtc.Options{Arch: "sm_90"})
		if err != nil || !bytes.Equal(b.Cubin, own[i]) {
			v.wrongf("%s has another cubin, %v", sources[i].Name, err)
		}
	}
	return v
}
