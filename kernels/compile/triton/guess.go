package triton

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Todo stands where a manifest lacks a value. It is no name of an expression, so such a manifest
// does not load.
const Todo = "TODO"

// A guess is what a manifest gives a parameter: a value with a comment, Todo where none is certain, or "" where
// the kernel's own default stands.
type guess struct{ value, note string }

// todo returns a parameter without a value, with what is known of it.
func todo(note string) guess { return guess{Todo, " # " + note} }

// A parameterRole is a tensor that published kernels call by such names. A parameter has it if the kernel also does
// with it what the role says.
type parameterRole struct {
	names         *regexp.Regexp
	fwd, bwd      string // the buffer in each pass, "" where the name says nothing
	reads, writes bool   // what a forward does with it; see usedAs for a backward
}

// roles by the names of parameters, in lower case and without what says that they are pointers.
var roles = []parameterRole{
	{regexp.MustCompile(`^(x|input|inp|in)$`), "x", "x", true, false},
	{regexp.MustCompile(`^(y|out|output|o)$`), "y", "", false, true},
	{regexp.MustCompile(`^(w|weights?|gamma)$`), "w", "w", true, false},
	{regexp.MustCompile(`^(b|bias|beta)$`), "b", "", true, false},
	{regexp.MustCompile(`^(res|residual)$`), "res", "", true, false},
	{regexp.MustCompile(`^(res|residual)_?out(put)?$`), "resout", "", false, true},
	{regexp.MustCompile(`^(d_?res(idual)?|grad_res(idual)?|res(idual)?_grad)$`), "", "dres", true, false},
	{regexp.MustCompile(`^(out_)?(rstd|inv_rms|inv_std|inv_var|rrms)$`), "rstd", "rstd", false, true},
	{regexp.MustCompile(`^(out_)?(mean|mu)$`), "mean", "mean", false, true},
	{regexp.MustCompile(`^(dy|d_y|dout|do|grad_out(put)?|out(put)?_grad|grad_y)$`), "", "dy", true, false},
	{regexp.MustCompile(`^(dx|d_x|din(put)?|grad_in(put)?|in(put)?_grad|grad_x)$`), "", "dx", false, true},
	{regexp.MustCompile(`^(_dw|(partial_dw|dw_partial|grad_weight_partial|dgamma_partial)s?)$`),
		"", "dw_partial", false, true},
	{regexp.MustCompile(`^(_db|(partial_db|db_partial|grad_bias_partial|dbeta_partial)s?)$`),
		"", "db_partial", false, true},
	{regexp.MustCompile(`^final_dw$`), "", "dw", false, true},
	{regexp.MustCompile(`^final_db$`), "", "db", false, true},
}

// sums are the gradients of weights: whole, or a row for each program, as their names do not say.
var sums = regexp.MustCompile(`^(d_?w(eight)?|dgamma|grad_w(eight)?|w(eight)?_grad|d_?b(ias)?|dbeta|grad_b(ias)?|b(ias)?_grad)$`)

// gates are names of a gated norm's z, and of a weight: gamma.
var gates = regexp.MustCompile(`^(g|z|gate)$`)

// absent are inputs that further switches of kernels have, which no norm of normbench takes.
var absent = regexp.MustCompile(`^((d|has_)?[xywb]1|(has_)?row_?scale|seeds?|(has_)?dropout(_mask1?|_p)?|has_d[xy]1)$`)

// numbers are whole numbers, conditions and types, by name.
var numbers = []struct {
	names *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`^(n|n_size|(n_?|num_)?col(umn)?s?|d|dim|d_model|(hidden|feat|feature)(_size|_dim)?)$`), "N"},
	{regexp.MustCompile(`^(m|(n_?|num_)?rows?|batch_(dim|size)|t|(n_?|num_)tokens)$`), "M"},
	{regexp.MustCompile(`^(eps|epsilon)$`), "eps"},
	{regexp.MustCompile(`^is_rms(_?norm)?$`), "rmsnorm"},
	{regexp.MustCompile(`^(has|add|use)_bias$`), "bias"},
	{regexp.MustCompile(`^has_d?res(idual)?$|^store_res(idual)?_out$`), "residual"},
	{regexp.MustCompile(`^has_w(eight)?$|affine|^scale_by_weight$`), "weight"},
	{regexp.MustCompile(`^zero_centered(_weight)?$`), "zero_centered + 0"},
	{regexp.MustCompile(`^(x_)?dtype$`), "dtype(x)"},
}

var (
	blockNames = regexp.MustCompile(`^block(_?size)?(_?(n|cols?|d|h|feat)(_size)?)?$|^bd$`)
	rowNames   = regexp.MustCompile(`(^|_)rows?_(per|block)|^block.*_(m|rows?|batch|t)$|^b[ts]$`)
	rowStride  = regexp.MustCompile(`row|batch|outer|[0m]$|_r$`)
	laneStride = regexp.MustCompile(`col|feat|inner|last|[1n]$|_c$`)
	pointer    = regexp.MustCompile(`^ptr_|_?(ptrs?|pointer)$`)
)

