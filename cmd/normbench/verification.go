package main

import (
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/verify"
	"normbench/tune/ref"
)

// codes are what a count says of each.
var codes = []struct{ code, words string }{
	{verify.Host, "of host code"}, {verify.CUDA, "of CUDA code"},
	{verify.Emulated, "of CUDA code in the emulator"}, {verify.Peer, "of peers"},
}

// A verification is what a verify has found.
type verification struct {
	findings []finding
	total    int            // checks that were laid out
	done     map[string]int // checks by their code
	failed   int
	named    map[problemVariant][]string // the REFs that name a variant, where there are several
	compiled map[string]bool             // families whose kernels NVRTC has compiled
	unrun    []string                    // families, or REFs, whose CUDA code was not run
	why      string                      // of the first
	help     string                      // how to have them run
}

// A problemVariant is what one check is of.
type problemVariant struct {
	problem kernels.Problem
	variant kernels.Variant
}

func newVerification() *verification {
	return &verification{done: map[string]int{}, compiled: map[string]bool{},
		named: map[problemVariant][]string{}, help: "verify them on a GPU: --device cuda"}
}

// A resolver is env.variants.
type resolver func(r *ref.Ref, p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error)

// naming is a resolver that takes note of which variants each of several REFs has, so that rows say
// by which of them they are there.
func (v *verification) naming(resolve resolver, refs []*ref.Ref) resolver {
	if len(refs) < 2 {
		return resolve
	}
	return func(r *ref.Ref, p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		vs, err := resolve(r, p, d)
		for _, x := range vs {
			at := problemVariant{p, x}
			if !slices.Contains(v.named[at], r.Text) {
				v.named[at] = append(v.named[at], r.Text)
			}
		}
		return vs, err
	}
}

// refs are the REFs that name a variant, with commas; "" where there is one REF at most, or the
// families are the REFs.
func (v *verification) refs(p kernels.Problem, x kernels.Variant) string {
	list := v.named[problemVariant{p, x}]
	if len(list) == 1 && list[0] == x.Family {
		return ""
	}
	return strings.Join(list, ",")
}

// add adds the rows and counts of k.
func (v *verification) add(k *verify.Verdicts, p kernels.Problem) {
	if k.Unrun != "" {
		v.leave(k.Family.Name, k.Unrun)
		if k.Unrun = "not run: " + k.Unrun; v.compiled[k.Family.Name] {
			k.Unrun = "compiled, " + k.Unrun
		}
	}
	v.failed += k.Failed
	v.done[k.Code] += k.Configs
	v.findings = append(v.findings, findings(k, p)...)
}

// leave notes a family or REF whose CUDA code was not run.
func (v *verification) leave(name, why string) {
	if len(v.unrun) == 0 {
		v.why = why
	}
	if !slices.Contains(v.unrun, name) {
		v.unrun = append(v.unrun, name)
	}
}

func (v *verification) checks() (n int) {
	for _, x := range codes {
		n += v.done[x.code]
	}
	return n
}

// counts are the checks by what they ran: "8 checks of host code, 6 of CUDA code in the emulator".
func (v *verification) counts() string {
	var parts []string
	for _, x := range codes {
		n := v.done[x.code]
		switch {
		case n == 0:
		case len(parts) == 0:
			parts = append(parts, console.Count(n, "check")+" "+x.words)
		default:
			parts = append(parts, fmt.Sprint(n, " ", x.words))
		}
	}
	return strings.Join(parts, ", ")
}

// notRun is what a verify ends with that left CUDA code of families unrun.
func (v *verification) notRun() error {
	if len(v.unrun) == 0 {
		return nil
	}
	return &coded{exitUnclear, hint.Errorf(v.help, "not verified, as their CUDA code was not run: %s; %s",
		strings.Join(v.unrun, ", "), v.why)}
}
