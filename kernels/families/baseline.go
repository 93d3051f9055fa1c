package families

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Baseline is the prefix of families whose CUDA sources come from another
// checkout, and of those sources' names.
const Baseline = "baseline:"

// WithBaseline is r with a second copy of each family, its name behind the
// prefix, whose .cu and .cuh files are read from dir: the kernels of another
// checkout, to race these in one process. Launch rules and host stages are this
// CTA's own, so a copy differs on a GPU only. Families whose files come from
// elsewhere, behind a prefix, have no other checkout and no copy. A dir without
// the families' sources is an error.
func WithBaseline(r *kernels.Registry, dir string) (*kernels.Registry, error) {
	with := *r
	with.Families = slices.Clone(r.Families)
	with.File = func(name string) (string, error) {
		rest, ok := strings.CutPrefix(name, Baseline)
		if !ok {
			return r.File(name)
		}
		if ext := filepath.Ext(rest); ext != ".cu" && ext != ".cuh" {
			return r.File(rest)
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.Base(rest)))
		if errors.Is(err, fs.ErrNotExist) {
			return "", hint.Errorf("give the folder kernels/families of another checkout", "baseline kernels %s has no %s", dir, rest)
		}
		return string(text), err
	}
	for _, f := range r.Families {
		if f.Hidden || slices.ContainsFunc(f.Files, func(name string) bool { return strings.Contains(name, ":") }) {
			continue
		}
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
