package shapes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/models"
)

// A Selection holds the flags that select problems: shapes or a model, and ops, passes, types and
// options for them. Fields that are lists have commas.
type Selection struct {
	// GROUP, FILE#GROUP, FILE or MxN, each with @TYPE or not; "" is a default
	Shapes       string
	Model        string          // in place of shapes: a model of models.yaml, a config.json or its folder
	Tokens       string          // of a step of the model, several with commas; "" is DefaultTokens
	TP, SP       int64           // ranks that share its heads, and its tokens; 0 is 1
	Op, Pass     string          // "" is the default ops, and both
	DType, Quant string          // "" is bf16, and none
	Weight       string          // type of w; "" is that of x
	Bias         string          // auto (of ops that have one, also ""), yes or no
	On           map[string]bool // the options without values, by their flags
	Given        map[string]bool // flags that were given: all that Filter looks at
}

// TypedShapes lists the shapes that are written out as MxN, not those of groups and files.
func (s *Selection) TypedShapes() (list []Shape) {
	for item := range strings.SplitSeq(s.Shapes, ",") {
		shape, _, _ := strings.Cut(strings.TrimSpace(item), "@")
		if !listRE.MatchString(shape) {
			continue
		}
		if more, err := ParseList(shape); err == nil { // Problems says what is wrong
			list = append(list, more...)
		}
	}
	return list
}

// AsksForTypes says whether types or options were asked for, or the problems of a model or of a file.
func (s *Selection) AsksForTypes() bool {
	for _, o := range kernels.Options() {
		if s.Given[o.Flag] {
			return true
		}
	}
	return s.Given["dtype"] || s.Given["weight-dtype"] || s.Given["model"] || strings.ContainsAny(s.Shapes, "@#./")
}

// DefaultTokens is what a step of a model has unless asked otherwise.
const DefaultTokens = 8192

// Steps returns the steps that the flags ask for, with the calls of each problem: a model's, or those of
// a file's groups of problems. Plain shapes have no steps.
func (s *Selection) Steps() ([]models.Step, error) {
	if s.Model != "" {
		return s.modelSteps()
	}
	for _, name := range []string{"tokens", "tp", "sp"} {
		if s.Given[name] {
			return nil, hint.Errorf("add --model", "--%s is of a model, and none is given", name)
		}
	}
	if s.Shapes == "" {
		return nil, nil
	}
	var arg []string
	for item := range strings.SplitSeq(s.Shapes, ",") {
		if shape, as := cutType(item); as == "" {
			arg = append(arg, shape)
		}
	}
	if len(arg) == 0 {
		return nil, nil
	}
	_, steps, err := resolve(strings.Join(arg, ","))
	if err != nil {
		return nil, err
	}
	for i := range steps {
		steps[i].Calls = slices.DeleteFunc(steps[i].Calls,
			func(c models.Call) bool { return !s.matchesFlags(c.Problem) })
	}
	return slices.DeleteFunc(steps, func(x models.Step) bool { return len(x.Calls) == 0 }), nil
}

// modelSteps computes the steps of --model, one for each number of tokens and type.
func (s *Selection) modelSteps() ([]models.Step, error) {
	if s.Shapes != "" {
		return nil, hint.Errorf("leave one of them out", "--model has shapes of its own, and --shapes is given")
	}
	for _, name := range []string{"op", "bias", "zero-centered", "no-weight", "quant"} {
		if s.Given[name] {
			return nil, hint.Errorf("leave it out", "--model says which norms there are, and --%s is given", name)
		}
	}
	m, err := models.Default().Find(s.Model)
	if err != nil {
		return nil, err
	}
	passes, err := s.passes()
	if err != nil {
		return nil, err
	}
	ask := models.StepQuery{TP: cmp.Or(s.TP, 1), SP: cmp.Or(s.SP, 1), Residual: s.On["residual"],
		Accumulate: s.On["accumulate"]}
	for _, pass := range passes {
		ask.Passes = append(ask.Passes, kernels.Pass(pass))
	}
	tokens := strings.Split(cmp.Or(s.Tokens, strconv.Itoa(DefaultTokens)), ",")
	types := strings.Split(cmp.Or(s.DType, "bf16"), ",")
	var steps []models.Step
	for _, text := range tokens {
		if ask.Tokens, err = strconv.ParseInt(text, 10, 64); err != nil || ask.Tokens < 1 || ask.Tokens > MaxSide {
			return nil, hint.Errorf("write the tokens of a step of all ranks, such as 8192, or several "+
				"with commas", "malformed --tokens %q", s.Tokens)
		}
		for _, name := range types {
			if ask.DType, err = kernels.ParseDType(name); err != nil {
				return nil, err
			}
			if ask.Weight, err = kernels.ParseDType(cmp.Or(s.Weight, name)); err != nil {
				return nil, err
			}
			step, err := m.Step(ask)
			if err != nil {
				return nil, err
			}
			if len(types) > 1 {
				step.Name += ", " + name
			}
			steps = append(steps, *step)
		}
	}
	return steps, nil
}

