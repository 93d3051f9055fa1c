package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"
	"github.com/urfave/cli/v2"

	"normbench/kernels/families"
)

// Every command has examples, of commands and flags that there are.
func TestHelpExamples(t *testing.T) {
	e := &env{stdout: &bytes.Buffer{}, registry: families.New()}
	app := e.app()
	for _, c := range app.Commands {
		if c.Name == "help" || c.Hidden {
			continue
		}
		g, ok := guides[c.Name]
		if !ok || len(g.examples) < 2 || len(g.examples) > 3 {
			t.Errorf("%s has %d examples, not two or three", c.Name, len(g.examples))
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
				t.Errorf("the help of %s lacks %q:\n%s", c.Name, want, c.CustomHelpTemplate)
			}
		}
	}
	for name := range guides {
		if app.Command(name) == nil {
			t.Errorf("a guide of %s, which is no command", name)
		}
	}
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
