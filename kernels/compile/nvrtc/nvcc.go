package nvrtc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/internal/nvlib"
	"normbench/internal/proc"
)

// NVCCVariable names the environment variable that may name nvcc.
const NVCCVariable = "NORMBENCH_NVCC"

const nvccHelp = "pip install nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl, " +
	"all of one version, or put a toolkit's bin in PATH; " + NVCCVariable + " names another nvcc"

var releaseRE = regexp.MustCompile(`\bV(\d+\.\d+\.\d+)`)

// FindNVCC finds nvcc and returns its path and version: that of $NORMBENCH_NVCC, of PATH, of a toolkit,
// or of Python's wheels. The error has a hint.
var FindNVCC = sync.OnceValues(findNVCC)

func findNVCC() (string, error) {
	path, err := nvlib.Program(NVCCVariable, "nvcc")
	if err != nil {
		return "", hint.With(err, nvccHelp)
	}
	out, err := exec.Command(path, "--version").Output()
	m := releaseRE.FindSubmatch(out)
	if err != nil || m == nil {
		return "", hint.Errorf(nvccHelp, "%s does not say its version", path)
	}
	return path + " " + string(m[1]), nil
}

// splitVersion splits FindNVCC's text into path and version.
func splitVersion(nvcc string) (path, version string) {
	at := strings.LastIndexByte(nvcc, ' ')
	return nvcc[:max(at, 0)], nvcc[at+1:]
}

// nvccTimeout is the longest that nvcc may take for one source. Sources that include torch take a
// minute.
const nvccTimeout = 5 * time.Minute

// compileNVCC compiles a source to a cubin with nvcc. It adds an instance of the entry if that is a
// template's.
func compileNVCC(src Source, opt CompileOptions) (*Binary, error) {
	nvcc, _ := splitVersion(opt.NVCC)
	dir, err := os.MkdirTemp("", "normbench-nvcc")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files := map[string]string{base(src.Name): src.Text}
	for name, text := range src.Headers {
		files[name] = text
	}
	wrapper := fmt.Sprintf("#include %q\n", base(src.Name))
	for i, name := range opt.Names {
		if strings.Contains(name, "<") {
			wrapper += fmt.Sprintf("static void *normbench_entry_%d = (void *)(&%s);\n"+
				"void *normbench_get_%[1]d() { return normbench_entry_%[1]d; }\n", i, name)
		}
	}
	files["normbench_unit.cu"] = wrapper
	for name, text := range files {
		if !filepath.IsLocal(name) {
			continue // it is found from the folder that has it
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	out := filepath.Join(dir, "out.cubin")
	args, err := opt.nvccArgs()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	ctx, stop := context.WithTimeout(context.Background(), nvccTimeout)
	defer stop()
	cmd := exec.Command(nvcc, append(args, "-I", dir, "-o", out, filepath.Join(dir, "normbench_unit.cu"))...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err = proc.Run(ctx, cmd)
	text := strings.ReplaceAll(log.String(), dir+string(filepath.Separator), "")
	if err != nil {
		if ctx.Err() != nil {
			text = fmt.Sprintf("error: nvcc did not end within %s", nvccTimeout)
		}
		return nil, &CompileError{Source: src.Name, Result: "nvcc: " + err.Error(), Log: text}
	}
	cubin, err := os.ReadFile(out)
	if err == nil && len(cubin) == 0 {
		err = errors.New("nvcc has made no cubin")
	}
	if err != nil {
		return nil, err
	}
	return &Binary{Cubin: cubin, Kernels: parseLog(text), Log: text,
		CompileSeconds: time.Since(start).Seconds()}, nil
}

// nvccArgs returns nvcc's arguments for a cubin, without the files.
func (o CompileOptions) nvccArgs() ([]string, error) {
	flags, err := o.flags()
	if err != nil {
		return nil, err
	}
	args := []string{"-cubin"}
	for _, f := range flags {
		if f != "-default-device" { // of NVRTC
			args = append(args, f)
		}
	}
	for _, dir := range o.Include {
		args = append(args, "-I", dir)
	}
	return append(args, "--expt-relaxed-constexpr", "--expt-extended-lambda"), nil
}

// nvccFolders returns the folders of CUDA's headers for an nvcc that has none beside it: those of wheels that
// were installed elsewhere.
func (s *includeCache) nvccFolders(nvcc string) []string {
	path, _ := splitVersion(nvcc)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	own := filepath.Join(filepath.Dir(filepath.Dir(path)), "include")
	if _, err := os.Stat(filepath.Join(own, "cuda_runtime.h")); err == nil || s == nil {
		return nil
	}
	return s.folders
}

// resolveNames finds the symbols of the entries that a binary was compiled for, by their names. The
// error lists the kernels that the binary has.
func (b *Binary) resolveNames(source string, names []string) error {
	for _, name := range names {
		if b.Symbols[name] != "" || b.HasKernel(name) {
			continue
		}
		symbol, err := b.Find(name)
		if err != nil {
			return fmt.Errorf("%s %w", base(source), err)
		}
		if b.Symbols == nil {
			b.Symbols = map[string]string{}
		}
		b.Symbols[name] = symbol
	}
	return nil
}
