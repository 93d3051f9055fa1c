package triton

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// A Description is what a function's decorators hold once its file is imported.
type Description struct {
	Configs    []map[string]json.RawMessage // of @triton.autotune
	Heuristics map[string]string            // the rules of @triton.heuristics
	Dropped    []string                     // what else @triton.autotune has, such as "reset_to_zero: DW"
}

// Describe has a Python import the source of a function, which runs it, within limit, for a GPU that need not be there.
func Describe(python string, src nvrtc.Source, function string, target Target, limit time.Duration) (
	d Description, err error) {
	c := NewService(0, func() Target { return target }).UsePython(python)
	defer c.Close()
	failed, err := c.ask(c.ctx, src, limit, serverRequest{Options: nvrtc.CompileOptions{Names: []string{function}}, Describe: true,
		Seconds: probeTimeout.Seconds()}, &d)
	if failed != nil {
		return d, errors.New(strings.TrimPrefix(failed.Error(), "compile "))
	}
	if err != nil {
		err = fmt.Errorf("the process of Triton %w", err)
	}
	return d, err
}

// Manifest returns a manifest for a function: what its signature, its text and its decorators say, guesses where all
// that is known agrees, and marks elsewhere. d's error, if any, stands in a comment.
func Manifest(r Request, f FunctionSignature, d Description, failed error) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	pass, op := passOf(r.Function, f.Params), opOf(r.Function, cmp.Or(r.Source, r.Module), f.Params)
	g := &guesser{pass: pass, both: strings.HasPrefix(op, "["), params: f.Params, rules: d.Heuristics}
	var names []string
	g.knobs, names = knobsOf(d)

	of := r.Source
	if r.Module != "" {
		of = "module " + r.Module
	}
	line("# Written by normbench init of %s: fill in each TODO, and look at each guess.", of)
	if failed != nil {
		line("# Its decorators are not known, as it could not be imported: %v", failed)
	}
	name := strings.ToLower(strings.Trim(r.Function, "_"))
	if g.both {
		name = "OP/" + name // one family for each op
	}
	line("name: %s\nop: %s%s\npass: %s%s\n", name, op, guessed(op, kernels.OpChoices()),
		pass, guessed(pass, "fwd or bwd"))
	line("knobs:")
	for _, k := range names {
		line("  %s: %s", k, g.knobs[k].form())
	}
	line("base: # what runs untuned: expressions")
	for _, k := range names {
		line("  %s: %s", k, g.knobs[k].values[0])
	}

	line("\nlaunches:")
	for _, what := range d.Dropped {
		line("  # @triton.autotune has %s%s", what, droppedHelp(what))
	}
	if r.Module != "" {
		line("  - triton: {module: %s, function: %s}", r.Module, r.Function)
	} else {
		line("  - triton: {source: %s, function: %s}", quoted(r.Source), r.Function)
	}
	line("    grid: %s", g.grid())
	g.write(line, "args", false)
	g.write(line, "constexprs", true)
	line("    options:")
	for _, k := range names {
		if option := g.knobs[k].option; option != "" {
			line("      %s: %s", option, k)
		}
	}
	if pass == "bwd" {
		line("  # Where dw_partial has a row of partial sums for each program, this adds them up to dw:")
		line("  # - reduce: {partials: PROGRAMS}")
	}
	return b.String()
}

// guessed returns the comment behind an op or a pass.
func guessed(value, choices string) string {
	if value == Todo {
		return " # " + choices
	}
	return " # guess"
}

// droppedHelp says what a manifest has in place of something that it drops.
func droppedHelp(what string) string {
	switch name, _, _ := strings.Cut(what, ":"); name {
	case "reset_to_zero":
		return ": clear what these are given by `- zero: BUFFER` ahead of the launch"
	case "restore_value":
		return ": the kernel overwrites these"
	case "pre_hook":
		return ", which Python runs ahead of each launch: see what it does"
	}
	return ": write constraints in its place"
}

// quoted returns a file's name as YAML has it.
func quoted(file string) string {
	if strings.ContainsAny(file, " ,'\"{}[]&*!|>%@`") {
		return strconv.Quote(file)
	}
	return file
}

// grid guesses the programs of a launch.
func (g *guesser) grid() string {
	whole := slices.ContainsFunc(g.params, func(p Parameter) bool { b := g.buffer(p); return b == "x" || b == "dy" })
	rows := slices.ContainsFunc(g.params, func(p Parameter) bool { return rowNames.MatchString(strings.ToLower(p.Name)) })
	if !whole || rows || g.pass != "fwd" {
		return Todo + " # programs, or up to three numbers; M if each has a row"
	}
	return "M # guess: programs, or up to three numbers"
}

// write writes a section with those parameters that are constexprs, or those that are not.
func (g *guesser) write(line func(string, ...any), section string, constexpr bool) {
	line("    %s:", section)
	for _, p := range g.params {
		if p.Constexpr != constexpr {
			continue
		}
		if x := g.of(p); x.value != "" {
			line("      %s: %s%s", p.Name, x.value, x.note)
		} else {
			line("      # %s: %s by default", p.Name, p.Default)
		}
	}
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

// knobsOf returns the values that the configs of @triton.autotune have, the first config's first.
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
