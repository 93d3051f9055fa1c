package manifest

import (
	"cmp"
	"errors"
	"fmt"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/nvrtc"
)

// A Checker finds out what can be known of a family without running it.
type Checker struct {
	registry *kernels.Registry
	device   kernels.DeviceInfo
	cache    *nvrtc.Cache
	seen     map[string]bool // the units compiled
}

// NewChecker checks families of r for a device that need not be there. Without
// NVRTC, which the error is about, it compiles nothing.
func NewChecker(r *kernels.Registry, d kernels.DeviceInfo) (*Checker, error) {
	c := &Checker{registry: r, device: d, seen: map[string]bool{}}
	n, err := nvrtc.Find()
	if err == nil {
		c.cache = nvrtc.NewCache(nvrtc.DefaultCacheDir(), n)
	}
	return c, err
}

// Kernels is how many different kernels have been compiled.
func (c *Checker) Kernels() int { return len(c.seen) }

// Unkept says why cubins do not stay for the next run, or is "".
func (c *Checker) Unkept() string {
	if c.cache == nil {
		return ""
	}
	return c.cache.Unkept()
}

// Check lays out f's space for p and returns its size. A Fault in any config is
// an error, and so is a kernel that does not compile: of the base config, or of
// all.
func (c *Checker) Check(f *kernels.Family, p kernels.Problem, all bool) (configs int, err error) {
	s := f.Space(p, c.device)
	for _, x := range s.Refused {
		var fault *Fault
		if err := f.Refuse(p, x.Config, c.device); errors.As(err, &fault) {
			with := cmp.Or(x.Config.String(), "its only config")
			return 0, hint.Errorf("correct it, or refuse such configs with a constraint", "%w for %s with %s", fault, p, with)
		}
	}
	list := s.Configs
	if !all && len(list) > 1 {
		list = list[:1]
	}
	for _, cfg := range list {
		for _, l := range f.Plan(p, cfg, c.device).Launches {
			if err := c.compile(&l); err != nil {
				return 0, err
			}
		}
	}
	return len(s.Configs), nil
}

func (c *Checker) compile(l *kernels.Launch) error {
	if c.cache == nil || !l.IsKernel() {
		return nil
	}
	u, err := cuda.NewUnit(c.registry, l, c.device.Arch)
	if err != nil {
		return err
	}
	key := fmt.Sprint(u.Source.Name, u.Options.Defines)
	if c.seen[key] {
		return nil
	}
	c.seen[key] = true
	b, err := c.cache.Compile(u.Source, u.Options)
	if err != nil {
		return hint.With(err, "the macros of a launch are those of common.cuh, its knobs and its defines")
	}
	if _, ok := b.Kernels[l.Entry]; !ok {
		return hint.Errorf(`write extern "C" before it`, "%s has no kernel %s when it is compiled", l.Source, l.Entry)
	}
	return nil
}
