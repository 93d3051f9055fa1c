// Package check finds out what can be known of a family without running it.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cuda"
	"normbench/kernels/families/manifest"
)

// An Inspector finds out what can be known of a family without running it.
type Inspector struct {
	registry *kernels.Registry
	device   kernels.DeviceInfo
	cache    *nvrtc.Cache
	python   string
	triton   *triton.Service
	pool     *nvrtc.Pool // nil where this process compiles
	// NoNVRTC is why no CUDA is compiled, or nil.
	NoNVRTC error

	mu   sync.Mutex
	seen map[string]bool // the units compiled
	lack string          // why the first of those that are not is not
}

// New checks families of r for a device that need not be there. A step of Triton's, such as an import, may take no
// longer than step, or for as long as it does with 0. Without
// NVRTC it compiles no CUDA: see NoNVRTC. Helper is the command of a compile helper
// (nvrtc.ServeHelper); without one this process compiles. NVRTC sets handlers of its own for the
// signals that end a process, with which a signal is a crash of Go's: a program that is to be
// interrupted gives a helper.
func New(r *kernels.Registry, d kernels.DeviceInfo, step time.Duration, helper ...string) *Inspector {
	c := &Inspector{registry: r, device: d, seen: map[string]bool{}}
	c.triton = triton.NewService(step, func() triton.Target { return triton.TargetOf(d) })
	n, err := nvrtc.Find()
	c.NoNVRTC = err
	c.cache = nvrtc.NewCache(nvrtc.DefaultCacheDir(), n).UsePython(c.triton)
	if processes, bad := nvrtc.Compilers(); err == nil && bad == nil && processes > 0 && len(helper) > 0 {
		c.pool = nvrtc.NewPool(processes, 0, append(slices.Clone(helper), n.Path())...)
		c.cache.UsePool(c.pool)
	}
	return c
}

// UsePython has a Python compile kernels of Triton, as triton.Python reads its name, and returns c.
func (c *Inspector) UsePython(python string) *Inspector {
	c.python = python
	c.triton.UsePython(python)
	return c
}

// Close ends what compiles. It may be called while Check runs, which then ends with an error, and
// more than once.
func (c *Inspector) Close() {
	if c.pool != nil {
		c.pool.Close()
	}
	c.triton.Close()
}

// Kernels is how many different kernels have been compiled.
func (c *Inspector) Kernels() int { return len(c.seen) }

// UncompiledReason says why some kernels have not been compiled: there is no NVRTC, or no header of CUDA. Or it
// is "".
func (c *Inspector) UncompiledReason() string { return c.lack }

// missing finds the name of a header of CUDA in a compiler's error.
var missing = regexp.MustCompile(`(?:could|cannot) (?:not )?open source file ` +
	`"((?:cuda_|cooperative_groups|cub/|cuda/|thrust/|nv/|mma)[^"]*)"`)

// CacheWarning says why cubins do not stay for the next run, or is "".
func (c *Inspector) CacheWarning() string { return c.cache.Warning() }

// Check lays out f's space for p and returns its size. A Fault in any config is
// an error, and so is a kernel that does not compile: of the base config, or of
// all.
func (c *Inspector) Check(f *kernels.Family, p kernels.Problem, all bool) (configs int, err error) {
	s := f.Space(p, c.device)
	for _, x := range s.Refused {
		var fault *manifest.Fault
		if err := f.Refuse(p, x.Config, c.device); errors.As(err, &fault) {
			with := cmp.Or(x.Config.String(), "its only config")
			return 0, hint.Errorf("correct it, or refuse such configs with a constraint",
				"%w for %s with %s", fault, p, with)
		}
	}
	list := s.Configs
	if !all && len(list) > 1 {
		list = list[:1]
	}
	work, ctx := errgroup.WithContext(context.Background())
	work.SetLimit(runtime.GOMAXPROCS(0))
	for _, cfg := range list {
		for _, l := range f.Plan(p, cfg, c.device).Launches {
			work.Go(func() error {
				if !l.IsKernel() || ctx.Err() != nil { // another does not compile
					return nil
				}
				return c.compile(&l)
			})
		}
	}
	return len(s.Configs), work.Wait()
}

