package shapes

import (
	"math"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/sweep/models"
)

const (
	sideHelp  = "rows and columns are whole numbers from 1 to 2147483648"
	itemHelp  = "write a shape as [M, N], and a note as a comment"
	groupHelp = "write a group as name: [[M, N], ...], name: {union: [group, ...]} or name: {steps: 10, " +
		"problems: [{problem: rmsnorm/fwd/8192x4096/bf16, calls: 650}, ...]}"
)

// maxGroups is the most groups of a file, and of a union: each may hold all shapes there are.
const maxGroups = 256

// readShape reads one shape, [M, N].
func readShape(v yamldoc.Value) (s Shape, err error) {
	list, err := v.Items(itemHelp, false)
	switch {
	case err != nil:
		return s, err
	case len(list) != 2:
		return s, v.Errorf(itemHelp, "has %d numbers, not 2", len(list))
	}
	for i, to := range []*int64{&s.M, &s.N} {
		n, err := list[i].Int(sideHelp, 1, MaxSide)
		if err != nil {
			return s, err
		}
		*to = int64(n)
	}
	return s, nil
}

// Parse reads and checks the text of a shapes file; name is the file's in errors. It refuses an unknown
// key, a wrong type, a side out of range, an empty or repeated group, a repeated shape in a group, and a
// union of an unknown group or of itself. Errors have line and column.
func Parse(name string, data []byte) (*GroupFile, error) {
	body, err := yamldoc.Document(name, data, groupHelp)
	if err != nil {
		return nil, err
	}
	entries, err := body.Entries(groupHelp)
	switch {
	case err != nil:
		return nil, err
	case len(entries) == 0:
		return nil, hint.Errorf(groupHelp, "%s has no groups", name)
	case len(entries) > maxGroups:
		return nil, entries[maxGroups].Key.Errorf(groupHelp, "more than %d groups", maxGroups)
	}
	f := &GroupFile{name: name, groups: map[string][]Shape{}, steps: map[string]*models.Step{}}
	for _, e := range entries {
		if !groupRE.MatchString(e.Key.Text) {
			return nil, e.Key.Errorf("start with a letter a-z; letters, digits, - and _ may follow",
				"malformed group name")
		}
		if e.Value.Has("problems") {
			f.groups[e.Key.Text], err = f.readStep(e.Key.Text, e.Value)
		} else {
			f.groups[e.Key.Text], err = f.read(e.Value)
		}
		if err != nil {
			return nil, err
		}
		f.names = append(f.names, e.Key.Text)
	}
	return f, nil
}

// readStep reads a group of problems with the calls of each in so many steps, such as a capture writes.
// It keeps the calls for Step and returns the problems' shapes. A problem may be listed more than once,
// when modules of two Python classes run it.
func (f *GroupFile) readStep(name string, v yamldoc.Value) (list []Shape, err error) {
	var group struct {
		Steps    yamldoc.Value `yaml:"optional"`
		Problems []struct {
			Problem yamldoc.Word
			Calls   yamldoc.Value
			Class   string        `yaml:"optional"` // Python class of the module
			Strides yamldoc.Value `yaml:"optional"` // of an input that is not contiguous; only people read it
		} `help:"write a problem as {problem: rmsnorm/fwd/8192x4096/bf16, calls: 650}"`
	}
	if err := v.Decode(&group); err != nil {
		return nil, err
	}
	steps := 1
	if group.Steps.Exists() {
		if steps, err = group.Steps.Int("the steps that the calls are of", 1, math.MaxInt32); err != nil {
			return nil, err
		}
	}
	s := &models.Step{Name: f.name + "#" + name}
	for _, x := range group.Problems {
		p, err := kernels.ParseProblem(x.Problem.Text)
		if err != nil {
			return nil, x.Problem.Errorf(hint.Of(err), "%v", err)
		}
		calls, err := x.Calls.Int("calls is a whole number of 1 or more", 1, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		s.Calls = append(s.Calls, models.Call{Problem: p, Count: float64(calls) / float64(steps), Norm: x.Class})
		list = append(list, Shape{M: p.M, N: p.N})
	}
	f.steps[name] = s
	return distinct(list), nil
}

// read reads a group of shapes: a list of them, or a union of groups that come before it in the file.
func (f *GroupFile) read(v yamldoc.Value) (list []Shape, err error) {
	if v.TypeName() == yamldoc.Mapping {
		var group struct {
			Union []yamldoc.Word `help:"write a group as name: [[M, N], ...] or name: {union: [group, ...]}"`
		}
		if err := v.Decode(&group); err != nil {
			return nil, err
		}
		if len(group.Union) > maxGroups {
			return nil, group.Union[maxGroups].Errorf(groupHelp, "more than %d groups", maxGroups)
		}
		for _, w := range group.Union {
			if f.groups[w.Text] == nil {
				return nil, w.Errorf("a union names groups above it in the file", "unknown group %q", w.Text)
			}
			list = distinct(append(list, f.groups[w.Text]...))
		}
		return list, nil
	}
	items, err := v.Items(groupHelp, false)
	if err != nil {
		return nil, err
	}
	seen := map[Shape]bool{}
	for _, v := range items {
		s, err := readShape(v)
		if err != nil {
			return nil, err
		}
		if seen[s] {
			return nil, v.Errorf("take one of them out", "shape %s stands twice", s)
		}
		seen[s] = true
		list = append(list, s)
	}
	return list, nil
}