// plain returns a parameter's name as it is looked up.
func plain(name string) string { return pointer.ReplaceAllString(strings.ToLower(name), "") }

// A guesser guesses what the parameters of one function are.
type guesser struct {
	pass   string // fwd, bwd or Todo
	both   bool   // rmsnorm and layernorm
	params []Parameter
	knobs  map[string]*manifestKnob
	rules  map[string]string // of @triton.heuristics
}

// isTensor says whether the kernel loads from a parameter, or stores to it.
func isTensor(p Parameter) bool { return p.Loads || p.Stores }

// use returns what the kernel does with a tensor, in words.
func use(p Parameter) string {
	switch {
	case p.Loads && p.Stores:
		return "reads and writes"
	case p.Stores:
		return "writes"
	case p.Loads:
		return "reads"
	}
	return "hands on"
}

// roleOf returns the role of a parameter by its name, nil where it has none.
func roleOf(name string) *parameterRole {
	i := slices.IndexFunc(roles, func(r parameterRole) bool { return r.names.MatchString(plain(name)) })
	if i < 0 {
		return nil
	}
	return &roles[i]
}

// buffer returns the tensor that a parameter stands for, "" where that is not certain.
func (g *guesser) buffer(p Parameter) string {
	r := roleOf(p.Name)
	if r == nil && g.isOnlyInput(p) {
		return "x"
	}
	if r == nil || !isTensor(p) && !p.Passed {
		return ""
	}
	name, reads, writes := r.fwd, r.reads, r.writes
	if g.pass == "bwd" {
		name = r.bwd
		if name == "rstd" || name == "mean" { // which the forward has saved
			reads, writes = true, false
		}
	}
	if isTensor(p) && !p.Passed && (p.Loads != reads || p.Stores != writes) {
		return ""
	}
	return name
}

// isOnlyInput says whether a parameter is all that a forward can have for its x: no other tensor that it reads
// has a name that says nothing.
func (g *guesser) isOnlyInput(p Parameter) bool {
	unclear := func(o Parameter) bool {
		name := plain(o.Name)
		return o.Loads && (roleOf(o.Name) == nil || roleOf(o.Name).fwd == "x") && !absent.MatchString(name)
	}
	count := 0
	for _, o := range g.params {
		if unclear(o) || o.Passed {
			count++
		}
	}
	return g.pass == "fwd" && unclear(p) && !p.Stores && count == 1 && !gates.MatchString(plain(p.Name))
}

// of guesses what a manifest gives a parameter.
func (g *guesser) of(p Parameter) guess {
	name, rule := plain(p.Name), g.rules[p.Name]
	knob := strings.ToLower(p.Name)
	number := slices.IndexFunc(numbers, func(n struct {
		names *regexp.Regexp
		value string
	}) bool {
		return n.names.MatchString(name)
	})
	switch {
	case p.Descriptor:
		return todo("a tensor descriptor: not hosted")
	case p.Constexpr && g.knobs[knob] != nil:
		return guess{knob, ""}
	case strings.HasSuffix(rule, " is not None") && number >= 0:
		return guess{numbers[number].value, " # @triton.heuristics: " + rule}
	case rule != "": // the parameter's name says less than its rule
		return todo("@triton.heuristics: " + rule)
	case g.buffer(p) == "mean" && g.both && p.Stores:
		return guess{"mean", " # guess: rmsnorm has none; a kernel that writes it there too needs scratch"}
	case g.buffer(p) != "":
		return guess{g.buffer(p), " # guess"}
	case absent.MatchString(name):
		return g.nothing(p)
	case isTensor(p):
		return g.tensor(p)
	case g.isStride(p):
		return g.stride(p)
	case number >= 0:
		return guess{numbers[number].value, " # guess"}
	case p.Constexpr && blockNames.MatchString(name) && !g.hasRows(p):
		return guess{"pow2(N)", " # guess"}
	case p.Default != "":
		return guess{}
	case p.Constexpr:
		return todo("an expression, or a literal of Python")
	case p.Passed:
		return todo("a tensor, a scratch buffer or an expression")
	}
	return todo("a number: an expression")
}

// nothing returns what stands for an input that normbench has none of.
func (g *guesser) nothing(p Parameter) guess {
	switch {
	case p.Constexpr:
		return guess{`"False"`, " # guess: no norm here has it"}
	case isTensor(p) || p.Passed:
		return guess{"none", " # guess: no norm here has it"}
	}
	return guess{"0.0", " # guess: no norm here has it"}
}

// tensor says what is known of a tensor that has no certain role.
func (g *guesser) tensor(p Parameter) guess {
	name := plain(p.Name)
	what := "a tensor or scratch; the kernel " + use(p) + " it"
	r := roleOf(name)
	switch {
	case gates.MatchString(name):
		return todo(what + "; z if it is a gate, and the op is rmsnormgated or layernormgated")
	case sums.MatchString(name) && g.pass == "bwd":
		kind := "dw"
		if strings.Contains(name, "b") && !strings.Contains(name, "w") {
			kind = "db"
		}
		return todo(kind + ", or " + kind + "_partial where it has a row for each program; the kernel " + use(p) + " it")
	case r != nil && p.Loads && p.Stores:
		return todo(what + ", so it may be two tensors in place")
	case r != nil && r.fwd == "b" && g.pass == "bwd":
		return todo(what + "; only a gated backward has a bias: else none if that is switched off, or w in its place")
	case r != nil && r.fwd == "y" && g.pass == "bwd":
		return todo(what + "; none if that is switched off")
	}
	return todo(what)
}

