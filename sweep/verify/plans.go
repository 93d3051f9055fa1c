package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families/manifest"
	"normbench/kernels/families/manifest/check"
	"normbench/kernels/launchmap"
	"normbench/sweep"
)

// hostCheck checks the user's families on a cpu as far as that goes without running them: plans can
// be made for the problems, and kernels compile. It takes families without a host stage out of the
// operands, and prints a note for each family. guests are the families that it checked.
func (c *run) hostCheck() (left []sweep.Operand, guests []*kernels.Family, err error) {
	refs, v := slices.Clone(c.operands), c.found
	if c.Device.Info().Kind != kernels.KindCPU {
		return refs, nil, nil
	}
	for _, f := range c.Users {
		named := func(r sweep.Operand) bool { return r.Family == f.Name }
		if !slices.ContainsFunc(refs, named) {
			continue
		}
		if len(f.Host) == 0 {
			refs = slices.DeleteFunc(refs, named)
		}
		ours := slices.DeleteFunc(slices.Clone(c.Problems),
			func(p kernels.Problem) bool { return p.Op != f.Op || p.Pass != f.Pass })
		if len(ours) == 0 {
			return nil, nil, sweep.NewNoProblemError(f.Name)
		}
		if v.compiled[f.Name], err = c.checkPlans(f, ours); err != nil {
			return nil, nil, err
		}
		guests = append(guests, f)
	}
	return refs, guests, nil
}

// checkPlans checks one family for problems of its op and pass without running it, and says
// whether its kernels were compiled. A step of Triton's may take no longer than Limit, unless that is 0.
func (c *run) checkPlans(f *kernels.Family, ps []kernels.Problem) (compiled bool, err error) {
	checker := check.New(c.Registry, launchmap.KnownDevices()[0].DeviceInfo, c.Limit, c.Helper...).
		UsePython(c.Python)
	defer checker.Close()
	defer context.AfterFunc(c.ctx, checker.Close)()
	if checker.NoNVRTC != nil && os.Getenv("NORMBENCH_NVRTC") != "" {
		return false, hint.Errorf("point it at libnvrtc.so, or unset it to have NVRTC looked for", "%w",
			checker.NoNVRTC)
	}
	configs, served, start := 0, 0, time.Now()
	var refusal error
	for _, p := range ps {
		if err := f.CheckServes(p); err != nil {
			refusal = cmp.Or(refusal, err)
			continue
		}
		n, err := checker.Check(f, p, c.All)
		c.NoteOnce(checker.CacheWarning())
		if c.ctx.Err() != nil {
			return false, c.ctx.Err()
		}
		if err != nil {
			return false, c.inFolder(err)
		}
		if n == 0 {
			refusal = cmp.Or(refusal, fmt.Errorf("every config is refused for %s: %s", p, f.Space(p,
				launchmap.KnownDevices()[0].DeviceInfo).Refused[0].Reason))
			continue
		}
		served++
		configs += n
	}
	if served == 0 {
		next := fmt.Sprintf("`normbench list configs --kernels %s --family %s --problem %s --device %s` shows why",
			c.Folder, f.Name, ps[0], launchmap.KnownDevices()[0].Key)
		if t := servedType(f, ps[0]); t != "" {
			next = fmt.Sprintf("it serves %s: --dtype %s", t, t)
		}
		return false, hint.Errorf(next,
			"%s has no config for any of %s; %w", f.Name, console.Count(len(ps), "problem"), refusal)
	}
	text := fmt.Sprintf("%s compiled for %s in %.1f s", console.Count(checker.Kernels(), "kernel"),
		launchmap.KnownDevices()[0].DeviceInfo.Arch, time.Since(start).Seconds())
	lack := checker.UncompiledReason()
	switch {
	case lack != "" && checker.Kernels() > 0:
		text += "; the rest is NOT COMPILED: " + lack
	case lack != "":
		text = "NOT COMPILED: " + lack
	}
	if len(f.Unwritten) > 0 {
		text += "; it does not write " + strings.Join(f.Unwritten, ", ") + ", which is not checked"
	}
	c.Notef("%s: %s of %s laid out for an %s, %s", f.Name, console.Count(configs, "config"),
		console.Count(served, "problem"), launchmap.KnownDevices()[0].Name, text)
	return lack == "", nil
}

// servedType returns a type of x, and of the weight, that f serves where it does not serve p, "" if there is none.
func servedType(f *kernels.Family, p kernels.Problem) string {
	if f.CheckServes(p) == nil {
		return ""
	}
	for _, t := range kernels.DTypes() {
		if p.DType, p.Weight = t, t; f.CheckServes(p) == nil {
			return t.String()
		}
	}
	return ""
}

// inFolder returns an error of a kernel's, or of its compiler, with the paths of files in place of their
// names among all sources.
func (c *run) inFolder(err error) error {
	names := strings.NewReplacer(manifest.Prefix+nvrtc.Module, "",
		manifest.Prefix, filepath.Clean(c.Folder)+string(filepath.Separator))
	if failed := new(nvrtc.CompileError); errors.As(err, &failed) {
		failed.Source, failed.Log = names.Replace(failed.Source), names.Replace(failed.Log)
		return err
	}
	return hint.With(errors.New(names.Replace(err.Error())), hint.Of(err))
}
