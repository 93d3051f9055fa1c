package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"
	"github.com/urfave/cli/v2"

	"normbench/kernels/families"
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

// Every command has examples, of commands and flags that there are.
func TestHelpExamples(t *testing.T) {
	e := &env{stdout: &bytes.Buffer{}, registry: families.New()}
	app := e.app()
	paths := map[string]bool{}
	eachCommand(app.Commands, "", func(path string, c *cli.Command) {
		paths[path] = true
		g, ok := guides[path]
		if !ok || len(g.examples) < 2 || len(g.examples) > 3 {
			t.Errorf("%s has %d examples, not two or three", path, len(g.examples))
		}
		for _, text := range g.examples {
			words, err := shlex.Split(text)
			if err != nil {
				t.Fatal(err)
			}
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
				if flag && !slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
					t.Errorf("%s: no flag --%s", text, name)
				}
			}
		}
		for _, want := range []string{"\nEXAMPLES:\n", "\nEXIT CODES:\n"} {
			if !strings.Contains(c.CustomHelpTemplate, want) {
				t.Errorf("the help of %s lacks %q:\n%s", path, want, c.CustomHelpTemplate)
			}
		}
	})
	for path := range guides {
		if !paths[path] {
			t.Errorf("a guide of %s, which is no command", path)
		}
	}
}

// A help can be read at once: one default per flag, placeholders in capitals, and texts that begin
// neither with "of" nor with a pronoun.
func TestHelpWords(t *testing.T) {
	t.Setenv("COLUMNS", "1000")
	e := &env{stdout: &bytes.Buffer{}, registry: families.New()}
	placeholder := regexp.MustCompile(`^   --[a-z-]+ (?:value|[A-Z][A-Z0-9=,]*)(?:  |$)`)
	inverted := regexp.MustCompile(`(?:^|[.:] )(?:[Oo]f|[Ww]hat|[Tt]hat|[Tt]hose|[Nn]or|[Ss]uch|[Bb]e) `)
	eachCommand(e.app().Commands, "", func(path string, c *cli.Command) {
		for line := range strings.Lines(c.CustomHelpTemplate) {
			line = strings.TrimSuffix(line, "\n")
			if strings.Count(line, "(default: ") > 1 {
				t.Errorf("%s: two defaults: %s", path, line)
			}
			if strings.HasPrefix(line, "   --") && !strings.HasPrefix(line, "   --help") && strings.Contains(strings.SplitN(strings.TrimSpace(line), "  ", 2)[0], " ") && !placeholder.MatchString(line) {
				t.Errorf("%s: not a placeholder in capitals: %s", path, line)
			}
		}
		texts := append([]string{c.Usage}, strings.Split(c.Description, "\n\n")...)
		for _, f := range c.Flags {
			_, text, _ := strings.Cut(f.String(), "\t")
			texts = append(texts, text)
		}
		for _, text := range texts {
			text = strings.ReplaceAll(text, "\n", " ")
			if m := inverted.FindString(text); m != "" {
				t.Errorf("%s: %q in: %s", path, m, text)
			}
		}
	})
}

// A long command is folded before its flags; what has no place to break stays as it is.
func TestFolded(t *testing.T) {
	for text, want := range map[string]string{
		"normbench sweep --out out":                    "normbench sweep --out out",
		"normbench sweep --shapes 4x64 --out out":      "normbench sweep \\\n    --shapes 4x64 --out out",
		"normbench --abcdefghijklmnopqrstuvwxyz012345": "normbench \\\n    --abcdefghijklmnopqrstuvwxyz012345",
	} {
		if got := strings.Join(folded(text, 30), "\n"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, l := range strings.Split(tasks, "\n") {
		if len(l) > 80 {
			t.Errorf("%d columns: %s", len(l), l)
		}
	}
}
