package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/families/manifest"
	"normbench/kernels/launchmap"
)

func initCommand(e *env) *cli.Command {
	x := &commonFlags{}
	var timeout time.Duration
	return e.command(&cli.Command{
		Name:      "init",
		Usage:     "write a manifest for a kernel of CUDA or Triton",
		ArgsUsage: "cuda FILE.cu:KERNEL | triton FILE.py:FUNCTION | triton MODULE:FUNCTION",
		Description: "It prints a manifest with what the function's signature says; docs/manifest.md " +
			"explains it. What that does not say is a TODO. A function under @triton.autotune or @triton.heuristics has its file " +
			"imported, which runs it. No GPU is needed.",
		Flags: []cli.Flag{x.pythonFlag(), &cli.DurationFlag{Destination: &timeout, Name: "timeout",
			Usage: "longest time that importing the file may take", Value: time.Minute,
			Action: positive("timeout", "use a duration such as 30s or 2m")}},
	}, x, func() error { return initKernel(e, x.python, x.operands, timeout) })
}

func initKernel(e *env, python string, ops []string, timeout time.Duration) error {
	if len(ops) == 2 && ops[0] == "cuda" {
		return initCUDA(e, ops[1])
	}
	const help = "write `normbench init cuda FILE.cu:KERNEL`, or `normbench init triton FILE.py:FUNCTION`, or " +
		"MODULE:FUNCTION of an installed module"
	if len(ops) != 2 || ops[0] != "triton" {
		return hint.Errorf(help, "init takes cuda or triton and a function, got %q", strings.Join(ops, " "))
	}
	at := strings.LastIndexByte(ops[1], ':')
	if at <= 0 || at == len(ops[1])-1 {
		file := strings.TrimSuffix(ops[1], ":")
		if names := jittedIn(file); len(names) > 0 {
			return hint.Errorf("write `normbench init triton "+quoteWord(file+":"+names[0])+"`", "%q names no function; it has %s",
				ops[1], strings.Join(names, ", "))
		}
		return hint.Errorf(help, "%q names no function", ops[1])
	}
	file, r := ops[1][:at], triton.Request{Module: ops[1][:at], Function: ops[1][at+1:]}
	sources := map[string]string{}
	if strings.HasSuffix(file, ".py") {
		text, err := textfile.Read(file, 1<<20)
		if err != nil {
			return hint.Errorf(help, "%s: %w", file, err)
		}
		r.Source, r.Module = filepath.Base(file), ""
		sources[r.Source] = string(text)
	}
	found, err := triton.Probe(python, filepath.Dir(file), sources, []triton.Request{r})
	if err != nil {
		return err
	}
	f := found[0]
	switch {
	case strings.HasPrefix(f.Error, "Python has no module"):
		return hint.Errorf(triton.ModuleHelp(python), "%s", f.Error)
	case f.Error != "":
		return hint.Errorf("name a function of @triton.jit", "%s", f.Error)
	}
	var d triton.Description
	var failed error
	if f.Wrapped {
		wait := e.Wait("importing %s", file)
		card := launchmap.KnownDevices()[0].DeviceInfo
		d, failed = triton.Describe(python, f.Source(cmp.Or(r.Source, nvrtc.Module+r.Module)), r.Function,
			triton.TargetOf(card), timeout)
		wait.End()
	}
	fmt.Fprint(e.out, triton.Manifest(r, f, d, failed))
	if failed != nil {
		e.Notef("the decorators of %s are not known: %v", r.Function, failed)
	}
	return nil
}

// initCUDA writes the manifest of FILE.cu:KERNEL.
func initCUDA(e *env, of string) error {
	const help = "write `normbench init cuda FILE.cu:KERNEL`"
	file, kernel, _ := strings.Cut(of, ".cu")
	suffix, name, ok := strings.Cut(kernel, ":")
	if !ok || name == "" || suffix != "" && suffix != "h" {
		return hint.Errorf(help, "%q names no kernel of a .cu file", of)
	}
	file += ".cu" + suffix
	text, err := textfile.Read(file, 1<<20)
	if err != nil {
		return hint.With(err, help)
	}
	made, err := manifest.InitCUDA(nvrtc.Source{Name: filepath.Base(file), Text: string(text)}, name)
	if err != nil {
		return err
	}
	fmt.Fprint(e.out, made)
	return nil
}

// jitted finds functions of Triton, and what stands between the decorator and the name.
var jitted = regexp.MustCompile(`(?m)^@(?:triton\.)?jit\b.*\n(?:@.*\n)*def (\w+)`)

// jittedIn lists the functions of Triton that a file has, none if it cannot be read.
func jittedIn(file string) (names []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for _, m := range jitted.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names
}
