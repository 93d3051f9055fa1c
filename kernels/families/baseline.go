package families

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families/common"
	"normbench/kernels/families/manifest"
)

// Baseline is the prefix of families whose kernels come from another
// checkout, and of the names of their sources.
const Baseline = "baseline:"

const baselineHelp = "give the folder kernels/families of another checkout"

// WithBaseline returns r with a second copy of each family, to compare with in one process. The copy's name begins with
// Baseline, and its kernels come from another checkout's folder. The manifests there say how these are launched. Their
// base config is r's, as far as they have its knobs.
//
// Families that the folder lacks have no copy, nor have those whose files come from elsewhere, behind a prefix. The
// copy of a family that cannot be loaded or launched serves no problem, and says why.
func WithBaseline(r *kernels.Registry, dir string) (*kernels.Registry, error) {
	o, err := readCheckout(dir)
	if err != nil {
		return nil, err
	}
	var copies []*kernels.Family
	for _, now := range r.Families {
		if now.Hidden || slices.ContainsFunc(now.Files, func(name string) bool { return strings.Contains(name, ":") }) {
			continue
		}
		c, err := o.copyOf(now)
		if err != nil {
			refused := *now
			refused.Files, refused.Serves = nil, func(kernels.Problem) error { return err }
			c = &refused
		}
		if c != nil {
			copies = append(copies, c)
		}
	}
	if len(copies) == 0 {
		return nil, hint.Errorf(baselineHelp, "baseline kernels %s has no family of this program", dir)
	}
	return WithBaselineOf(r, copies, o.read)
}

// A checkout is the folder of families of another checkout.
type checkout struct {
	dir      string
	files    map[string]string // read once: what is compiled is what was checked
	families []*kernels.Family // of the manifests
	failed   map[string]error  // why a manifest cannot be loaded
}

// readCheckout reads a folder and loads its manifests. The other checkout may be a pull request: see
// manifest.ReadFolder.
func readCheckout(dir string) (*checkout, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hint.Errorf(baselineHelp, "baseline kernels %s has no sources: there is no such folder", dir)
	case err != nil:
		return nil, hint.Errorf(baselineHelp, "baseline kernels %s: %w", dir, durable.Cause(err))
	case !info.IsDir():
		return nil, hint.Errorf(baselineHelp, "baseline kernels %s: it is no folder", dir)
	}
	o := &checkout{dir: dir, failed: map[string]error{}}
	if o.files, err = manifest.ReadFolder(dir); err != nil {
		return nil, fmt.Errorf("baseline kernels: %w", err)
	}
	o.families, err = manifest.LoadOther(&kernels.Registry{File: o.read}, dir, o.files, stages,
		func(name string, why error) { o.failed[name] = why })
	return o, err
}

// read returns the text of a file.
func (o *checkout) read(name string) (string, error) {
	if text, ok := o.files[name]; ok {
		return text, nil
	}
	return "", fs.ErrNotExist
}

// copyOf makes the copy of a family of this program: nil where the checkout lacks it.
func (o *checkout) copyOf(now *kernels.Family) (*kernels.Family, error) {
	if i := slices.IndexFunc(now.Files, isManifest); i >= 0 {
		return o.copyOfManifest(now, now.Files[i])
	}
	c := *now
	c.Files = nil
	for _, name := range now.Files {
		if path.Ext(name) != ".cu" {
			continue
		}
		if _, ok := o.files[name]; !ok {
			return nil, nil
		}
		src, err := nvrtc.ReadSource(o.read, name)
		if err == nil {
			err = o.compareParameters(name)
		}
		if err != nil {
			return nil, err
		}
		c.Files = slices.AppendSeq(append(c.Files, name), maps.Keys(src.Headers))
	}
	if c.Files == nil { // of no kernels, such as a peer's
		return nil, nil
	}
	slices.Sort(c.Files)
	c.Files = slices.Compact(c.Files)
	return &c, nil
}

// copyOfManifest is copyOf for a family of a manifest.
func (o *checkout) copyOfManifest(now *kernels.Family, name string) (*kernels.Family, error) {
	i := slices.IndexFunc(o.families, func(f *kernels.Family) bool { return f.Name == now.Name })
	if i < 0 {
		return nil, o.failed[name]
	}
	old := o.families[i]
	c := *old
	c.Base = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
		return old.Base(p, d).With(old.KnownSettings(now.Base(p, d))...)
	}
	if slices.Contains(c.Files, common.ReduceSource) {
		return &c, o.compareParameters(common.ReduceSource)
	}
	return &c, nil
}

// compareParameters refuses a source of which a kernel has other parameters than in this program, where Go code of this
// program launches it. Names count too: they say what a pointer is to.
func (o *checkout) compareParameters(name string) error {
	text, err := File(name)
	if err != nil {
		return err
	}
	old := nvrtc.Source{Text: o.files[name]}.Signatures()
	for _, now := range (nvrtc.Source{Text: text}).Signatures() {
		i := slices.IndexFunc(old, func(g nvrtc.Signature) bool { return g.Name == now.Name })
		switch file := filepath.Join(o.dir, name); {
		case i < 0:
			return fmt.Errorf("%s has no kernel %s", file, now.Name)
		case old[i].Parameters() != now.Parameters():
			return fmt.Errorf("%s: %s takes %s, and is launched with %s", file, now.Name, old[i].Parameters(),
				now.Parameters())
		}
	}
	return nil
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
