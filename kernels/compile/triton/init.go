package triton

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"normbench/kernels/compile/nvrtc"
)

// A Description is what a function's decorators hold once its file is imported.
type Description struct {
	Configs    []map[string]json.RawMessage // of @triton.autotune
	Heuristics map[string]string            // the rules of @triton.heuristics
}

// Describe imports the source of a function, which runs it.
func Describe(src nvrtc.Source, function string) (d Description, err error) {
	c := NewService(0)
	defer c.Close()
	s, err := c.server(src, startTimeout)
	if err != nil {
		return d, err
	}
	failed, err := s.ask(compileRequest{Options: nvrtc.CompileOptions{Names: []string{function}}, Describe: true,
		Seconds: probeTimeout.Seconds()}, &d)
	if failed != nil {
		return d, errors.New(strings.TrimPrefix(failed.Error(), "compile "))
	}
	return d, err
}

// guesses are what parameters are called in published kernels, and what they are given.
var guesses = []struct {
	name  *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`^(x|input|inp|in)$`), "x"},
	{regexp.MustCompile(`^(y|out|output|o)$`), "y"},
	{regexp.MustCompile(`^(w|weight|weights|gamma|g)$`), "w"},
	{regexp.MustCompile(`^(b|bias|beta)$`), "b"},
	{regexp.MustCompile(`^(res|residual)$`), "res"},
	{regexp.MustCompile(`^(rstd|inv_rms|inv_std|inv_var|rrms)$`), "rstd"},
	{regexp.MustCompile(`^(mean|mu)$`), "mean"},
	{regexp.MustCompile(`^(dy|dout|do|grad_output|grad_out|d_y)$`), "dy"},
	{regexp.MustCompile(`^(dx|din|dinput|grad_input|d_x)$`), "dx"},
	{regexp.MustCompile(`^(_?dw|dweight|dgamma|grad_weight(_partial)?|partial_dw|dw_partial)$`),
		"dw_partial"},
	{regexp.MustCompile(`^(_?db|dbias|dbeta|grad_bias(_partial)?|partial_db|db_partial)$`), "db_partial"},
	{regexp.MustCompile(`^(w|b|weight|bias|rstd|mean)(_row)?_stride$|^stride_(w|b|rstd|mean)$`), "1"},
	{regexp.MustCompile(`stride`), "N"},
	{regexp.MustCompile(`^(n|n_?cols?|cols|d|hidden(_size)?|dim)$`), "N"},
	{regexp.MustCompile(`^(m|n_?rows?|rows)$`), "M"},
	{regexp.MustCompile(`^(eps|epsilon)$`), "eps"},
	{regexp.MustCompile(`^block(_?size)?(_?(n|cols?|d|h))?$`), "pow2(N)"},
	{regexp.MustCompile(`^has_bias$`), "bias"},
	{regexp.MustCompile(`^has_(res|residual)$`), "residual"},
	{regexp.MustCompile(`^has_w(eight)?$|affine`), "weight"},
	{regexp.MustCompile(`zero_centered`), "zero_centered"},
	{regexp.MustCompile(`^(x_)?dtype$`), "dtype(x)"},
}

// guess is what a parameter is given by its name, or "".
func guess(name string) string {
	name = strings.ToLower(name)
	for _, affix := range []string{"_ptrs", "_ptr", "ptr_", "_pointer"} {
		name = strings.TrimPrefix(strings.TrimSuffix(name, affix), affix)
	}
	for _, g := range guesses {
		if g.name.MatchString(name) {
			return g.value
		}
	}
	return ""
}

// Todo stands where a manifest lacks a value. It is no name of an expression, so such a manifest
// does not load.
const Todo = "TODO"

