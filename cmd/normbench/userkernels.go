package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/kernels"
	"normbench/kernels/manifest"
)

var kernelsFlag = &cli.StringFlag{Name: "kernels", Usage: "`FOLDER` of kernels of your own: manifests (*.yaml) with their .cu files; see docs/kernels.md"}

// useKernels adds the families of --kernels to the registry, for commands that
// have the flag.
func (e *env) useKernels(c *cli.Context) error {
	dir := c.String(kernelsFlag.Name)
	if dir == "" {
		return nil
	}
	r, fs, err := manifest.Load(e.registry, dir)
	if err != nil {
		return err
	}
	e.registry, e.kernels, e.users = r, dir, fs
	return nil
}

// hostCheck is what a cpu can check of the user's families that have no host
// stage: that their plans can be made for the problems, and that their kernels
// compile. It takes those families out of the REFs, and says what it did in a
// note for each: all of them where there are no REFs.
func (e *env) hostCheck(c *cli.Context, info kernels.DeviceInfo, refs []ref) ([]ref, error) {
	if info.Kind != kernels.KindCPU {
		return refs, nil
	}
	ps, err := problems(c, info)
	if err != nil {
		return nil, err
	}
	asked := len(refs) > 0
	for _, f := range e.users {
		named := func(r ref) bool { return r.text == f.Name || strings.HasPrefix(r.text, f.Name+"@") }
		if len(f.Host) > 0 || asked && !slices.ContainsFunc(refs, named) {
			continue
		}
		refs = slices.DeleteFunc(refs, named)
		if err := e.checkUnrun(f, ps, c.Bool("all-configs")); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// checkUnrun checks one family without running it.
func (e *env) checkUnrun(f *kernels.Family, ps []kernels.Problem, all bool) error {
	checker, noCompiler := manifest.NewChecker(e.registry, h200)
	configs, served := 0, 0
	for _, p := range ps {
		if f.CheckServes(p) != nil {
			continue
		}
		n, err := checker.Check(f, p, all)
		if err != nil {
			return err
		}
		served++
		configs += n
	}
	compiled := "compiled nothing: "
	if noCompiler == nil {
		compiled = count(checker.Kernels(), "kernel") + " compiled for " + h200.Arch
	} else {
		compiled += oneLine(noCompiler.Error())
	}
	e.notef("%s has no host stage, so it is not run on the cpu; for an %s: %s of %s laid out, %s",
		f.Name, h200.Name, count(configs, "config"), count(served, "problem"), compiled)
	return nil
}
