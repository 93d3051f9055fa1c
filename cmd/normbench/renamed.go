package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
)

// Commands of the release before this one, which had other names. This file leaves with the next one.

// renamed lists the old names of commands with the new ones.
var renamed = map[string]string{
	"learn":        "map learn",
	"tune":         "map fill",
	"rule":         "map show", // with --export: map export
	"list kernels": "list families",
}

// renamedFlags lists for an old command its flags that have other names now.
var renamedFlags = map[string]map[string]string{
	"learn": {"--judge": "--audit"},
	"rule":  {"--columns": "--widths", "--export": "--format"},
}

// unknownCommand refuses a command that there is not. The hint for an old name is the same command
// line with the new one. parent is "" or the command whose subcommand it is, with a space.
func unknownCommand(parent string, args []string, commands []*cli.Command, help string) error {
	old := parent + args[0]
	if renamed[old] == "" {
		return hint.Errorf(hint.DidYouMean(args[0], commandNames(commands), help), "unknown command %q", old)
	}
	return hint.Errorf("`normbench "+translate(old, args[1:])+"`", "%s is called %s now", old, newName(old, args))
}

// newName gives the new name of an old command with such arguments.
func newName(old string, args []string) string {
	exports := slices.ContainsFunc(args, func(a string) bool {
		return a == "--export" || strings.HasPrefix(a, "--export=")
	})
	if old == "rule" && exports {
		return "map export"
	}
	return renamed[old]
}

// translate writes the command line of an old command in the new words.
func translate(old string, args []string) string {
	words := []string{newName(old, args)}
	for _, a := range args {
		name, value, hasValue := strings.Cut(a, "=")
		switch to := renamedFlags[old][name]; {
		case to != "" && hasValue:
			a = to + "=" + value
		case to != "":
			a = to
		case old == "rule" && name == "--launch": // explain --format json has the launches of a problem
			continue
		}
		words = append(words, quoteWord(a))
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./#-]+$`)

// quoteWord writes a word as a shell reads it.
func quoteWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// quoteWords writes words as a shell reads them.
func quoteWords(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quoteWord(w))
	}
	return strings.Join(quoted, " ")
}

// commandNames lists the names of the commands that the help shows.
func commandNames(commands []*cli.Command) (names []string) {
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// flagHint gives the new name of an old flag of a command, "" for any other.
func flagHint(command, flag string) string {
	switch command + " --" + flag {
	case "map learn --judge":
		return "it is called --audit now"
	case "map export --export":
		return "it is called --format now"
	case "map show --export":
		return "`normbench map export` writes code"
	}
	return ""
}