func (c *Inspector) compile(l *kernels.Launch) error {
	if l.NVCC {
		if _, err := nvrtc.FindNVCC(); err != nil {
			c.noteUncompiled(l.Source+" of nvcc", yamldoc.OneLine(err.Error()+" ("+hint.Of(err)+")"))
			return nil
		}
	}
	u, err := cuda.NewUnit(c.registry, l, c.device.Arch)
	if err != nil {
		return err
	}
	key := fmt.Sprint(u.Source.Name, u.Options)
	if c.NoNVRTC != nil && !u.Source.IsPython() && u.Options.NVCC == "" {
		c.noteUncompiled(key, yamldoc.OneLine(c.NoNVRTC.Error()))
		return nil
	}
	if c.markCompiled(key) {
		return nil
	}
	b, err := c.cache.Compile(u.Source, u.Options)
	if failed := new(nvrtc.CompileError); errors.As(err, &failed) {
		if m := missing.FindStringSubmatch(failed.Log); m != nil {
			c.noteUncompiled(key, fmt.Sprintf("no header <%s>: install the wheels nvidia-cuda-runtime and "+
				"nvidia-cuda-cccl, or name folders with --include", m[1]))
			return nil
		}
	}
	switch {
	case hint.Of(err) != "": // it is not the kernel's
		return err
	case err != nil && u.Source.IsPython() && strings.Contains(err.Error(), "importing it raises"):
		return hint.With(err, triton.ImportHelp(c.python))
	case err != nil && u.Source.IsPython():
		return hint.With(err, "correct the kernel, its constexprs or its options, or refuse such "+
			"configs with a constraint")
	case err != nil && strings.Contains(err.Error(), ": no header "):
		return hint.With(err, nvrtc.MissingHelp)
	case err != nil:
		if help := helpWithNames(l, err); help != "" {
			return hint.With(err, help)
		}
		return err
	case b.Meta != nil:
		_, _, err := triton.Complete(b, *l)
		return err
	}
	if !b.HasKernel(b.Symbol(l.Entry)) {
		return hint.Errorf("name a __global__ function of it",
			"%s has no kernel %s when it is compiled", l.Source, l.Entry)
	}
	return hint.With(cuda.CheckArgs(b, l), "the args of a launch are the kernel's parameters in their order")
}

// undefinedRE finds what a compiler says of a name that nothing declares.
var undefinedRE = regexp.MustCompile(`is undefined|has no member|incomplete type|no instance of`)

// helpWithNames says of what a compiler refuses which names a macro may have taken, or left out.
func helpWithNames(l *kernels.Launch, err error) string {
	log := err.Error()
	if failed := new(nvrtc.CompileError); errors.As(err, &failed) {
		log = failed.Log
	}
	var all, named []string
	for _, d := range l.Defines {
		all = append(all, d.Name)
		if regexp.MustCompile(`\b` + d.Name + `\b`).MatchString(log) {
			named = append(named, d.Name)
		}
	}
	switch {
	case len(named) == 0 && undefinedRE.MatchString(log):
		return "a macro that the library's build defines stands under defines:, as in {WITH_CUDA: 1}; " +
			"headers of what is missing must not stand under without:"
	case len(all) == 0:
		return ""
	case len(named) == 0:
		named = all
	}
	return fmt.Sprintf("macros that hold the launch's values: %s; nothing else in the source may have such a name",
		strings.Join(named, ", "))
}

// markCompiled notes that a unit is compiled, and says whether it was before.
func (c *Inspector) markCompiled(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.seen[key]
	c.seen[key] = true
	return known
}

// noteUncompiled notes why a unit is not compiled.
func (c *Inspector) noteUncompiled(key, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, key)
	c.lack = why
}
