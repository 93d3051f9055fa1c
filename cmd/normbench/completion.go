package main

import (
	_ "embed"
	"fmt"
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

// completeFlag ends the command line that a completion script runs, as the library has it. The
// word before it is the one that is being typed, empty if nothing of it is there yet.
const completeFlag = "--generate-bash-completion"

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
			_, err := io.WriteString(e.out, text)
			return err
		},
	}
}

// complete prints what the word that is being typed may become. Nothing leaves it to the shell,
// which completes files.
func (e *env) complete(c *cli.Context) {
	words := e.args[1 : len(e.args)-1]
	if len(words) == 0 {
		return
	}
	word, rest, cmd := words[len(words)-1], words[:len(words)-1], c.Command
	path := strings.Fields(cmd.HelpName)[1:]
	if cmd.Name == "help" && len(rest) > 0 { // words of a command follow
		cmd, path = &cli.Command{Subcommands: c.App.Commands}, rest
		for _, w := range rest[1:] {
			if cmd = cmd.Command(w); cmd == nil {
				return
			}
		}
	}
	takes := func(word string) string { // the flag that word is, if it wants a value
		for _, f := range cmd.Flags {
			if _, isBool := f.(*cli.BoolFlag); !isBool && word == "--"+f.Names()[0] {
				return f.Names()[0]
			}
		}
		return ""
	}
	list, before := []string{"--help"}, ""
	switch flag, value, hasValue := strings.Cut(word, "="); {
	case len(rest) < len(path): // the command's own name
		list = []string{word}
	case hasValue && takes(flag) != "":
		list, word, before = e.flagValues(cmd, takes(flag), value), value, flag+"="
	case len(rest) > 0 && takes(rest[len(rest)-1]) != "":
		list = e.flagValues(cmd, takes(rest[len(rest)-1]), word)
	case strings.HasPrefix(word, "-"):
		for _, f := range cmd.Flags {
			list = append(list, "--"+f.Names()[0])
		}
	case len(cmd.Subcommands) > 0 && len(rest) == len(path):
		list = nil
		for _, sub := range cmd.Subcommands {
			if !sub.Hidden {
				list = append(list, sub.Name)
			}
		}
	default:
		list = map[string][]string{"bench": e.refNames(), "verify": e.refNames(), "compare": e.refNames(),
			"rule": {"base", "tuned:"}, "completion": shells}[cmd.Name]
	}
	for _, name := range list {
		if strings.HasPrefix(name, word) {
			fmt.Fprintln(e.out, before+name)
		}
	}
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
	for _, f := range e.Registry.Families {
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
	case "quant", "bias":
		list, several = kernels.OptionValues(flag), flag == "quant"
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
	return list
}
