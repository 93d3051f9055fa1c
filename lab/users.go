package lab

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
	"normbench/kernels/compile/triton"
	"normbench/kernels/families/manifest"
	"normbench/kernels/families/manifest/check"
	"normbench/kernels/launchmap"
	"normbench/sweep"
	"normbench/tune/ref"
)

// UseKernels adds the families of a user's folder to the registry, for commands that have the
// flag. folders are those of --include. python is --python's, of which peers says whether the
// command runs some, which want it too. named are the command's operands and families.
func (l *Lab) UseKernels(dir string, folders []string, python string, peers bool, named []string) error {
	if len(folders) > 0 {
		if dir == "" {
			return hint.Errorf("add --kernels FOLDER",
				"--include is for kernels of your own, and there is no --kernels")
		}
		for _, folder := range folders {
			abs, err := filepath.Abs(folder)
			if st, bad := os.Stat(folder); err != nil || bad != nil || !st.IsDir() ||
				strings.ContainsRune(folder, filepath.ListSeparator) {
				return hint.Errorf("name a folder of headers",
					"--include %s is no folder, or has a %c in its name", folder, filepath.ListSeparator)
			}
			l.loader.Include = append(l.loader.Include, abs)
		}
	}
	for _, folder := range nvrtc.UserFolders() {
		if st, err := os.Stat(folder); err != nil || !st.IsDir() {
			return hint.Errorf("point it at folders of headers, or unset it", "%s: %s is no folder",
				nvrtc.IncludeVariable, folder)
		}
	}
	if _, err := nvrtc.Compilers(); err != nil {
		return err
	}
	l.loader.Python = python
	if dir != "" {
		if err := l.loadKernels(dir, named); err != nil {
			return err
		}
	}
	if python != "" && !peers && !l.usesPython() {
		return hint.Errorf("leave it out", "--python is for kernels of Triton, and --kernels has none")
	}
	return nil
}

// loadKernels loads a folder. A wait is told.
func (l *Lab) loadKernels(dir string, named []string) error {
	late := time.AfterFunc(2*time.Second, func() {
		l.Notef("reading the kernels of %s; what %s finds of them is kept for the next command", dir,
			triton.Python(l.loader.Python))
	})
	defer late.Stop()
	from := l.loader
	from.Named = func(family string) bool {
		return slices.ContainsFunc(named, func(text string) bool {
			name, _, _ := strings.Cut(text, "@")
			return name == family
		})
	}
	from.Leave = func(family string, why error) { l.NoteOnce(fmt.Sprintf("%s is left out: %v", family, why)) }
	r, fs, err := from.Load(l.Registry, dir)
	if err != nil {
		return err
	}
	l.Registry, l.Kernels, l.Users = r, dir, fs
	return nil
}

// usesPython says whether a family of --kernels is Triton's.
func (l *Lab) usesPython() bool {
	python := func(name string) bool { return (nvrtc.Source{Name: name}).IsPython() }
	return slices.ContainsFunc(l.Users,
		func(f *kernels.Family) bool { return slices.ContainsFunc(f.Files, python) })
}

// IsUsers says whether a variant is of a family of --kernels.
func (l *Lab) IsUsers(v kernels.Variant) bool {
	return slices.ContainsFunc(l.Users, func(f *kernels.Family) bool { return f.Name == v.Family })
}

// CheckUsed refuses --kernels where nothing of the folder is among what is to be measured: the
// result would pass for one of them.
func (l *Lab) CheckUsed(tasks []sweep.Task, info kernels.DeviceInfo) error {
	var why error
	for _, t := range tasks {
		if l.Kernels == "" || slices.ContainsFunc(t.Variants, l.IsUsers) {
			return nil
		}
		for _, f := range l.Users {
			why = cmp.Or(why, f.CheckServes(t.Problem), f.Refuse(t.Problem, f.Base(t.Problem, info), info))
		}
	}
	return l.ExplainUnused(cmp.Or(why, errors.New("none of its families is asked for")))
}

func (l *Lab) ExplainUnused(why error) error {
	if l.Kernels == "" {
		return nil
	}
	return hint.Errorf("leave it out, or ask for its families; `normbench list configs --kernels DIR` "+
		"shows what they refuse", "--kernels %s has no effect here: %w", l.Kernels, why)
}

