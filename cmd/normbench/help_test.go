package main

import (
	"bytes"
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
	var stdout, stderr bytes.Buffer
	args := append(append([]string{"normbench"}, strings.Fields(path)...), "--help")
	code := run(args, strings.NewReader(""), &stdout, &stderr, families.New())
	assert.Must(t, code == 0, "%v: exit code %d, %s", args, code, stderr.String())
	return stdout.String()
}

// Every command has examples, of commands and flags that there are. A help can be read at once: one
// default per flag, placeholders in capitals.
func TestHelp(t *testing.T) {
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
		_, text, _ := strings.Cut(help, "\nEXAMPLES:\n")
		text, _, _ = strings.Cut(text, "\n\n")
		texts := strings.Split(text, "\n")
		assert.That(t, len(texts) >= 2 && len(texts) <= 3,
			"%s has %d examples, not two or three", path, len(texts))
		for _, text := range texts {
			assert.That(t, strings.Contains(unfolded, text+"\n"), "%s on 80 columns", text)
			text = strings.TrimPrefix(text, "   normbench ")
			words, err := shlex.Split(text)
			assert.NoError(t, err)
			cmd := app.Command(words[0])
			if cmd != nil && len(cmd.Subcommands) > 0 {
				cmd = cmd.Command(words[1])
			}
			if cmd == nil {
				t.Errorf("%s: no such command", text)
				continue
			}
			for _, w := range words {
				name, flag := strings.CutPrefix(w, "--")
				assert.That(t,
					!flag || slices.ContainsFunc(cmd.Flags,
						func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }),
					"%s: no flag --%s", text, name)
			}
		}
		for line := range strings.Lines(help) {
			line = strings.TrimSuffix(line, "\n")
			assert.That(t, strings.Count(line, "(default: ") <= 1,
				"%s: two defaults: %s", path, line)
			assert.That(t, !strings.HasPrefix(line, "   --") || flagLine.MatchString(line),
				"%s: not a placeholder in capitals: %s", path, line)
		}
		for _, want := range []string{"\nEXAMPLES:\n", "\nEXIT CODES:\n"} {
			assert.That(t, strings.Contains(help, want),
				"the help of %s lacks %q:\n%s", path, want, help)
		}
	})
	for path := range exits {
		assert.That(t, paths[path], "exit codes of %s, which is no command", path)
	}
}
