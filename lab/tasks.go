package lab

import (
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/tune/ref"
)

// A Chooser settles on one of the variants that an operand has for a problem.
type Chooser func(p kernels.Problem, vs []kernels.Variant) (kernels.Variant, error)

// Tasks lays the REFs out over problems. A REF that fits none of them is an error; problems that no
// REF fits are left out. Without a chooser all variants of a REF are laid out.
func (l *Lab) Tasks(ps []kernels.Problem, refs []*ref.Ref, info kernels.DeviceInfo,
	choose Chooser) ([]sweep.Task, error) {
	return l.tasksOf(ps, refs, info, choose, l.Variants)
}

// A variantsFunc has the variants of an operand for a problem, as Lab.Variants.
type variantsFunc func(r *ref.Ref, p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant, error)

func (l *Lab) tasksOf(ps []kernels.Problem, refs []*ref.Ref, info kernels.DeviceInfo, choose Chooser,
	variants variantsFunc) ([]sweep.Task, error) {
	var tasks []sweep.Task
	used := make([]bool, len(refs))
	var refusal error
	for _, p := range ps {
		if err := p.CheckFits(info); err != nil {
			return nil, err
		}
		base, err := l.Registry.Base(p, info)
		if err != nil {
			return nil, err
		}
		t := sweep.Task{Problem: p, Base: base}
		seen := map[kernels.Variant]bool{}
		for i, r := range refs {
			vs, err := variants(r, p, info)
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
	for i, r := range refs {
		if used[i] {
			continue
		}
		if refusal != nil {
			return nil, refusal
		}
		return nil, NoProblem(r.Text)
	}
	return tasks, nil
}

// NoProblem is the trouble of an operand that serves no problem.
func NoProblem(what string) error {
	return hint.Errorf("check --shapes, --op, --pass and --dtype",
		"%s serves none of the problems asked for", what)
}
