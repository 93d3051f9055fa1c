package kernels

import (
	"cmp"
	"slices"
	"strings"

	"normbench/internal/hint"
)

// An Option is a switch of a problem. This one table gives its names in problems, flags,
// manifests and messages. The order is that in a problem's text and of problems in tables, and
// gives the bits of an exported map.
type Option struct {
	Name   string   // in a problem's text: "zc"
	Flag   string   // of the command line; several options of one flag are its values
	Doc    string   // help of the flag
	Values []string // of the flag, the default first; none where it is a switch
	Var    string   // variable of a manifest, if it has one
	Noun   string   // what others have not got
	Pass   Pass     // the only one that takes it; "" for both
	Alike  bool     // problems with it launch like those without: they share a map

	Has func(p Problem) bool
	Set func(p *Problem)
}

var options = []Option{
	{Name: "bias", Flag: "bias", Var: "bias", Noun: "bias", Alike: true,
		Doc:    "whether there is a bias: auto (in layernorm only), yes or no",
		Values: []string{"auto", "yes", "no"},
		Has:    func(p Problem) bool { return p.Bias }, Set: func(p *Problem) { p.Bias = true }},
	{Name: "zc", Flag: "zero-centered", Var: "zero_centered", Noun: "zero-centered weight",
		Alike: true, Doc: "the weight is stored as w-1",
		Has: func(p Problem) bool { return p.ZeroCentered },
		Set: func(p *Problem) { p.ZeroCentered = true }},
	{Name: "noweight", Flag: "no-weight", Noun: "missing weight",
		Doc: "there is no weight, and no gradient of it",
		Has: func(p Problem) bool { return p.NoWeight }, Set: func(p *Problem) { p.NoWeight = true }},
	{Name: "residual", Flag: "residual", Var: "residual", Noun: "residual",
		Doc: "fwd normalizes x + res and writes the sum; bwd adds the sum's gradient to dx",
		Has: func(p Problem) bool { return p.Residual }, Set: func(p *Problem) { p.Residual = true }},
	{Name: "fp8", Flag: "quant", Var: "fp8", Noun: "fp8", Pass: Fwd,
		Doc:    "type of y in fwd: none, fp8, fp8t (fp8 with its transpose), or several",
		Values: []string{"none", "fp8", "fp8t"},
		Has:    func(p Problem) bool { return p.FP8 }, Set: func(p *Problem) { p.FP8 = true }},
	{Name: "fp8t", Flag: "quant", Var: "transpose", Noun: "fp8 with its transpose", Pass: Fwd,
		Has: func(p Problem) bool { return p.Transpose },
		Set: func(p *Problem) { p.FP8, p.Transpose = true, true }},
	{Name: "acc", Flag: "accumulate", Var: "accumulate", Noun: "gradient to add to", Pass: Bwd,
		Doc: "bwd adds dw and db to existing gradients",
		Has: func(p Problem) bool { return p.Accumulate },
		Set: func(p *Problem) { p.Accumulate = true }},
	{Name: "nodw", Flag: "no-dw", Var: "no_dw", Noun: "frozen weight", Pass: Bwd,
		Doc: "bwd computes dx alone: the weight and the bias are frozen, as in LoRA",
		Has: func(p Problem) bool { return p.NoDW }, Set: func(p *Problem) { p.NoDW = true }},
	{Name: "sigmoid", Flag: "sigmoid", Var: "sigmoid", Noun: "sigmoid gate", Alike: true,
		Doc: "a gated norm's gate is sigmoid(z), not SiLU(z) = z*sigmoid(z)",
		Has: func(p Problem) bool { return p.Sigmoid }, Set: func(p *Problem) { p.Sigmoid = true }},
	{Name: "gatefirst", Flag: "gate-first", Var: "gate_first", Noun: "gate before the norm",
		Doc: "a gated norm normalizes x times its gate; else the gate is on what is normalized",
		Has: func(p Problem) bool { return p.GateFirst }, Set: func(p *Problem) { p.GateFirst = true }},
}

// Options lists every option.
func Options() []Option { return slices.Clone(options) }

// OptionValues lists the values of an option's flag, the default first; none where the flag is a switch.
func OptionValues(flag string) (values []string) {
	for _, o := range options {
		if o.Flag == flag {
			values = append(values, o.Values...)
		}
	}
	return values
}

// IsWritten says whether the option is named in p's text, where fp8t implies fp8.
func (o *Option) IsWritten(p Problem) bool { return o.Has(p) && (o.Name != "fp8" || !p.Transpose) }

// optionNames lists the names of all options.
func optionNames() (names []string) {
	for _, o := range options {
		names = append(names, o.Name)
	}
	return names
}

// Options lists the options that p has, by their names in its text and in that order.
func (p Problem) Options() (on []string) {
	for i := range options {
		if options[i].IsWritten(p) {
			on = append(on, options[i].Name)
		}
	}
	return on
}

// setOptions turns on the options that a problem's text lists, such as +bias+zc. It returns whether the
// text is as Problem.String writes it.
func (p *Problem) setOptions(text string) bool {
	for _, name := range strings.Split(text, "+")[1:] {
		i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
		if i < 0 {
			return false
		}
		options[i].Set(p)
	}
	return optionText(*p) == text
}

// optionText writes p's options as its text has them.
func optionText(p Problem) string {
	return strings.Join(append([]string{""}, p.Options()...), "+")
}

// CompareOptions orders problems by their options, those without before those with.
func CompareOptions(a, b Problem) int {
	for i := range options {
		if x, y := options[i].Has(a), options[i].Has(b); x != y {
			return cmp.Compare(Flag(x), Flag(y))
		}
	}
	return 0
}

// checkOptions refuses options that p's op or pass does not have, or that exclude each other.
func (p Problem) checkOptions() error {
	spec := p.Op.Spec()
	for _, o := range options {
		switch {
		case !o.Has(p):
		case o.Pass != "" && o.Pass != p.Pass:
			return hint.Errorf("use "+string(o.Pass), "%s has no %s", p.Pass, o.Noun)
		case !slices.Contains(spec.Options, o.Name):
			return hint.Errorf("leave the option out", "%s has no %s", p.Op, o.Noun)
		}
	}
	switch {
	case !p.HasWeight() && (p.Bias || p.ZeroCentered || p.Accumulate || p.NoDW || p.Weight != p.DType):
		return hint.Errorf("leave out the weight's options", "a problem without a weight has no "+
			"bias, zero-centered weight, weight dtype, gradient to add to or frozen weight")
	case p.NoDW && p.Accumulate:
		return hint.Errorf("use one of the two", "a frozen weight has no gradient to add to")
	case p.Transpose && !p.FP8:
		return hint.Errorf("use fp8 with it", "only fp8 outputs are transposed")
	}
	return nil
}
