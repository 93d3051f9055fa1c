package lab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families/manifest"
	"normbench/sweep"
)

// UseKernels adds the families of a user's folder to the registry, for commands that have the
// flag. folders are those of --include. python is --python's, of which peers says whether the
// command runs some, which want it too. named are the command's operands and families.
func (l *Lab) UseKernels(dir string, folders []string, python string, peers bool, named []string) error {
	if len(folders) > 0 && dir == "" {
		return hint.Errorf("add --kernels FOLDER",
			"--include is for kernels of your own, and there is no --kernels")
	}
	if err := l.Loader.AddFolders(folders...); err != nil {
		return err
	}
	if err := manifest.CheckEnvironment(); err != nil {
		return err
	}
	l.Loader.Python = python
	if dir != "" {
		if err := l.loadKernels(dir, named); err != nil {
			return err
		}
	}
	if python != "" && !peers && !manifest.UsesPython(l.UserFamilies) {
		return hint.Errorf("leave it out", "--python is for kernels of Triton, and --kernels has none")
	}
	return nil
}

// loadKernels loads a folder. A wait is told.
func (l *Lab) loadKernels(dir string, named []string) error {
	late := time.AfterFunc(2*time.Second, func() {
		l.Notef("reading the kernels of %s; what %s finds of them is kept for the next command", dir,
			l.Loader.Program())
	})
	defer late.Stop()
	from := l.Loader
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
	l.Registry, l.Kernels, l.UserFamilies = r, dir, fs
	return nil
}

// IsUsers says whether a variant is of a family of --kernels.
func (l *Lab) IsUsers(v kernels.Variant) bool {
	return slices.ContainsFunc(l.UserFamilies, func(f *kernels.Family) bool { return f.Name == v.Family })
}

// CheckUsed refuses --kernels where nothing of the folder is among what is to be measured: the
// result would pass for one of them.
func (l *Lab) CheckUsed(tasks []sweep.Task, info kernels.DeviceInfo) error {
	var why error
	for _, t := range tasks {
		if l.Kernels == "" || slices.ContainsFunc(t.Variants, l.IsUsers) {
			return nil
		}
		for _, f := range l.UserFamilies {
			why = cmp.Or(why, f.CheckServes(t.Problem), f.Refuse(t.Problem, f.Base(t.Problem, info), info))
		}
	}
	return l.ExplainUnused(cmp.Or(why, errors.New("none of its families is asked for")))
}

func (l *Lab) ExplainUnused(why error) error {
	if l.Kernels == "" {
		return nil
	}
	return hint.Errorf("leave it out, or ask for its families; `normbench list configs --kernels "+l.Kernels+
		"` shows what they refuse", "--kernels %s has no effect here: %w", l.Kernels, why)
}