// hostCheck checks the user's families on a cpu as far as that goes without running them: plans can
// be made for the problems, and kernels compile. Without REFs it checks all families. It takes
// families without a host stage out of the REFs, and prints a note for each family. guests are the
// families that it checked.
func (l *Lab) hostCheck(ps []kernels.Problem, all bool, step time.Duration, info kernels.DeviceInfo, refs []*ref.Ref,
	v *Verification) (left []*ref.Ref, guests []*kernels.Family, err error) {
	if info.Kind != kernels.KindCPU {
		return refs, nil, nil
	}
	asked := len(refs) > 0
	for _, f := range l.Users {
		named := func(r *ref.Ref) bool { return r.Kind == ref.Family && r.Name == f.Name }
		if asked && !slices.ContainsFunc(refs, named) {
			continue
		}
		if len(f.Host) == 0 {
			refs = slices.DeleteFunc(refs, named)
		}
		ours := slices.DeleteFunc(slices.Clone(ps),
			func(p kernels.Problem) bool { return p.Op != f.Op || p.Pass != f.Pass })
		if len(ours) == 0 && asked {
			return nil, nil, NoProblem(f.Name)
		}
		if len(ours) == 0 {
			continue
		}
		if v.compiled[f.Name], err = l.checkPlans(f, ours, all, step); err != nil {
			return nil, nil, err
		}
		guests = append(guests, f)
	}
	return refs, guests, nil
}

// checkPlans checks one family for problems of its op and pass without running it, and says
// whether its kernels were compiled. A step of Triton's may take no longer than step, unless it is 0.
func (l *Lab) checkPlans(f *kernels.Family, ps []kernels.Problem, all bool, step time.Duration) (compiled bool,
	err error) {
	checker := check.New(l.Registry, launchmap.KnownDevices()[0].DeviceInfo, step, helper()...).
		UsePython(l.loader.Python)
	defer checker.Close()
	defer context.AfterFunc(l.Ctx, checker.Close)()
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
		n, err := checker.Check(f, p, all)
		l.NoteOnce(checker.CacheWarning())
		if l.Ctx.Err() != nil {
			return false, l.Ctx.Err()
		}
		if err != nil {
			return false, l.inFolder(err)
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
		return false, hint.Errorf(fmt.Sprintf("`normbench list configs --kernels DIR --family %s "+
			"--problem %s --device %s` shows why", f.Name, ps[0], launchmap.KnownDevices()[0].Key),
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
	l.Notef("%s: %s of %s laid out for an %s, %s", f.Name, console.Count(configs, "config"),
		console.Count(served, "problem"), launchmap.KnownDevices()[0].Name, text)
	return lack == "", nil
}

// inFolder is an error of a kernel's, or of its compiler, with the paths of files in place of their
// names among all sources.
func (l *Lab) inFolder(err error) error {
	names := strings.NewReplacer(manifest.Prefix+nvrtc.Module, "",
		manifest.Prefix, filepath.Clean(l.Kernels)+string(filepath.Separator))
	if failed := new(nvrtc.CompileError); errors.As(err, &failed) {
		failed.Source, failed.Log = names.Replace(failed.Source), names.Replace(failed.Log)
		return err
	}
	return hint.With(errors.New(names.Replace(err.Error())), hint.Of(err))
}

// checkLaidOut refuses a verify of all families if one of the user's has no config that
// can run: that family would not be verified.
func (l *Lab) checkLaidOut(tasks []sweep.Task, guests []*kernels.Family,
	info kernels.DeviceInfo) error {
	for _, f := range l.Users {
		if slices.Contains(guests, f) {
			continue
		}
		found, of := false, 0
		var refusal error
		for _, t := range tasks {
			if t.Problem.Op != f.Op || t.Problem.Pass != f.Pass {
				continue
			}
			of++
			if slices.ContainsFunc(t.Variants, func(v kernels.Variant) bool { return v.Family == f.Name }) {
				found = true
				break
			}
			refusal = cmp.Or(refusal, f.CheckServes(t.Problem),
				f.Refuse(t.Problem, f.Base(t.Problem, info), info))
		}
		if of > 0 && !found {
			return hint.Errorf("`normbench list configs --kernels DIR` shows why",
				"%s has no config to verify for any of %s; %w", f.Name, console.Count(of, "problem"), refusal)
		}
	}
	return nil
}