// hasRows says whether a block of rows, or another block, stands beside a block of columns of an unclear name.
func (g *guesser) hasRows(p Parameter) bool {
	if name := strings.ToLower(p.Name); name != "block" && name != "block_size" {
		return strings.HasPrefix(name, "block_col") // rows are in another, and how many is not known
	}
	return slices.ContainsFunc(g.params, func(o Parameter) bool {
		return o.Constexpr && o.Name != p.Name && strings.HasPrefix(strings.ToLower(o.Name), "block")
	})
}

// isStride says whether a parameter is the distance of rows or of elements of a tensor.
func (g *guesser) isStride(p Parameter) bool {
	return strings.Contains(strings.ToLower(p.Name), "stride")
}

// stride guesses a stride by the tensors whose addresses it is multiplied into, or else by those in its name.
func (g *guesser) stride(p Parameter) guess {
	of, unused := p.StrideOf, len(p.StrideOf) == 0
	if unused {
		words := strings.FieldsFunc(strings.ToLower(p.Name), func(r rune) bool { return r == '_' })
		for _, o := range g.params {
			if roleOf(o.Name) != nil && slices.Contains(words, plain(o.Name)) {
				of = append(of, o.Name)
			}
		}
	}
	value := ""
	for _, name := range of {
		i := slices.IndexFunc(g.params, func(o Parameter) bool { return o.Name == name })
		if i < 0 {
			continue
		}
		v := g.strideOf(p, g.buffer(g.params[i]))
		if absent.MatchString(plain(name)) {
			v = "0"
		}
		if value = cmp.Or(value, v); v == "" || v != value {
			return todo("the stride of " + strings.Join(of, " and of "))
		}
	}
	switch {
	case value == "":
		return todo("a stride")
	case unused:
		return guess{value, " # guess: the kernel does not use it"}
	}
	return guess{value, " # guess: of " + strings.Join(of, " and of ")}
}

// strideOf returns a stride of one tensor; "" where it may be of its rows or of its elements.
func (g *guesser) strideOf(p Parameter, buffer string) string {
	if buffer == "rstd" || buffer == "mean" {
		return "1"
	}
	name := strings.ToLower(p.Name)
	lane := p.ByLane && laneStride.MatchString(name) && !rowStride.MatchString(name)
	if p.ByLane && !lane && !rowStride.MatchString(name) {
		return "" // rows of a tile differ from lane to lane too
	}
	switch {
	case buffer == "":
		return ""
	case lane, buffer == "w", buffer == "b":
		return "1"
	}
	return "N"
}

var (
	bwdNames  = regexp.MustCompile(`(?i)bwd|backward|grad|(^|_)d[xwb](d[wb])?($|_)`)
	fwdNames  = regexp.MustCompile(`(?i)fwd|forward`)
	rmsNames  = regexp.MustCompile(`(?i)(^|[^o])rms`)
	meanNames = regexp.MustCompile(`(?i)layer_?norm|(^|_)ln(_|$)`)
	l2Names   = regexp.MustCompile(`(?i)l2_?norm`)
)

// passOf returns the pass of a function by its name, else by its parameters; Todo where they do not say it.
func passOf(function string, params []Parameter) string {
	bwd := slices.ContainsFunc(params, func(p Parameter) bool {
		r := roleOf(p.Name)
		return r != nil && r.fwd == "" && p.Loads || sums.MatchString(plain(p.Name)) && isTensor(p)
	})
	fwd := !bwd && slices.ContainsFunc(params, func(p Parameter) bool {
		r := roleOf(p.Name)
		return r != nil && r.fwd == "y" && p.Stores
	})
	switch named, forward := bwdNames.MatchString(function), fwdNames.MatchString(function); {
	case named && !forward, bwd && !forward:
		return "bwd"
	case forward && !named && !bwd, fwd && !named:
		return "fwd"
	}
	return Todo
}

// opOf returns the op of a function by its name, its parameters, and the name of its file.
func opOf(function, file string, params []Parameter) string {
	has := func(test func(p Parameter) bool) bool { return slices.ContainsFunc(params, test) }
	switch {
	case has(func(p Parameter) bool { return strings.HasPrefix(strings.ToLower(p.Name), "is_rms") }):
		return "[rmsnorm, layernorm]"
	case rmsNames.MatchString(function): // unsloth's rms_layernorm too
		return "rmsnorm"
	case l2Names.MatchString(function):
		return "l2norm"
	case meanNames.MatchString(function),
		has(func(p Parameter) bool { r := roleOf(p.Name); return r != nil && r.fwd == "mean" && isTensor(p) }):
		return "layernorm"
	case rmsNames.MatchString(file):
		return "rmsnorm"
	case meanNames.MatchString(file):
		return "layernorm"
	}
	return Todo
}
