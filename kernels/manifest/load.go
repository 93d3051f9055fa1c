package manifest

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// Prefix stands before the names of files that come from the user's folder. A
// file of theirs includes ours where the folder has none of that name.
const Prefix = "user:"

// The bounds of a folder: bytes of a file, and files.
const (
	maxFile  = 1 << 20
	maxFiles = 1000
)

const folderHelp = "give a folder of manifests (*.yaml) with their .cu files, such as examples/kernels"

// Load is r with the families of the manifests in dir, which it returns too. The
// files are read once: what is compiled is what was checked.
func Load(r *kernels.Registry, dir string) (*kernels.Registry, []*kernels.Family, error) {
	files, err := readFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	with := *r
	with.Families = slices.Clone(r.Families)
	with.File = func(name string) (string, error) {
		rest, ok := strings.CutPrefix(name, Prefix)
		if !ok {
			return r.File(name)
		}
		if text, ok := files[rest]; ok {
			return text, nil
		}
		return r.File(rest)
	}
	var made []*kernels.Family
	places := map[string]place{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		d, err := parse(filepath.Join(dir, name), []byte(files[name]))
		if err != nil {
			return nil, nil, err
		}
		if first, ok := places[d.name]; ok {
			return nil, nil, hint.Errorf("rename one of the two", "%s: %q is the name of a family at %s already", d.at, d.name, first.at)
		}
		if _, err := r.Lookup(d.name); err == nil {
			return nil, nil, hint.Errorf("choose another; `normbench list kernels` shows those that are taken", "%s: %q is the name of one of normbench's families", d.at, d.name)
		}
		places[d.name] = d.at
		f, err := link(&with, d, name, files)
		if err != nil {
			return nil, nil, err
		}
		made = append(made, f)
	}
	if len(made) == 0 {
		return nil, nil, hint.Errorf(folderHelp, "%s has no manifest (*.yaml)", dir)
	}
	with.Families = append(with.Families, made...)
	return &with, made, nil
}

// readFolder reads what a manifest may name.
func readFolder(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hint.Errorf(folderHelp, "no folder %s", dir)
	case err != nil:
		if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
			return nil, hint.Errorf(folderHelp, "%s is no folder", dir)
		}
		return nil, hint.With(err, folderHelp)
	}
	root, err := os.OpenRoot(dir) // a link out of the folder is an error
	if err != nil {
		return nil, hint.With(err, folderHelp)
	}
	defer root.Close()
	files := map[string]string{}
	for _, e := range entries {
		if !slices.Contains([]string{".yaml", ".cu", ".cuh", ".h"}, filepath.Ext(e.Name())) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if len(files) == maxFiles {
			return nil, hint.Errorf(folderHelp, "%s has more than %d manifests and sources", dir, maxFiles)
		}
		info, err := root.Stat(e.Name()) // of what a link points to
		switch {
		case err != nil:
			return nil, hint.Errorf("copy into the folder what it links to", "%s: %w", path, err)
		case !info.Mode().IsRegular():
			continue
		case info.Size() > maxFile:
			return nil, hint.Errorf("split it", "%s has %s, more than %s", path, kernels.FormatBytes(info.Size()), kernels.FormatBytes(maxFile))
		}
		b, err := root.ReadFile(e.Name())
		if err != nil {
			return nil, hint.Errorf(folderHelp, "%s: %w", path, err)
		}
		files[e.Name()] = string(textfile.Unmarked(b))
	}
	return files, nil
}

// link finds what a manifest names: sources, with the kernels and headers in
// them, and the host family.
func link(r *kernels.Registry, d *design, name string, files map[string]string) (*kernels.Family, error) {
	hashed := []string{Prefix + name, "common.go"} // which makes the macros
	version := ""
	for _, l := range d.kernels() {
		text, ok := files[l.source]
		if !ok {
			return nil, hint.Errorf("put it beside the manifest", "%s: no file %s", l.sourceAt, l.source)
		}
		if !regexp.MustCompile(`\b` + l.entry + `\s*\(`).MatchString(text) {
			return nil, hint.Errorf(`write extern "C" __global__ void `+l.entry+"(...)", "%s: %s has no kernel %s", l.entryAt, l.source, l.entry)
		}
		var err error
		if hashed, err = headers(r, append(hashed, Prefix+l.source), text); err == nil {
			version, err = foreign(hashed, files)
		}
		if err != nil {
			return nil, hint.Errorf(cmp.Or(hint.Of(err), "put it beside the manifest; normbench's are common.cuh, plain.cuh, reduce.cuh and pipe.cuh"), "%s: %s includes %w", l.sourceAt, l.source, err)
		}
	}
	if d.reduce != nil {
		hashed = append(hashed, families.ReduceFiles()...)
	}
	var host *kernels.Family
	if d.host != "" {
		var err error
		if host, err = r.Lookup(d.host); err != nil {
			return nil, hint.Errorf(hint.Of(err), "%s: %w", d.hostAt, err)
		}
		if host.Op != d.op || host.Pass != d.pass || host.Stream || len(host.Host) == 0 {
			return nil, hint.Errorf("name a family with host stages of the same op and pass", "%s: %s is of no use for %s %s", d.hostAt, d.host, d.op, d.pass)
		}
		hashed = append(hashed, host.Files...)
	}
	slices.Sort(hashed)
	f := d.family(slices.Compact(hashed), host)
	f.Version = version
	return f, nil
}

// foreign is a hash of what these files include of the folders of $NORMBENCH_INCLUDE, or "". What is included
// there in turn counts only for the cubin.
func foreign(names []string, files map[string]string) (string, error) {
	h, any := sha256.New(), false
	for _, name := range names {
		for _, file := range nvrtc.System(files[strings.TrimPrefix(name, Prefix)]) {
			for _, folder := range nvrtc.UserFolders() {
				text, err := textfile.Read(filepath.Join(folder, file), maxFile)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return "", hint.Errorf(cmp.Or(hint.Of(err), "give a folder of headers, each of up to 1 MiB"), "<%s> of %s: %w", file, folder, durable.Cause(err))
				}
				any = true
				fmt.Fprintf(h, "%s %d:%s\n", file, len(text), text)
				break
			}
		}
	}
	if !any {
		return "", nil
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:12], nil
}

// headers appends the files that text includes, and those they include.
func headers(r *kernels.Registry, names []string, text string) ([]string, error) {
	files, err := nvrtc.Includes(text)
	if err != nil {
		return names, err
	}
	for _, file := range files {
		name := Prefix + file
		if slices.Contains(names, name) {
			continue
		}
		text, err := r.File(name)
		if err != nil {
			return names, fmt.Errorf("%q, which is nowhere", file)
		}
		if names, err = headers(r, append(names, name), text); err != nil {
			return names, err
		}
	}
	return names, nil
}
