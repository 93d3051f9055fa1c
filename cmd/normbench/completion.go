package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels/peers"
	"normbench/kernels/presets"
)

// completeFlag ends the command line that a completion script runs. The word before it is the one
// that is being typed, empty if nothing of it is there yet.
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

func completionCommand() *command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	shells := []string{"bash", "zsh", "fish"}
	c := &command{
		common: &common{},
		path:   "completion",
		usage:  "print the completion script of a shell",
		args:   "bash|zsh|fish",
		only:   "one shell: bash, zsh or fish",
		about: "Load it in the shell's start file: `source <(normbench completion bash)` in ~/.bashrc," +
			" `source <(normbench completion zsh)` in ~/.zshrc, `normbench completion fish | source`" +
			" in ~/.config/fish/config.fish.",
		examples: "completion bash\ncompletion fish",
		offers:   func(*env, string) []string { return shells },
	}
	c.run = func(e *env) error {
		shell := c.operands[0]
		script, ok := scripts[shell]
		if !ok {
			return hint.Errorf(hint.DidYouMean(shell, shells, "use bash, zsh or fish"),
				"unknown shell %q", shell)
		}
		_, err := io.WriteString(e.out, script)
		return err
	}
	return c
}

// completionWords are the words of a command line that asks for completion, and whether it does.
func completionWords(words []string) ([]string, bool) {
	n := len(words) - 1
	if n < 0 || words[n] != completeFlag {
		return nil, false
	}
	if slices.Contains(words, "--") { // operands follow, of any name
		n = 0
	}
	return words[:n], true
}

// complete prints what the last word, which is being typed, may become. Nothing leaves it to the
// shell, which completes files.
func (c *command) complete(e *env, words []string) {
	if len(words) == 0 {
		return
	}
	word, words := words[len(words)-1], words[:len(words)-1]
	helped := len(words) > 0 && words[0] == "help" // words of a command follow
	if helped {
		words = words[1:]
	}
	c, words, err := c.find(words)
	if err != nil {
		return
	}
	var before *option // whose value is being typed
	if len(words) > 0 {
		before = c.valued(words[len(words)-1])
	}
	name, value, assigned := strings.Cut(word, "=")
	prefix, list := "", []string(nil)
	switch {
	case assigned && c.valued(name) != nil:
		prefix, word = name+"=", value
		list = c.valued(name).values(e, value)
	case before != nil:
		list = before.values(e, word)
	case strings.HasPrefix(word, "-") && !helped:
		list = append(c.flagNames(), "--help")
	case len(c.subs) > 0:
		list = c.names()
	case c.offers != nil:
		list = c.offers(e, word)
	}
	for _, name := range list {
		if strings.HasPrefix(name, word) {
			fmt.Fprintln(e.out, prefix+name)
		}
	}
}

// valued is the flag that a word is, if it wants a value, or nil.
func (c *command) valued(word string) *option {
	name, _ := strings.CutPrefix(word, "--")
	if o := c.flag(name); o != nil && !o.isBool() && name != word {
		return o
	}
	return nil
}

// values are those that may stand in place of the one being typed.
func (o *option) values(e *env, typed string) (list []string) {
	if o.offers == nil {
		return nil
	}
	there := ""
	if comma := strings.LastIndexByte(typed, ','); o.several && comma >= 0 {
		there, typed = typed[:comma+1], typed[comma+1:]
	}
	for _, v := range o.offers(e, typed) {
		list = append(list, there+v)
	}
	return list
}

// refNames are the beginnings of what a REF may be.
func refNames(e *env, _ string) []string {
	list := append([]string{"base"}, familyNames(e, "")...)
	for _, p := range presets.All() {
		list = append(list, "preset:"+p.Name)
	}
	list = append(list, "tuned:", "peer:best")
	for _, name := range peers.Names {
		list = append(list, "peer:"+name)
	}
	return list
}

func familyNames(e *env, _ string) (list []string) {
	for _, f := range e.Registry.Families {
		if !f.Hidden {
			list = append(list, f.Name)
		}
	}
	return list
}
