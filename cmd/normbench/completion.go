package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/report/export"
	"normbench/sweep/search"
)

// completeFlag ends the command line that a completion script runs, as the library has it. The
// word before it is the one that is being typed, empty if nothing of it is there yet.
const completeFlag = "--generate-bash-completion"

// The scripts ask the program for the words, so that they know every command and flag.
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

// complete prints what the word that is being typed may become: a command, a flag, or one of the few
// words that a flag takes. Nothing leaves it to the shell, which completes files.
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
		list, word, before = choices(cmd.Name, takes(flag)), value, flag+"="
	case len(rest) > 0 && takes(rest[len(rest)-1]) != "":
		list = choices(cmd.Name, takes(rest[len(rest)-1]))
	case strings.HasPrefix(word, "-"):
		list = append(list, dashed(cmd.Flags)...)
	case len(cmd.Subcommands) > 0 && len(rest) == len(path):
		list = nil
		for _, sub := range cmd.Subcommands {
			if !sub.Hidden {
				list = append(list, sub.Name)
			}
		}
	case cmd.Name == "completion":
		list = shells
	default:
		return
	}
	for _, name := range list {
		if strings.HasPrefix(name, word) {
			fmt.Fprintln(e.out, before+name)
		}
	}
}

// choices are the values of a flag that takes one of a few words, nil for any other.
func choices(command, flag string) []string {
	switch flag {
	case "strategy":
		return search.Names()
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