// Manifest is a manifest for a function: what its signature and decorators say, guesses by the
// names of parameters, and marks where nothing is known. d's error, if any, stands in a comment.
func Manifest(r Request, f Signature, d Description, failed error) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	pass, op := "fwd", "rmsnorm"
	for _, p := range f.Params {
		switch guess(p.Name) {
		case "dy", "dx":
			pass = "bwd"
		case "mean":
			op = "layernorm"
		}
	}
	of := r.Source
	if r.Module != "" {
		of = "module " + r.Module
	}
	line("# Written by normbench init of %s: fill in each TODO, and look at each guess.", of)
	if failed != nil {
		line("# Its decorators are not known, as it could not be imported: %v", failed)
	}
	line("name: %s\nop: %s # guess\npass: %s # guess\n",
		strings.ToLower(strings.Trim(r.Function, "_")), op, pass)
	knobs, names := knobsOf(d)
	line("knobs:")
	for _, k := range names {
		line("  %s: %s", k, knobs[k].form())
	}
	line("base: # what runs untuned: expressions")
	for _, k := range names {
		line("  %s: %s", k, knobs[k].values[0])
	}
	line("\nlaunches:")
	switch {
	case r.Module != "":
		line("  - triton: {module: %s, function: %s}", r.Module, r.Function)
	default:
		line("  - triton: {source: %s, function: %s}", r.Source, r.Function)
	}
	line("    grid: M # guess: programs, or up to three numbers")
	args(line, f, d, knobs)
	line("    options:")
	for _, k := range names {
		if knobs[k].option != "" {
			line("      %s: %s", knobs[k].option, k)
		}
	}
	if pass == "bwd" {
		line("  # Where dw_partial has a row of partial sums for each program, this adds them up to dw:")
		line("  # - reduce: {partials: PROGRAMS}")
	}
	return b.String()
}

// args writes the parameters of a kernel as a manifest lists them: args, then constexprs.
func args(line func(string, ...any), f Signature, d Description, knobs map[string]*manifestKnob) {
	writeParams(line, "args", false, f, d, knobs)
	writeParams(line, "constexprs", true, f, d, knobs)
}

// writeParams writes a section with those parameters that are constexprs, or those that are not.
func writeParams(line func(string, ...any), section string, constexpr bool, f Signature, d Description,
	knobs map[string]*manifestKnob) {
	line("    %s:", section)
	for _, p := range f.Params {
		if p.Constexpr != constexpr {
			continue
		}
		value, note := paramValue(p, d.Heuristics[p.Name], knobs)
		if value == "" && note == "" {
			line("      # %s: %s by default", p.Name, p.Default)
			continue
		}
		line("      %s: %s%s", p.Name, cmp.Or(value, Todo), note)
	}
}

// paramValue guesses what a manifest gives a parameter, with a comment that says how sure that is; both are
// "" where the kernel's own default stands. heuristic is the text of the parameter's rule in
// @triton.heuristics, "" without one.
func paramValue(p Parameter, heuristic string, knobs map[string]*manifestKnob) (value, note string) {
	value = guess(p.Name)
	knob := strings.ToLower(p.Name)
	switch {
	case p.Descriptor:
		return Todo, " # a tensor descriptor: not hosted"
	case p.Constexpr && knobs[knob] != nil:
		return knob, ""
	case strings.HasSuffix(heuristic, " is not None"):
		return value, " # @triton.heuristics: " + heuristic
	case heuristic != "": // the parameter's name says less than its rule
		return Todo, " # @triton.heuristics: " + heuristic
	case value != "":
		return value, " # guess"
	case p.Default != "":
		return "", ""
	case p.Constexpr:
		return "", " # an expression, or a literal of Python"
	}
	return "", " # a tensor, a scratch buffer or an expression"
}

// A manifestKnob is a knob of a manifest that is written from a signature.
type manifestKnob struct {
	own    bool
	option string // Triton's, that it sets
	values []string
}

func (k *manifestKnob) form() string {
	list := "[" + strings.Join(k.values, ", ") + "]"
	if !k.own {
		return list
	}
	return "{values: " + list + ", doc: a constexpr}"
}

// options are the knobs of Triton's own.
var options = map[string]string{"num_warps": "warps", "num_stages": "stages", "num_ctas": "cluster",
	"maxnreg": "maxnreg"}

// knobsOf are the values that the configs of @triton.autotune have, the first config's first.
func knobsOf(d Description) (map[string]*manifestKnob, []string) {
	knobs := map[string]*manifestKnob{}
	var names []string
	add := func(key, value string) {
		name, option := strings.ToLower(key), ""
		if ours, ok := options[key]; ok {
			name, option = ours, key
		}
		k := knobs[name]
		if k == nil {
			k = &manifestKnob{own: option == "" || name == option, option: option}
			knobs[name], names = k, append(names, name)
		}
		if !slices.Contains(k.values, value) {
			k.values = append(k.values, value)
		}
	}
	for _, c := range d.Configs {
		for _, key := range slices.Sorted(maps.Keys(c)) {
			value := string(c[key])
			if truth, ok := map[string]string{"true": "1", "false": "0"}[value]; ok {
				value = truth // as knobs have them
			}
			add(key, value)
		}
	}
	if knobs["warps"] == nil {
		for _, n := range []string{"4", "1", "2", "8", "16", "32"} {
			add("num_warps", n)
		}
	}
	return knobs, names
}
