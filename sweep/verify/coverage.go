package verify

import (
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/shapes"
)

// A coverage notes what a verify has checked of the problems asked for, for each operand.
type coverage struct {
	operands []sweep.Operand
	checked  map[askedProblem]bool
	refused  map[askedProblem]string
}

// An askedProblem is a problem whose shape was typed, or a shape of a group with its op and pass: of a group's
// types and options one is enough.
type askedProblem struct {
	ref     string
	problem kernels.Problem
}

// asked returns the problem itself if its shape was typed, else without its types and options.
func (c *run) asked(p kernels.Problem) kernels.Problem {
	if c.isTyped(p.M, p.N) {
		return p
	}
	return kernels.Problem{Op: p.Op, Pass: p.Pass, M: p.M, N: p.N}
}

// newCoverage makes a coverage in which nothing is checked yet.
func (c *run) newCoverage() *coverage {
	return &coverage{operands: c.operands, checked: map[askedProblem]bool{}, refused: map[askedProblem]string{}}
}

// isTyped says whether a shape was asked for by itself.
func (c *run) isTyped(m, n int64) bool {
	return slices.ContainsFunc(c.Typed, func(s shapes.Shape) bool { return s.M == m && s.N == n })
}

// noteRan notes what the device itself checks of REFs.
func (c *run) noteRan(refs []sweep.Operand, info kernels.DeviceInfo) {
	for _, r := range refs {
		for _, p := range c.Problems {
			vs, err := r.Variants(p, info)
			if len(vs) > 0 {
				c.seen.add(r, c.asked(p))
			}
			c.seen.refuse(r, c.asked(p), err)
		}
	}
}

func (s *coverage) add(r sweep.Operand, p kernels.Problem) { s.checked[askedProblem{r.Text, p}] = true }

// refuse notes why a REF has no variant for a problem, where it has any for its op and pass.
func (s *coverage) refuse(r sweep.Operand, p kernels.Problem, err error) {
	if err != nil {
		s.refused[askedProblem{r.Text, p}] = err.Error()
	}
}

// noteUncovered says which shapes asked for were not checked, and why: typed ones are missed.
func (c *run) noteUncovered() {
	s, v, onCPU := c.seen, c.found, c.Device.Info().Kind == kernels.KindCPU
	done := map[askedProblem]bool{}
	others := map[string]int{} // shapes of groups, by what has not checked them
	var order []string
	for _, r := range s.operands {
		for _, p := range c.Problems {
			at := askedProblem{r.Text, c.asked(p)}
			if s.checked[at] || done[at] || slices.Contains(v.Unrun, r.Text) || !c.serves(r, p) {
				continue
			}
			done[at] = true
			if !c.isTyped(p.M, p.N) {
				if others[r.Text] == 0 {
					order = append(order, r.Text)
				}
				others[r.Text]++
				continue
			}
			why := s.refused[at]
			switch {
			case why != "":
			case onCPU && p.M*p.N > c.mostElements(p.M, p.N):
				why = fmt.Sprintf("it has %d elements, and the emulator takes at most %d", p.M*p.N,
					c.mostElements(p.M, p.N))
			default:
				why = "no config takes it"
			}
			c.Notef("%s was not checked on %s: %s", r.Text, p, console.OneLine(why))
			if one := r.Text + " on " + p.String(); !slices.Contains(v.Missed, one) {
				v.Missed = append(v.Missed, one)
			}
		}
	}
	var parts []string
	for _, name := range order {
		parts = append(parts, fmt.Sprintf("%d of %s", others[name], name))
	}
	if len(parts) > 0 {
		c.Notef("shapes of the group that were not checked, as the emulator takes three of at most %d "+
			"elements: %s", emulatedElements, strings.Join(parts, ", "))
	}
}

// serves says whether a REF may have a variant for the op and pass of p.
func (c *run) serves(r sweep.Operand, p kernels.Problem) bool {
	if r.Family == "" {
		return !r.Recorded
	}
	f, err := c.Registry.Lookup(r.Family)
	return err == nil && f.Op == p.Op && f.Pass == p.Pass
}

// withFallback returns an operand that, of a family whose base config refuses a typed shape, has the first
// config that takes it.
func (c *run) withFallback(r sweep.Operand) sweep.Operand {
	if r.Family == "" || r.Text != r.Family {
		return r
	}
	variants := r.Variants
	r.Variants = func(p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant, error) {
		vs, err := variants(p, info)
		if err == nil || !c.isTyped(p.M, p.N) {
			return vs, err
		}
		f, bad := c.Registry.Lookup(r.Family)
		if bad != nil || f.CheckServes(p) != nil {
			return nil, err
		}
		configs, _ := f.Configs(p, info)
		if len(configs) == 0 {
			return nil, err
		}
		c.NoteOnce(fmt.Sprintf("the base config of %s refuses %s (%s); the first that takes it is checked: %s",
			f.Name, p, console.OneLine(err.Error()), configs[0]))
		return []kernels.Variant{{Family: f.Name, Config: configs[0]}}, nil
	}
	return r
}
