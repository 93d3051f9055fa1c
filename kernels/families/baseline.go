package families

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
)

// Baseline is the prefix of families whose CUDA sources come from another
// checkout, and of those sources' names.
const Baseline = "baseline:"

// WithBaseline returns r with a second copy of each family, whose name begins with Baseline and whose
// .cu and .cuh files are read from dir: the kernels of another checkout, to compare these with in one
// process. Launch rules and host stages are this program's own, so a copy differs on a GPU only.
// Families whose files come from elsewhere, behind a prefix, have no other checkout and no copy.
//
// It fails if dir lacks the families' sources, or if a source is larger than maxSource, no plain file,
// or a link that leads out of dir: the other checkout may be a pull request.
func WithBaseline(r *kernels.Registry, dir string) (*kernels.Registry, error) {
	own := slices.DeleteFunc(slices.Clone(r.Families), func(f *kernels.Family) bool {
		return f.Hidden || slices.ContainsFunc(f.Files,
			func(name string) bool { return strings.Contains(name, ":") })
	})
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hint.Errorf(baselineHelp, "baseline kernels %s has no sources: there is no such folder", dir)
	case err != nil:
		return nil, hint.Errorf(baselineHelp, "baseline kernels %s: %w", dir, durable.Cause(err))
	}
	defer root.Close()
	files := map[string]string{} // read once: what is compiled is what was checked
	return WithBaselineOf(r, own, func(rest string) (string, error) {
		if ext := filepath.Ext(rest); ext != ".cu" && ext != ".cuh" {
			return r.File(rest)
		}
		name := filepath.Base(rest)
		if text, ok := files[name]; ok {
			return text, nil
		}
		text, err := readSource(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", hint.Errorf(baselineHelp, "baseline kernels %s has no %s", dir, rest)
		} else if err != nil {
			return "", hint.Errorf(cmp.Or(durable.KnownHelp(err), baselineHelp),
				"baseline kernels %s: %w", filepath.Join(dir, name), durable.Cause(err))
		}
		files[name] = text
		return text, nil
	})
}

const baselineHelp = "give the folder kernels/families of another checkout"

// maxSource is the most bytes of a source, as of one of --kernels.
const maxSource = 1 << 20

// readSource reads a file of a folder. It refuses a pipe, for which it would wait.
func readSource(root *os.Root, name string) (string, error) {
	info, err := root.Stat(name) // of what a link points to
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", hint.Errorf("copy into the folder what it links to", "it is no file")
	case info.Size() > maxSource:
		return "", hint.Errorf(baselineHelp, "it has %s, more than %s", kernels.FormatBytes(info.Size()),
			kernels.FormatBytes(maxSource))
	}
	text, err := root.ReadFile(name)
	return string(text), err
}

// WithBaselineOf returns r with a copy of each family of fs under a name that begins with Baseline. file
// returns their sources.
func WithBaselineOf(r *kernels.Registry, fs []*kernels.Family,
	file func(name string) (string, error)) (*kernels.Registry, error) {
	with := *r
	with.Families = slices.Clone(r.Families)
	with.File = func(name string) (string, error) {
		if rest, ok := strings.CutPrefix(name, Baseline); ok {
			return file(rest)
		}
		return r.File(name)
	}
	for _, f := range fs {
		c := *f
		c.Name, c.Hidden = Baseline+f.Name, true
		c.Files = nil
		for _, name := range f.Files {
			c.Files = append(c.Files, Baseline+name)
			if _, err := with.File(Baseline + name); err != nil {
				return nil, err
			}
		}
		plan := f.Plan
		c.Plan = func(p kernels.Problem, cfg kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			pl := plan(p, cfg, d)
			for i := range pl.Launches {
				pl.Launches[i].Source = Baseline + pl.Launches[i].Source
			}
			return pl
		}
		with.Families = append(with.Families, &c)
	}
	return &with, nil
}