// passes reads --pass, fwd and bwd where it is not given.
func (s *Selection) passes() ([]string, error) {
	return Split("pass", cmp.Or(s.Pass, "fwd,bwd"), string(kernels.Fwd), string(kernels.Bwd))
}

// cutType splits SHAPES@TYPE; as is "" where no type is written.
func cutType(item string) (shape, as string) {
	shape = strings.TrimSpace(item)
	i := strings.LastIndexByte(shape, '@')
	if i >= 0 && !strings.ContainsRune(shape[i:], filepath.Separator) {
		return shape[:i], shape[i+1:]
	}
	return shape, ""
}

// Problems lays out the selected problems, those of the built-in group where no shapes are given.
// Problems of a file come with their op, pass, types and options; there flags choose among them.
func (s *Selection) Problems(group string) ([]kernels.Problem, error) {
	steps, err := s.Steps()
	if err != nil || s.Model != "" {
		return models.Problems(steps), err
	}
	// Items of one type stand together, in the order in which the types come.
	var types []string
	items := map[string][]string{}
	for item := range strings.SplitSeq(cmp.Or(s.Shapes, group), ",") {
		shape, as := cutType(item)
		if as != "" || strings.HasSuffix(item, "@") {
			if _, err := kernels.ParseDType(as); err != nil && as != "fp8" && as != "fp8t" {
				return nil, hint.Errorf("write GROUP@TYPE, with fp16, bf16, fp32, fp8 or fp8t",
					"unknown type %q of shapes %q", as, item)
			}
		}
		if items[as] == nil {
			types = append(types, as)
		}
		items[as] = append(items[as], shape)
	}
	ps := models.Problems(steps)
	for _, as := range types {
		list, counted, err := resolve(strings.Join(items[as], ","))
		switch {
		case err != nil:
			return nil, err
		case len(counted) > 0 && as != "":
			return nil, hint.Errorf("leave out @"+as, "the problems of %s have types of their own", counted[0].Name)
		case len(counted) > 0 && len(list) == 0:
			continue
		}
		typed := *s
		if as == "fp8" || as == "fp8t" {
			typed.Quant = as
		} else {
			typed.DType = cmp.Or(as, s.DType)
		}
		more, err := typed.LayOut(list...)
		if err != nil {
			return nil, err
		}
		ps = append(ps, more...)
	}
	if len(ps) == 0 {
		return nil, hint.Errorf("leave out --op, --pass and --dtype to see all it holds",
			"%s has none of the problems asked for", s.Shapes)
	}
	return distinct(ps), nil
}

// FlagsOf returns the flags that select p alone.
func FlagsOf(p kernels.Problem) []string {
	flags := []string{"--shapes", fmt.Sprintf("%dx%d", p.M, p.N), "--op", string(p.Op), "--pass", string(p.Pass),
		"--dtype", p.DType.String()}
	if p.Weight != p.DType {
		flags = append(flags, "--weight-dtype", p.Weight.String())
	}
	for _, o := range kernels.Options() {
		switch {
		case o.Flag == "bias" && p.HasWeight() && p.Bias != p.Op.Spec().Bias:
			flags = append(flags, "--bias", map[bool]string{true: "yes", false: "no"}[p.Bias])
		case o.Flag == "bias" || !o.IsWritten(p):
		case o.Flag == "quant":
			flags = append(flags, "--quant", o.Name)
		default:
			flags = append(flags, "--"+o.Flag)
		}
	}
	return flags
}

// canonical copies s with ops, passes and types under the names that problems use: bf16 for bfloat16.
func (s *Selection) canonical() *Selection {
	each := func(list string, name func(string) string) string {
		words := strings.Split(list, ",")
		for i, w := range words {
			words[i] = name(w)
		}
		return strings.Join(words, ",")
	}
	dtype := func(s string) string {
		if d, err := kernels.ParseDType(s); err == nil {
			return d.String()
		}
		return s
	}
	c := *s
	c.Op = each(s.Op, func(w string) string { return string(kernels.ParseOp(w)) })
	c.Pass = each(s.Pass, func(w string) string { return string(kernels.ParsePass(w)) })
	c.DType, c.Weight = each(s.DType, dtype), each(s.Weight, dtype)
	return &c
}

