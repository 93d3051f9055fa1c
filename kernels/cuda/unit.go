// Package cuda is the device for NVIDIA GPUs: it compiles the families' CUDA
// sources at run time (package nvrtc), launches them through the CUDA driver
// (package driver) and times them with events.
//
// Without the build tag cuda only what needs no driver is here: turning a
// launch into a compilation unit, which lets a machine without a GPU compile
// every kernel.
package cuda

import (
	"slices"
	"strconv"
	"strings"

	"normbench/kernels"
	"normbench/kernels/nvrtc"
)

// A Unit is what the compiler is given for one launch. Launches of different
// variants with the same source, defines and arch are one unit, compiled once.
type Unit struct {
	Source  nvrtc.Source
	Options nvrtc.Options
}

// NewUnit makes the unit of launch l for an arch such as "sm_90", with the
// sources of r.
func NewUnit(r *kernels.Registry, l *kernels.Launch, arch string) (Unit, error) {
	text, err := r.File(l.Source)
	if err != nil {
		return Unit{}, err
	}
	u := Unit{
		Source:  nvrtc.Source{Name: l.Source, Text: text, Headers: map[string]string{}},
		Options: nvrtc.Options{Arch: arch},
	}
	origin := l.Source[:strings.LastIndexByte(l.Source, ':')+1]
	if err := addHeaders(r, origin, text, u.Source.Headers); err != nil {
		return Unit{}, err
	}
	for _, d := range l.Defines {
		u.Options.Defines = append(u.Options.Defines, nvrtc.Define{Name: d.Name, Value: strconv.FormatInt(d.Value, 10)})
	}
	slices.SortFunc(u.Options.Defines, func(a, b nvrtc.Define) int { return strings.Compare(a.Name, b.Name) })
	return u, nil
}

// addHeaders collects the files that text includes by name, and those they
// include. They come from where text does: origin is what stands before the
// name of its file ("" or families.Baseline).
func addHeaders(r *kernels.Registry, origin, text string, headers map[string]string) error {
	for _, name := range nvrtc.Includes(text) {
		if _, ok := headers[name]; ok {
			continue
		}
		h, err := r.File(origin + name)
		if err != nil {
			return err
		}
		headers[name] = h
		if err := addHeaders(r, origin, h, headers); err != nil {
			return err
		}
	}
	return nil
}
