// Package models knows the norms of a model: which problems a training step runs, and how often.
// It reads models.yaml and config.json files.
package models

import (
	"fmt"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Step lists the norms of one training step, or of one forward, on one rank.
type Step struct {
	Name  string // "llama3-8b, 8192 tokens, tp 8"
	Calls []Call // a problem may have several
	// LeftOut has the keys of a config whose norms are not among the calls, such as vision_config.
	LeftOut []string
}

// A Call is a norm of a step with its problem and how often it runs.
type Call struct {
	Problem kernels.Problem
	Count   float64 // in a step; in a capture the mean of its steps
	Norm    string  // "before attention"; in a capture the module's Python class
}

// Counts adds up the calls of each problem.
func (s *Step) Counts() map[kernels.Problem]float64 {
	counts := map[kernels.Problem]float64{}
	for _, c := range s.Calls {
		counts[c.Problem] += c.Count
	}
	return counts
}

// Problems lists the problems of the steps in their order, each once.
func Problems(steps []Step) (ps []kernels.Problem) {
	seen := map[kernels.Problem]bool{}
	for _, s := range steps {
		for _, c := range s.Calls {
			if !seen[c.Problem] {
				seen[c.Problem] = true
				ps = append(ps, c.Problem)
			}
		}
	}
	return ps
}

// Size returns the layers, the hidden size and the number of norms in a forward, for `list models`.
func (m *Model) Size() (layers, hidden, calls int64) {
	s, err := m.Step(StepQuery{Tokens: 1, TP: 1, SP: 1, Passes: []kernels.Pass{kernels.Fwd}})
	if err != nil {
		return 0, 0, 0 // never: Catalog.model has laid out this step already
	}
	for _, c := range s.Calls {
		calls += int64(c.Count)
	}
	layers, _ = m.figure("layers")
	hidden, _ = m.figure("hidden")
	return layers, hidden, calls
}

// A StepQuery describes the step whose norms Step computes.
type StepQuery struct {
	Tokens        int64 // on all ranks together
	TP, SP        int64 // ranks that share the heads (tensor parallel), and the tokens (sequence parallel)
	Passes        []kernels.Pass
	DType, Weight kernels.DType
	Residual      bool // the framework fuses the addition of a residual into the norm behind it
	Accumulate    bool // backwards add to gradients of earlier ones
}

// Step computes the norms of one step of m on one rank, with their problems and calls.
func (m *Model) Step(a StepQuery) (*Step, error) {
	if err := m.checkRanks(a); err != nil {
		return nil, err
	}
	s := &Step{Name: fmt.Sprintf("%s, %d tokens", m.Name, a.Tokens), LeftOut: m.parts}
	for _, r := range []struct {
		name  string
		ranks int64
	}{{"tp", a.TP}, {"sp", a.SP}} {
		if r.ranks > 1 {
			s.Name += fmt.Sprintf(", %s %d", r.name, r.ranks)
		}
	}
	fused := false
	for _, pass := range a.Passes {
		for i := range m.arch.norms {
			calls, err := m.calls(&m.arch.norms[i], a, pass)
			if err != nil {
				return nil, err
			}
			for _, c := range calls {
				fused = fused || c.Problem.Residual
			}
			s.Calls = append(s.Calls, calls...)
		}
	}
	if a.Residual && !fused {
		return nil, hint.Errorf("leave out --residual", "no norm of %s stands right behind a sum", m.Name)
	}
	return s, nil
}

// checkRanks refuses numbers of ranks that cannot share the model's heads or tokens.
func (m *Model) checkRanks(a StepQuery) error {
	heads, err := m.figure("heads")
	switch {
	case err != nil:
		return err
	case heads%a.TP != 0:
		return hint.Errorf(fmt.Sprintf("choose a divisor of %d", heads), "--tp %d does not divide the "+
			"%d heads of %s", a.TP, heads, m.Name)
	case a.SP > 1 && a.SP%a.TP != 0:
		return hint.Errorf("give --sp as many ranks as --tp (Megatron's sequence parallelism), or a multiple "+
			"of it (context parallelism too)", "--sp %d is no multiple of --tp %d", a.SP, a.TP)
	case a.Tokens%a.SP != 0:
		return hint.Errorf("choose another --tokens", "--sp %d does not divide %d tokens", a.SP, a.Tokens)
	}
	return nil
}

// calls computes the calls of one norm in one pass, none where the model does not have the norm. With
// --residual a norm right behind a sum is a problem of its own, so there may be two.
func (m *Model) calls(n *norm, a StepQuery, pass kernels.Pass) (list []Call, err error) {
	if n.pass != "" && n.pass != pass {
		return nil, nil
	}
	for _, name := range n.when {
		key, not := strings.CutPrefix(name, "!")
		if x, err := m.figure(key); (err == nil && x != 0) == not {
			return nil, nil
		}
	}
	p := kernels.Problem{Op: kernels.Op(n.op), Pass: pass, DType: a.DType, Weight: a.Weight}
	for _, o := range kernels.Options() {
		for _, name := range n.options {
			if o.Name == name {
				o.Set(&p)
			}
		}
	}
	if !p.HasWeight() {
		p.Weight = p.DType
	}
	p.Accumulate = a.Accumulate && pass == kernels.Bwd && p.HasWeight()
	var rows, calls, sums int64
	for _, f := range []struct {
		to *int64
		of expr
	}{{&p.N, n.columns}, {&rows, n.rows}, {&calls, n.calls}, {&sums, n.sums}} {
		if *f.to, err = m.value(f.of); err != nil {
			return nil, err
		}
	}
	if p.M, err = m.rowsOnRank(n, a, rows); err != nil {
		return nil, err
	}
	if n.in == inHead { // a call for each of the rank's heads
		calls *= p.M / attentionTokens(a)
		p.M = attentionTokens(a)
	}
	add := func(count int64, residual bool) {
		if p.Residual = residual; count > 0 {
			list = append(list, Call{p, float64(count), n.name})
		}
	}
	if !a.Residual {
		sums = 0
	}
	add(calls-sums, false)
	add(sums, true)
	for _, c := range list {
		if err := c.Problem.Validate(); err != nil {
			return nil, fmt.Errorf("%s, norm %q: %w", m.Name, n.name, err)
		}
	}
	return list, nil
}

// rowsOnRank computes the rows of a norm on one rank; rows is their number per token.
//
// In the stream a rank has all tokens, or its part of them with sequence parallelism. In attention it
// has the tokens of all ranks that share its heads, and its part of the heads. Where there are fewer
// heads of k than ranks, several ranks have the same head.
func (m *Model) rowsOnRank(n *norm, a StepQuery, rows int64) (int64, error) {
	attention := attentionTokens(a)
	switch {
	case rows < 1:
		return 0, hint.Errorf("see what the model's own config.json says", "%s: %s is %d", m.Source, n.rows, rows)
	case n.in == inStream:
		return a.Tokens / a.SP * rows, nil
	case n.in == inAttention:
		return attention * rows, nil
	case rows%a.TP == 0:
		return attention * (rows / a.TP), nil
	case a.TP%rows == 0:
		return attention, nil
	}
	return 0, hint.Errorf(fmt.Sprintf("choose a divisor or a multiple of %d", rows),
		"--tp %d does not divide the %d heads of k and v of %s", a.TP, rows, m.Name)
}

// attentionTokens returns the tokens that a rank has in attention.
func attentionTokens(a StepQuery) int64 {
	if a.SP > 1 {
		return a.Tokens / a.SP * a.TP
	}
	return a.Tokens
}
