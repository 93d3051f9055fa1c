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

func completionCommand(e *env) *cli.Command {
	x := &common{only: "one shell: bash, zsh or fish"}
	return e.command(&cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "Load it in the shell's start file: `source <(normbench completion bash)` in " +
			"~/.bashrc, `source <(normbench completion zsh)` in ~/.zshrc, `normbench completion " +
			"fish | source` in ~/.config/fish/config.fish.",
	}, x, func() error {
		shell := x.operands[0]
		text, ok := completions[shell]
		if !ok {
			return hint.Errorf(hint.DidYouMean(shell, shells, "use bash, zsh or fish"),
				"unknown shell %q", shell)
		}
		_, err := io.WriteString(e.out, text)
		return err
	})
}

// complete prints what the word that is being typed may become. Nothing leaves it to the shell,
// which completes files.
func (e *env) complete(c *cli.Context) {
	words := e.Command[1 : len(e.Command)-1]
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
		list, word, before = flagValues(e, cmd, takes(flag), value), value, flag+"="
	case len(rest) > 0 && takes(rest[len(rest)-1]) != "":
		list = flagValues(e, cmd, takes(rest[len(rest)-1]), word)
	case strings.HasPrefix(word, "-"):
		list = append(list, dashed(cmd.Flags)...)
	case len(cmd.Subcommands) > 0 && len(rest) == len(path):
		list = nil
		for _, sub := range cmd.Subcommands {
			if !sub.Hidden {
				list = append(list, sub.Name)
			}
		}
	default:
		list = map[string][]string{"bench": refNames(e), "verify": refNames(e), "compare": refNames(e),
			"rule": {"base", "tuned:"}, "completion": shells}[cmd.Name]
	}
	for _, name := range list {
		if strings.HasPrefix(name, word) {
			fmt.Fprintln(e.out, before+name)
		}
	}
}

// refNames are the beginnings of what a REF may be.
func refNames(e *env) []string {
	list := append([]string{"base"}, familyNames(e)...)
	for _, p := range presets.All() {
		list = append(list, "preset:"+p.Name)
	}
	list = append(list, "tuned:", "py:", "peer:best")
	for _, name := range peers.Names {
		list = append(list, "peer:"+name)
	}
	return list
}

func familyNames(e *env) (list []string) {
	for _, f := range e.Registry.Families {
		if !f.Hidden {
			list = append(list, f.Name)
		}
	}
	return list
}

// choices are the values of a flag that takes one of a few words, nil for any other.
func choices(command, flag string) []string {
	switch flag {
	case "strategy":
		return search.Names()
	case "order":
		return []string{ab.OrderRandom, ab.OrderABBA}
	case "color":
		return []string{"auto", "always", "never"}
	case "export":
		return rule.Formats
	case "format":
		if command == "export" {
			return []string{export.KTCache, export.Benchfmt}
		}
		return report.Formats()
	}
	return nil
}

// deviceNames are those that a command takes.
func deviceNames(command string) []string {
	switch command {
	case "explain", "rule", "lint", "configs":
		list := []string{"cpu"}
		for _, k := range rule.KnownDevices() {
			list = append(list, k.Key)
		}
		return list
	case "worker":
		return []string{"cpu", "cuda", "cuda:0"}
	}
	return []string{"auto", "cpu", "cuda", "cuda:0", "replay:"}
}

// flagValues are the values that may stand in place of the one being typed.
func flagValues(e *env, cmd *cli.Command, flag, typed string) []string {
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
		list, several = familyNames(e), cmd.Name == "sweep"
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
	case "keep":
		list = refNames(e)
	case "peers":
		list, several = peers.Names, true
	case "prior":
		list = []string{"auto", "none"}
	case "device":
		list = deviceNames(cmd.Name)
	}
	if words := choices(cmd.Name, flag); words != nil {
		list = words
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
