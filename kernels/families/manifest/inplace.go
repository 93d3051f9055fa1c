package manifest

import (
	"fmt"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// inplace holds the outputs that the kernel writes over an input against the tensors and the launches.
func (c *checker) inplace() error {
	var inputs, taken []string
	for _, t := range fullProblem(c.Op, c.Pass).Tensors() {
		if t.Role == kernels.Input {
			inputs = append(inputs, t.Name)
		}
	}
	for _, o := range c.Inplace.Entries {
		output, input := o.Key.Text, o.Value.Text
		clears := func(l *launchSpec) bool { return l.zero.Text == output }
		switch {
		case !slices.Contains(c.outputs(), output):
			return o.Key.Errorf("name one of "+strings.Join(c.outputs(), ", "), "is no output")
		case !slices.Contains(inputs, input):
			return o.Value.Errorf("name one of "+strings.Join(inputs, ", "), "%q is no input", input)
		case slices.Contains(taken, input):
			return o.Value.Errorf("each output lies over an input of its own", "%s has an output over it already", input)
		case c.passes(output) || slices.ContainsFunc(c.launches, clears):
			return o.Key.Errorf("give launches "+input+" in its place", "lies over %s, and a launch takes it too", input)
		case !c.passes(input):
			return o.Value.Errorf("give it to a launch as an argument", "no launch takes %s", input)
		}
		taken = append(taken, input)
	}
	return nil
}

// liesOver says whether an output lies over an input.
func (d *design) liesOver(output string) bool {
	for _, o := range d.Inplace.Entries {
		if o.Key.Text == output {
			return true
		}
	}
	return false
}

// overwrites are the outputs of a problem that lie over an input.
func (d *design) overwrites(p kernels.Problem) (list []kernels.Overwrite) {
	if len(d.Inplace.Entries) == 0 {
		return nil
	}
	tensors := p.Tensors()
	for _, o := range d.Inplace.Entries {
		if indexOf(tensors, o.Key.Text) >= 0 {
			list = append(list, kernels.Overwrite{Output: o.Key.Text, Input: o.Value.Text})
		}
	}
	return list
}

// refuseInplace says that an output of the problem does not fit over its input.
func (d *design) refuseInplace(p kernels.Problem) error {
	for _, o := range d.overwrites(p) {
		tensors := p.Tensors()
		out, in := indexOf(tensors, o.Output), indexOf(tensors, o.Input)
		switch {
		case in < 0:
			return hint.Errorf("leave it out of inplace, or say under serves which problems the kernel can do",
				"%s lies over %s, which the problem lacks", o.Output, o.Input)
		case tensors[out].DType != tensors[in].DType || tensors[out].Elems() != tensors[in].Elems():
			return fmt.Errorf("%s lies over %s, which has other elements", o.Output, o.Input)
		}
	}
	return nil
}
