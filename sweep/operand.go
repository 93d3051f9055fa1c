package sweep

import (
	"normbench/internal/hint"
	"normbench/kernels"
)

// An Operand names variants to measure or check. Its text is a REF.
type Operand struct {
	Text     string
	Family   string // that it names, by itself or with a label; "" of another form
	Peer     bool   // its variants are peers'
	Recorded bool   // it answers for the problems of records or of a tuned table alone
	Variants VariantsFunc
}

// A VariantsFunc finds the variants of an operand for a problem on a device. Where there are none the
// error says why; it is nil where the operand is simply for other problems.
type VariantsFunc func(p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant, error)

// FamilyOperand makes the operand of a family in its base config.
func FamilyOperand(r *kernels.Registry, family string) Operand {
	return Operand{Text: family, Family: family,
		Variants: func(p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant, error) {
			f, err := r.Lookup(family)
			if err != nil || f.Op != p.Op || f.Pass != p.Pass {
				return nil, err
			}
			_, v, _, err := r.Resolve(p, kernels.Variant{Family: family}, info)
			if err != nil || v.Family == "" {
				return nil, err
			}
			return []kernels.Variant{v}, nil
		}}
}

// A VariantChooser picks one of the variants that an operand has for a problem.
type VariantChooser func(p kernels.Problem, vs []kernels.Variant) (kernels.Variant, error)

// LayOut makes a task of each problem with the variants of all operands. Problems that no operand fits
// are left out; an operand that fits no problem is an error. Without a chooser all variants of an
// operand take part.
func LayOut(registry *kernels.Registry, ps []kernels.Problem, operands []Operand, info kernels.DeviceInfo,
	choose VariantChooser) ([]Task, error) {
	var tasks []Task
	used := make([]bool, len(operands))
	var refusal error
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		base, err := registry.Base(p, info)
		if err != nil {
			return nil, err
		}
		t := Task{Problem: p, Base: base}
		seen := map[kernels.Variant]bool{}
		for i, r := range operands {
			vs, err := r.Variants(p, info)
			if err != nil {
				refusal = err
			}
			if len(vs) > 1 && choose != nil {
				v, err := choose(p, vs)
				if err != nil {
					return nil, err
				}
				vs = []kernels.Variant{v}
			}
			for _, v := range vs {
				if used[i] = true; !seen[v] {
					seen[v] = true
					t.Variants = append(t.Variants, v)
				}
			}
		}
		if len(t.Variants) > 0 {
			tasks = append(tasks, t)
		}
	}
	for i, r := range operands {
		if used[i] {
			continue
		}
		if refusal != nil {
			return nil, refusal
		}
		return nil, NewNoProblemError(r.Text)
	}
	return tasks, nil
}

// NewNoProblemError makes the error of an operand or a family that serves none of the problems.
func NewNoProblemError(what string) error {
	return hint.Errorf("check --shapes, --op, --pass and --dtype",
		"%s serves none of the problems asked for", what)
}
