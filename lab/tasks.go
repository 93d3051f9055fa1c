package lab

import (
	"normbench/kernels"
	"normbench/sweep"
	"normbench/tune/ref"
)

// Tasks lays the REFs out over problems, as sweep.LayOut does.
func (l *Lab) Tasks(ps []kernels.Problem, refs []*ref.Ref, info kernels.DeviceInfo,
	choose sweep.VariantChooser) ([]sweep.Task, error) {
	return sweep.LayOut(l.Registry, ps, l.Operands(refs), info, choose)
}

// Operands returns REFs with their variants.
func (l *Lab) Operands(refs []*ref.Ref) (list []sweep.Operand) {
	for _, r := range refs {
		list = append(list, l.operand(r))
	}
	return list
}

func (l *Lab) operand(r *ref.Ref) sweep.Operand {
	o := sweep.Operand{Text: r.Text, Peer: r.Form == ref.Peer,
		Recorded: r.Form == ref.Recorded || r.Form == ref.Tuned,
		Variants: func(p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant, error) {
			return l.Variants(r, p, info)
		}}
	if r.Form == ref.Family {
		o.Family = r.Name
	}
	return o
}
