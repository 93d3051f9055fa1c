// Package verify holds the answers of variants to the reference, and the bits of several runs and
// configs to each other.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Hostile  bool   // add draws of extreme and of non-finite rows
	Repeats  int    // runs of a variant on the first draw, whose bits are compared
	// BatchInvariant has the bits of rows compared between problems of fewer rows and the whole one. Picking
	// are the operands whose picks for fewer rows are compared too.
	BatchInvariant bool
	Picking        []sweep.Operand
	// Refs names the operands that a variant is of. Now hears what is checked next. Done hears of one more
	// variant that needs no further check, and on how many draws of inputs it was checked.
	Refs func(p kernels.Problem, v kernels.Variant) string
	Now  func(p kernels.Problem, family string)
	Done func(draws int)
}

// Check checks the variants of a task on every draw of inputs: the verdicts of each family and REF.
// The bits of several runs are compared on the first draw. Beside an error stands what was found
// before.
func (c *Checker) Check(ctx context.Context, task sweep.Task) (found []*Verdicts, err error) {
	outcomes := make([]checkState, len(task.Variants))
	draws := kernels.CheckDraws(task.Problem, c.Hostile)
	for i, draw := range draws {
		repeats := 1
		if i == 0 {
			repeats = c.Repeats
		}
		if err = c.checkOn(ctx, task, draw, len(draws), repeats, outcomes); err != nil {
			break
		}
	}
	if err == nil && c.BatchInvariant {
		err = c.compareRows(ctx, task, outcomes)
	}
	digests := map[string]map[uint64]bool{} // of each family
	of := map[[2]string]*Verdicts{}
	for i, v := range task.Variants {
		o := &outcomes[i]
		if o.draws == 0 {
			continue
		}
		at := [2]string{v.Family, c.Refs(task.Problem, v)}
		k := of[at]
		if k == nil {
			if digests[v.Family] == nil {
				digests[v.Family] = map[uint64]bool{}
			}
			k = &Verdicts{Refs: at[1], Code: c.Code, digests: digests[v.Family],
				Outputs: map[string]kernels.OutputCheck{}}
			family, unknown := c.Registry.Lookup(v.Family)
			if unknown != nil {
				return found, unknown
			}
			k.Family = family
			if _, ok := kernels.PeerName(v.Family); ok {
				k.Code = Peer
			}
			of[at], found = k, append(found, k)
		}
		f := o.failure
		switch {
		case f == nil && o.wrong == "" && o.draws < len(draws):
			k.Partly = fmt.Sprintf("right on %d of %d draws of inputs, then it was stopped", o.draws, len(draws))
		case f == nil:
			k.add(v, o)
		case k.Code == Emulated && f.Status == kernels.StatusCompile:
			k.Unrun = f.Reason
		case k.Code == Peer && f.Status == kernels.StatusRefused:
			k.Unrun = f.Error()
		case k.Code == Peer && f.Status == kernels.StatusUnfit:
			k.Unrun, k.Unfit = f.Reason, true
		default:
			k.fail(v, o.on+f.Error())
		}
	}
	return found, err
}

// A checkState says how a variant did on the draws so far.
type checkState struct {
	draws   int
	first   kernels.Check         // on the first draw
	worst   []kernels.OutputCheck // of all draws, in the order of the first
	wrong   string                // why it is wrong, on the first draw where it is
	failure *kernels.Failure      // it did not run
	on      string                // the draw of the failure, if it is not the first
	rows    sweep.RowComparison   // of Checker.BatchInvariant
}

// checkOn checks the variants that have not failed on one draw, of draws in all.
func (c *Checker) checkOn(ctx context.Context, task sweep.Task, draw kernels.Draw, draws, repeats int,
	outcomes []checkState) error {
	s := &sweep.Session{Device: c.Device, Registry: c.Registry, Problem: task.Problem, Seed: c.Seed, Draw: draw,
		Base: task.Base}
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return err
	}
	if c.Code != Emulated { // all of its tasks are ahead already
		c.Device.Prefetch(task.Problem, task.Variants)
	}
	for i, v := range task.Variants {
		o := &outcomes[i]
		if o.failure != nil || o.wrong != "" {
			continue
		}
		c.Now(task.Problem, v.Family)
		got, err := s.Check(ctx, v, repeats)
		var f *kernels.Failure
		if err != nil && (ctx.Err() != nil || !errors.As(err, &f)) {
			return err // the stop may have caused the failure
		}
		o.add(&got, f, draw)
		if c.Done(1); o.failure != nil || o.wrong != "" {
			c.Done(draws - o.draws)
		}
	}
	return nil
}

// add adds what was found on one more draw.
func (o *checkState) add(c *kernels.Check, f *kernels.Failure, draw kernels.Draw) {
	on := ""
	if draw != kernels.DrawUnit {
		on = "on " + draw.About() + ": "
	}
	if o.draws++; f != nil {
		o.failure, o.on = f, on
		return
	}
	if why := c.Reason(); why != "" {
		o.wrong = on + why
	}
	if o.draws == 1 {
		o.first, o.worst = *c, slices.Clone(c.Outputs)
		return
	}
	for i := range o.worst {
		for _, next := range c.Outputs {
			if next.Name == o.worst[i].Name {
				o.worst[i].MaxErr = max(o.worst[i].MaxErr, next.MaxErr)
				o.worst[i].RelL2 = max(o.worst[i].RelL2, next.RelL2)
			}
		}
	}
}

// Verdicts are what was found of one family on one problem, for the REFs that name it.
type Verdicts struct {
	Family          *kernels.Family
	Refs, Code      string
	Unrun           string // what the emulator lacks to run it, or why a peer refuses the problem
	Unfit           bool   // what Unrun says is of this machine, not of a peer
	Partly          string // how far the checks of a config came that were stopped
	Configs, Failed int
	FirstFailed     kernels.Variant
	Order           []string
	Outputs         map[string]kernels.OutputCheck // the worst of each
	Runs            int                            // whose bits were compared: the most of a config
	Differing       int64
	Reasons         []string
	digests         map[uint64]bool // the results of the family's configs
	rows            map[int64]bool  // in which the rows of all configs have the same bits; nil for not compared
}

func (k *Verdicts) fail(v kernels.Variant, reason string) {
	if k.Configs++; k.Failed == 0 {
		k.FirstFailed = v
	}
	k.Failed++
	// a peer has no label
	k.Reasons = append(k.Reasons, strings.TrimPrefix(v.Config.String()+": "+reason, ": "))
}

func (k *Verdicts) add(v kernels.Variant, o *checkState) {
	k.addRows(o.rows.At)
	for _, out := range o.worst {
		w, ok := k.Outputs[out.Name]
		if !ok {
			k.Order = append(k.Order, out.Name)
		}
		w.Name, w.MaxErr, w.RelL2 = out.Name, max(w.MaxErr, out.MaxErr), max(w.RelL2, out.RelL2)
		k.Outputs[out.Name] = w
	}
	c := &o.first
	k.Differing += c.Differing
	k.Runs = max(k.Runs, c.Repeats)
	switch {
	case o.wrong != "":
		k.fail(v, o.wrong)
	case c.Breaks():
		k.fail(v, fmt.Sprintf("%d elements change from run to run, but the family is %s",
			c.Differing, k.Family.Bits))
	case k.breaksBitwise(c.Digest):
		k.fail(v, "the bits are not those of another config, but the family is bitwise")
	case o.rows.Wrong != "":
		k.fail(v, o.rows.Wrong)
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
