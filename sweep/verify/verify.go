// Package verify holds the answers of variants to the reference, and the bits of several runs and
// configs to each other.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"normbench/kernels"
	"normbench/sweep"
)

// The codes that a check may have run: a family's host stages, its CUDA code on a GPU or in the
// emulator, or a peer's.
const (
	Host     = "host"
	CUDA     = "CUDA"
	Emulated = "emulated"
	Peer     = "peer"
)

// A Checker checks variants on a device.
type Checker struct {
	Registry *kernels.Registry
	Device   kernels.Device
	Code     string // that the device runs
	Seed     uint64 // of the inputs
	Repeats  int    // runs of a variant, whose bits are compared
	// Refs names the operands that a variant is of; Now hears what is checked next.
	Refs func(p kernels.Problem, v kernels.Variant) string
	Now  func(p kernels.Problem, family string)
}

// Check checks the variants of a task: the verdicts of each family and REF. Beside an error stands
// what was found before.
func (c *Checker) Check(ctx context.Context, task sweep.Task) (found []*Verdicts, err error) {
	s := &sweep.Session{Device: c.Device, Registry: c.Registry, Problem: task.Problem, Seed: c.Seed,
		Base: task.Base}
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	if c.Code != Emulated { // all of its tasks are ahead already
		c.Device.Prefetch(task.Problem, task.Variants)
	}
	digests := map[string]map[uint64]bool{} // of each family
	of := map[[2]string]*Verdicts{}
	for _, v := range task.Variants {
		c.Now(task.Problem, v.Family)
		got, err := s.Check(ctx, v, c.Repeats)
		var f *kernels.Failure
		if err != nil && (ctx.Err() != nil || !errors.As(err, &f)) {
			return found, err // the stop may have caused the failure
		}
		at := [2]string{v.Family, c.Refs(task.Problem, v)}
		k := of[at]
		if k == nil {
			if digests[v.Family] == nil {
				digests[v.Family] = map[uint64]bool{}
			}
			k = &Verdicts{Refs: at[1], Code: c.Code, digests: digests[v.Family],
				Outputs: map[string]kernels.OutputCheck{}}
			if k.Family, err = c.Registry.Lookup(v.Family); err != nil {
				return found, err
			}
			if _, ok := kernels.PeerName(v.Family); ok {
				k.Code = Peer
			}
			of[at], found = k, append(found, k)
		}
		switch {
		case f == nil:
			k.add(v, &got)
		case c.Code == Emulated && f.Status == kernels.StatusCompile:
			k.Unrun = f.Reason
		case k.Code == Peer && f.Status == kernels.StatusRefused:
			k.Unrun = f.Error()
		default:
			k.fail(v, f.Error())
		}
	}
	return found, nil
}

// Verdicts are what was found of one family on one problem, for the REFs that name it.
type Verdicts struct {
	Family          *kernels.Family
	Refs, Code      string
	Unrun           string // what the emulator lacks to run it, or why a peer refuses the problem
	Configs, Failed int
	Order           []string
	Outputs         map[string]kernels.OutputCheck // the worst of each
	Differing       int64
	Reasons         []string
	digests         map[uint64]bool // the results of the family's configs
}

func (k *Verdicts) fail(v kernels.Variant, reason string) {
	k.Configs++
	k.Failed++
	// a peer has no label
	k.Reasons = append(k.Reasons, strings.TrimPrefix(v.Config.String()+": "+reason, ": "))
}

func (k *Verdicts) add(v kernels.Variant, c *kernels.Check) {
	for _, o := range c.Outputs {
		w, ok := k.Outputs[o.Name]
		if !ok {
			k.Order = append(k.Order, o.Name)
		}
		w.Name, w.MaxErr, w.RelL2 = o.Name, max(w.MaxErr, o.MaxErr), max(w.RelL2, o.RelL2)
		k.Outputs[o.Name] = w
	}
	k.Differing += c.Differing
	switch {
	case !c.OK():
		k.fail(v, c.Reason())
	case c.Breaks():
		k.fail(v, fmt.Sprintf("%d elements change from run to run, but the family is %s",
			c.Differing, k.Family.Bits))
	case k.breaksBitwise(c.Digest):
		k.fail(v, "the bits are not those of another config, but the family is bitwise")
	default:
		k.Configs++
	}
}

// breaksBitwise says whether a family that is bitwise has come to two results.
func (k *Verdicts) breaksBitwise(digest uint64) bool {
	k.digests[digest] = true
	return k.Family.Bits == kernels.Bitwise && len(k.digests) > 1
}

// Determinism is the family's determinism.
func (k *Verdicts) Determinism() string {
	if k.Family.Unordered != nil {
		return k.Family.Bits.String() + ", some configs not"
	}
	return k.Family.Bits.String()
}
