package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"
	"github.com/urfave/cli/v2"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels/families"
	"normbench/lab"
)

// eachCommand calls f with each command and its path, hidden and nested ones too.
func eachCommand(commands []*cli.Command, parent string, f func(path string, c *cli.Command)) {
	for _, c := range commands {
		if c.Name != "help" {
			f(parent+c.Name, c)
			eachCommand(c.Subcommands, parent+c.Name+" ", f)
		}
	}
}

// helpOf is a command's help on a terminal of so many columns.
func helpOf(t *testing.T, path, columns string) string {
	t.Setenv("COLUMNS", columns)
	code, stdout, stderr := normbench(append(strings.Fields(path), "--help"))
	assert.Must(t, code == 0, "%s: exit code %d, %s", path, code, stderr)
	return stdout
}

// Every command has examples, of commands and flags that there are. A help can be read at once: one
// default per flag, placeholders in capitals.
func TestHelpHasExamplesOfRealFlags(t *testing.T) {
	flagLine := regexp.MustCompile(
		`^   --[a-z-]+(?: (?:value|[A-Z][A-Z0-9=,]*))?(?:, -[hv])?(?:  |$)`)
	e := &env{Lab: lab.New(t.Context(), console.New(t.Context(), nil, nil), families.New(),
		func() {})}
	app := e.app()
	paths := map[string]bool{}
	eachCommand(app.Commands, "", func(path string, c *cli.Command) {
		paths[path] = true
		help := helpOf(t, path, "1000")
		unfolded := strings.ReplaceAll(helpOf(t, path, "80"), " \\\n       ", " ")
		_, examples, _ := strings.Cut(help, "\nEXAMPLES:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		texts := strings.Split(examples, "\n")
		assert.That(t, len(texts) >= 2 && len(texts) <= 3,
			"%s has %d examples, not two or three", path, len(texts))
		for _, text := range texts {
			assert.That(t, strings.Contains(unfolded, text+"\n"), "%s on 80 columns", text)
			text = strings.TrimPrefix(text, "   normbench ")
			words, err := shlex.Split(text)
			assert.NoError(t, err)
			cmd := app.Command(words[0])
			if cmd != nil && len(cmd.Subcommands) > 0 && !strings.HasPrefix(words[1], "-") {
				cmd = cmd.Command(words[1])
			}
			if cmd == nil {
				t.Errorf("%s: no such command", text)
				continue
			}
			if i := slices.Index(words, "--"); i >= 0 { // behind it a program has flags of its own
				words = words[:i]
			}
			for _, w := range words {
				name, flag := strings.CutPrefix(w, "--")
				assert.That(t, !flag || slices.Contains(names(cmd.Flags), name), "%s: no flag --%s", text, name)
			}
		}
		for line := range strings.SplitSeq(help, "\n") {
			assert.That(t, strings.Count(line, "(default: ") <= 1 &&
				(!strings.HasPrefix(line, "   --") || flagLine.MatchString(line)),
				"%s: two defaults, or not a placeholder in capitals: %s", path, line)
		}
		assert.That(t, strings.Contains(help, "\nEXIT CODES:\n"), "the help of %s has no exit codes", path)
	})
	for path := range exits {
		assert.That(t, paths[path], "exit codes of %s, which is no command", path)
	}
}
