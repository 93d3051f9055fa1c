package main

import (
	_ "embed"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/peers"
	"normbench/kernels/presets"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/report/export"
	"normbench/sweep/ab"
	"normbench/sweep/search"
	"normbench/sweep/shapes"
)

// completeFlag ends the command line that a completion script runs. The word before it is the one
// that is being typed, empty if nothing of it is there yet.
const completeFlag = "--complete"

// The scripts ask the program for the words, so that they know every family, group and preset.
var (
	//go:embed completion.bash
	bashCompletion string
	//go:embed completion.zsh
	zshCompletion string
	//go:embed completion.fish
	fishCompletion string
)

var completions = map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}

var shells = []string{"bash", "zsh", "fish"}

func (e *env) completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "Load it in the shell's start file: `source <(normbench completion bash)` in ~/.bashrc,\n" +
			"`source <(normbench completion zsh)` in ~/.zshrc, `normbench completion fish | source` in ~/.config/fish/config.fish.",
		Action: func(c *cli.Context) error {
			ops := operands(c)
			if len(ops) != 1 {
				return hint.Errorf("`normbench completion bash`, for one", "completion takes one shell: bash, zsh or fish")
			}
			text, ok := completions[ops[0]]
			if !ok {
				return hint.Errorf(hint.DidYouMean(ops[0], shells, "use bash, zsh or fish"), "unknown shell %q", ops[0])
			}
			_, err := io.WriteString(e.stdout, text)
			return err
		},
	}
}

// complete lists what the last of the words may become. An empty list leaves it to the shell, which
// completes files.
func (e *env) complete(words []string) []string {
	app := e.app()
	last := len(words) - 1
	current, rest := words[last], words[:last]
	commands := app.Commands
	var cmd *cli.Command
	for len(rest) > 0 && len(commands) > 0 {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(rest[0]) })
		if i < 0 {
			return nil
		}
		if cmd, rest = commands[i], rest[1:]; cmd.Name == "help" {
			cmd, commands = nil, app.Commands
			continue
		}
		commands = cmd.Subcommands
	}
	var list []string
	if len(commands) > 0 && !strings.HasPrefix(current, "-") {
		for _, c := range commands {
			if !c.Hidden {
				list = append(list, c.Name)
			}
		}
		return withPrefix(list, current)
	}
	if cmd == nil {
		return withPrefix([]string{"--help", "--version"}, current)
	}
	takes := func(word string) string { // the flag that word is, if it wants a value
		for _, f := range cmd.Flags {
			if _, isBool := f.(*cli.BoolFlag); !isBool && word == "--"+f.Names()[0] {
				return f.Names()[0]
			}
		}
		return ""
	}
	if flag, value, ok := strings.Cut(current, "="); ok && takes(flag) != "" {
		for _, v := range e.flagValues(cmd, takes(flag), value) {
			list = append(list, flag+"="+v)
		}
		return list
	}
	if len(rest) > 0 && takes(rest[len(rest)-1]) != "" {
		return e.flagValues(cmd, takes(rest[len(rest)-1]), current)
	}
	if strings.HasPrefix(current, "-") {
		for _, f := range cmd.Flags {
			list = append(list, "--"+f.Names()[0])
		}
		return withPrefix(append(list, "--help"), current)
	}
	switch cmd.Name {
	case "bench", "verify", "compare":
		list = e.refNames()
	case "rule":
		list = []string{"base", "tuned:"}
	case "completion":
		list = shells
	}
	return withPrefix(list, current)
}

// refNames are the beginnings of what a REF may be.
func (e *env) refNames() []string {
	list := append([]string{"base"}, e.familyNames()...)
	for _, p := range presets.All() {
		list = append(list, "preset:"+p.Name)
	}
	list = append(list, "tuned:", "peer:best")
	for _, name := range peers.Names {
		list = append(list, "peer:"+name)
	}
	return list
}

func (e *env) familyNames() (list []string) {
	for _, f := range e.registry.Families {
		if !f.Hidden {
			list = append(list, f.Name)
		}
	}
	return list
}

// flagValues are the values that may stand in place of the one being typed.
func (e *env) flagValues(cmd *cli.Command, flag, typed string) []string {
	var list []string
	several := false // with commas
	switch flag {
	case "shapes":
		list, several = append(shapes.Default().Names(), "random:"), true
		if at := strings.LastIndex(typed, "@"); at > strings.LastIndex(typed, ",") {
			list = nil
			for _, as := range []string{"bf16", "fp16", "fp32", "fp8", "fp8t"} {
				list = append(list, typed[strings.LastIndex(typed, ",")+1:at+1]+as)
			}
		}
	case "family":
		list, several = e.familyNames(), cmd.Name == "sweep"
	case "op":
		list, several = allOps, true
	case "pass":
		list, several = []string{string(kernels.Fwd), string(kernels.Bwd)}, true
	case "dtype", "weight-dtype":
		for _, d := range kernels.DTypes() {
			list = append(list, d.String())
		}
		several = flag == "dtype"
	case "quant":
		list, several = []string{"none", "fp8", "fp8t"}, true
	case "bias":
		list = []string{"auto", "yes", "no"}
	case "knob":
		for _, k := range kernels.Knobs() {
			list = append(list, k.Key+"=")
		}
	case "strategy":
		list = search.Names()
	case "keep":
		list = e.refNames()
	case "peers":
		list, several = peers.Names, true
	case "prior":
		list = []string{"auto", "none"}
	case "order":
		list = []string{ab.OrderRandom, ab.OrderABBA}
	case "over":
		list = []string{"M", "N", "shape"}
	case "color":
		list = []string{"auto", "always", "never"}
	case "export":
		list = rule.Formats
	case "format":
		if list = report.Formats(); cmd.Name == "export" {
			list = []string{export.KTCache, export.Benchfmt}
		}
	case "device":
		switch cmd.Name {
		case "explain", "rule", "lint", "configs":
			list = []string{"cpu"}
			for _, k := range rule.KnownDevices() {
				list = append(list, k.Key)
			}
		case "worker":
			list = []string{"cpu", "cuda", "cuda:0"}
		default:
			list = []string{"auto", "cpu", "cuda", "cuda:0", "replay:"}
		}
	}
	if comma := strings.LastIndex(typed, ","); several && comma >= 0 {
		for i, name := range list {
			if i == 0 {
				list = slices.Clone(list)
			}
			list[i] = typed[:comma+1] + name
		}
	}
	return withPrefix(list, typed)
}

// withPrefix are the names that begin with a prefix.
func withPrefix(names []string, prefix string) (list []string) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	return list
}