// LayOut makes a problem of each shape with each op, pass, type and option of the selection.
func (s *Selection) LayOut(list ...Shape) (ps []kernels.Problem, err error) {
	s = s.canonical()
	all, byDefault := kernels.OpNames()
	ops, err := Split("op", cmp.Or(s.Op, strings.Join(byDefault, ",")), all...)
	if err != nil {
		return nil, err
	}
	passes, err := s.passes()
	if err != nil {
		return nil, err
	}
	quants, err := Split("quant", cmp.Or(s.Quant, "none"), kernels.OptionValues("quant")...)
	if err != nil {
		return nil, err
	}
	if s.Bias != "" && !slices.Contains(kernels.OptionValues("bias"), s.Bias) {
		return nil, hint.Errorf("use auto, yes or no", "unknown --bias %q", s.Bias)
	}
	for _, name := range strings.Split(cmp.Or(s.DType, "bf16"), ",") {
		p := kernels.Problem{}
		if p.DType, err = kernels.ParseDType(name); err != nil {
			return nil, err
		}
		if p.Weight, err = kernels.ParseDType(cmp.Or(s.Weight, name)); err != nil {
			return nil, err
		}
		for _, op := range ops {
			for _, pass := range passes {
				for _, shape := range list {
					p.Op, p.Pass, p.M, p.N = kernels.Op(op), kernels.Pass(pass), shape.M, shape.N
					for _, quant := range quants {
						if quant != "none" && p.Pass == kernels.Bwd {
							continue // a backward's outputs are gradients
						}
						q := s.withOptions(p, quant)
						if err := q.Validate(); err != nil {
							return nil, err
						}
						ps = append(ps, q)
					}
				}
			}
		}
	}
	if len(ps) == 0 {
		return nil, hint.Errorf("use --pass fwd, or leave out --quant",
			"no problems: fp8 outputs belong to the forward")
	}
	return distinct(ps), nil
}

// withOptions turns on p's options: those that the flags ask for and p's pass has.
func (s *Selection) withOptions(p kernels.Problem, quant string) kernels.Problem {
	bias := s.Bias == "yes" || s.Bias != "no" && p.Op.Spec().Bias && !s.On["no-weight"]
	for _, o := range kernels.Options() {
		on := len(o.Values) == 0 && s.On[o.Flag] && (o.Pass == "" || o.Pass == p.Pass)
		if on || o.Name == quant || o.Name == "bias" && bias {
			o.Set(&p)
		}
	}
	return p
}

// Filter returns a function that says whether a recorded problem is selected. Flags that were not given
// let all problems through.
func (s *Selection) Filter() (func(kernels.Problem) bool, error) {
	if _, err := s.LayOut(Shape{M: 16, N: 128}); err != nil {
		return nil, err
	}
	s = s.canonical()
	steps, err := s.Steps()
	if err != nil {
		return nil, err
	}
	counted := models.Problems(steps)
	var list []Shape
	if s.Given["shapes"] {
		if list, _, err = resolve(s.Shapes); err != nil {
			return nil, err
		}
	}
	return func(p kernels.Problem) bool {
		if slices.Contains(counted, p) {
			return true
		}
		same := func(x Shape) bool { return x.M == p.M && x.N == p.N }
		return s.matchesFlags(p) && (!s.Given["shapes"] && s.Model == "" || slices.ContainsFunc(list, same))
	}, nil
}

// matchesFlags says whether a problem has the op, pass, types and options of the given flags; its shape
// does not count.
func (s *Selection) matchesFlags(p kernels.Problem) bool {
	quant := "none"
	for _, o := range kernels.Options() {
		if o.Flag == "quant" && o.IsWritten(p) {
			quant = o.Name
		}
		if len(o.Values) == 0 && s.Given[o.Flag] && s.On[o.Flag] != o.Has(p) {
			return false
		}
	}
	for flag, v := range map[string][2]string{"op": {s.Op, string(p.Op)},
		"pass": {s.Pass, string(p.Pass)}, "dtype": {s.DType, p.DType.String()},
		"weight-dtype": {s.Weight, p.Weight.String()}, "quant": {s.Quant, quant}} {
		if s.Given[flag] && !slices.Contains(strings.Split(v[0], ","), v[1]) {
			return false
		}
	}
	return !s.Given["bias"] || s.Bias == "auto" || (s.Bias == "yes") == p.Bias
}

// Split cuts a list at its commas and refuses a value that is not in among; name is the flag's in the
// error.
func Split(name, value string, among ...string) ([]string, error) {
	list := strings.Split(value, ",")
	for _, v := range list {
		if !slices.Contains(among, v) {
			return nil, hint.Errorf("use "+strings.Join(among, " or ")+", or several with commas",
				"unknown %s %q", name, v)
		}
	}
	return list, nil
}
