// Package cuda is the device for NVIDIA GPUs: it compiles the families' CUDA
// sources at run time (package nvrtc), launches them through the CUDA driver
// (package driver) and times them with events.
//
// Without the build tag cuda only what needs no driver is here: turning a
// launch into a compilation unit, which lets a machine without a GPU compile
// every kernel.
package cuda

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// A Unit is the input of the compiler for one launch. Launches of different variants with the same
// source, defines and arch are one unit, compiled once.
type Unit struct {
	Source  nvrtc.Source
	Options nvrtc.CompileOptions
}

// NewUnit makes the unit of launch l for an arch such as "sm_90", with the
// sources of r.
func NewUnit(r *kernels.Registry, l *kernels.Launch, arch string) (Unit, error) {
	src, err := nvrtc.ReadSource(r.File, l.Source)
	if err != nil {
		return Unit{Source: src}, err
	}
	return unitOf(src, l, arch)
}

// unitOf makes the unit of a source. If the file has host code, NVRTC gets the part that the entry
// reaches, and nvcc all, unless the launch leaves out headers that host code needs.
func unitOf(src nvrtc.Source, l *kernels.Launch, arch string) (Unit, error) {
	nvcc := ""
	if l.NVCC {
		var err error
		if nvcc, err = nvrtc.FindNVCC(); err != nil {
			return Unit{}, err
		}
	}
	if l.Mangled && (len(l.Without) > 0 || nvcc == "" && src.HasHostCode(l.Include)) {
		src = src.DeviceCode(l.Entry, l.Include, l.Without, nil)
	}
	u := makeUnit(src, l, arch)
	u.Options.NVCC = nvcc
	return u, nil
}

// makeUnit makes the unit of a source and a launch, with the launch's flags and defines.
func makeUnit(src nvrtc.Source, l *kernels.Launch, arch string) Unit {
	u := Unit{Source: src, Options: nvrtc.CompileOptions{Arch: arch, Extra: l.Options, Include: l.Include}}
	if src.IsPython() {
		u.Options.Extra = slices.Concat(l.Params, l.Options)
	}
	if l.Mangled || src.IsPython() {
		u.Options.Names = []string{l.Entry}
	}
	for _, d := range l.Defines {
		u.Options.Defines = append(u.Options.Defines, nvrtc.Macro{Name: d.Name,
			Value: strconv.FormatInt(d.Value, 10)})
	}
	slices.SortFunc(u.Options.Defines, func(a, b nvrtc.Macro) int { return strings.Compare(a.Name, b.Name) })
	return u
}

// CheckArgs refuses arguments of a launch that do not fit the parameters of its kernel, where the binary
// tells them. A driver reads as many as the kernel has.
func CheckArgs(b *nvrtc.Binary, l *kernels.Launch) error {
	sizes, ok := b.Params(l.Entry)
	if !ok {
		return nil
	}
	var given []int
	for _, a := range l.Args {
		given = append(given, a.Size())
	}
	if slices.Equal(sizes, given) {
		return nil
	}
	return fmt.Errorf("%s: %s takes %d parameters of %v bytes, and is given %d of %v",
		l.Source, l.Entry, len(sizes), sizes, len(given), given)
}
