package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/families/presets"
	"normbench/kernels/launchmap"
	"normbench/sweep/models"
	"normbench/sweep/shapes"
)

// A shell's script asks the program what may stand at the cursor: `normbench complete -- WORDS...`,
// of which the last is the one to complete. Where nothing is known the shell offers files.
var completions = map[string]string{
	"bash": `# eval "$(normbench completion bash)" in ~/.bashrc
_normbench() {
	local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT}
	COMPREPLY=($("${COMP_WORDS[0]}" complete -- "$line" 2>/dev/null))
	[[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *: ]] || compopt -o nospace
	# bash has words end at colons, and replaces what is behind the last one
	local word=${line##*[[:space:]]}
	if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"${word%:*}:"}")
	fi
}
complete -o default -F _normbench normbench
`,
	"zsh": `#compdef normbench
# eval "$(normbench completion zsh)" in ~/.zshrc, behind compinit
_normbench() {
	local -a found
	found=("${(@f)$("$words[1]" complete -- "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[1]}" ]]; then
		compadd -S ' ' -- "${(@)found:#*:}"
		compadd -S '' -- "${(@M)found:#*:}"
	else
		_files
	fi
}
compdef _normbench normbench
`,
}

func completionCommand(e *env) *cli.Command {
	x := &commonFlags{only: "one shell, bash or zsh"}
	return e.command(&cli.Command{
		Name:      "completion",
		Usage:     "print a shell's script that completes commands, flags and their values",
		ArgsUsage: "bash|zsh",
		Description: "Put eval \"$(normbench completion bash)\" into ~/.bashrc, or " +
			"eval \"$(normbench completion zsh)\" into ~/.zshrc behind compinit.",
	}, x, func() error {
		script, ok := completions[x.operands[0]]
		if !ok {
			return hint.Errorf("use bash or zsh", "unknown shell %q", x.operands[0])
		}
		_, err := fmt.Fprint(e.out, script)
		return err
	})
}

func completeCommand(e *env) *cli.Command {
	x := &commonFlags{only: "the line before the cursor"}
	return e.command(&cli.Command{
		Name:      "complete",
		Hidden:    true, // the scripts of completion call it
		Usage:     "print the words that may stand at the end of a command line",
		ArgsUsage: "-- LINE",
	}, x, func() error {
		for _, word := range e.complete(strings.Fields(x.operands[0] + "\a")) {
			fmt.Fprintln(e.out, word)
		}
		return nil
	})
}

// complete lists the words that may take the place of a line's last one, which ends in a bell.
func (e *env) complete(line []string) []string {
	prefix := strings.TrimSuffix(line[len(line)-1], "\a")
	var command *cli.Command
	list, before := e.app().Commands, ""
	for _, word := range line[1:max(len(line)-1, 1)] {
		if i := slices.IndexFunc(list, func(c *cli.Command) bool { return c.Name == word }); i >= 0 {
			command, list = list[i], list[i].Subcommands
		}
		before = word
	}
	var words []string
	switch name, isFlag := strings.CutPrefix(before, "--"); {
	case strings.HasPrefix(prefix, "-") && command != nil:
		words = dashedNames(command.VisibleFlags())
	case isFlag && command != nil && slices.ContainsFunc(command.Flags, func(f cli.Flag) bool {
		_, isBool := f.(*cli.BoolFlag)
		return !isBool && f.Names()[0] == name
	}):
		words = e.flagWords(command.Name, name)
	case command == nil || len(list) > 0:
		for _, c := range list {
			if !c.Hidden {
				words = append(words, c.Name)
			}
		}
	default:
		words = e.operandWords(command)
	}
	// of a list with commas the last part is completed
	head := prefix[:strings.LastIndexByte(prefix, ',')+1]
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(head+w, prefix) })
	for i, w := range words {
		words[i] = head + w
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// flagWords returns values of a flag.
func (e *env) flagWords(command, flag string) []string {
	switch flag {
	case "op":
		return slices.Clone(allOps)
	case "pass":
		return []string{"fwd", "bwd"}
	case "dtype", "weight-dtype":
		return []string{"bf16", "fp16", "fp32"}
	case "family":
		return e.familyNames()
	case "shapes":
		return shapes.Default().Names()
	case "model":
		var words []string
		for _, m := range models.Default().Models() {
			words = append(words, m.Name)
		}
		return words
	case "device":
		words := []string{"auto", "cpu", "cuda", "cuda:0", "replay:"}
		if slices.Contains([]string{"show", "export", "explain", "configs"}, command) {
			for _, d := range launchmap.KnownDevices() {
				words = append(words, d.Key)
			}
		}
		return words
	}
	return slices.Clone(choices(command, flag))
}

// operandWords returns operands of a command that are no files.
func (e *env) operandWords(c *cli.Command) []string {
	switch c.Name {
	case "help":
		return e.flagless()
	case "completion":
		return []string{"bash", "zsh"}
	case "compare", "bench", "verify", "show", "export":
		words := append(e.familyNames(), "base", "tuned:", "peer:best", "py:")
		for _, p := range presets.All() {
			words = append(words, "preset:"+p.Name)
		}
		return words
	}
	return nil
}

// flagless returns the names of all commands to show.
func (e *env) flagless() (names []string) {
	for _, c := range e.app().Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// familyNames returns the families that a person may name.
func (e *env) familyNames() (names []string) {
	for _, f := range e.Registry.Families {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	return names
}
