package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"

	"normbench/kernels/families"
)

// eachCommand calls f with each command, hidden and nested ones too.
func eachCommand(of *command, f func(*command)) {
	for _, c := range of.subs {
		f(c)
		eachCommand(c, f)
	}
}

// helpOf is a command's help on a wide terminal.
func helpOf(t *testing.T, path string) string {
	t.Setenv("COLUMNS", "1000")
	var stdout, stderr bytes.Buffer
	args := append(append([]string{"normbench"}, strings.Fields(path)...), "--help")
	if code := run(args, strings.NewReader(""), &stdout, &stderr, families.New()); code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, stderr.String())
	}
	return stdout.String()
}

// Every command has examples, of commands and flags that there are.
func TestHelpExamples(t *testing.T) {
	eachCommand(program(), func(c *command) {
		texts := strings.Split(c.examples, "\n")
		if len(texts) < 2 || len(texts) > 3 {
			t.Errorf("%s has %d examples, not two or three", c.path, len(texts))
		}
		for _, text := range texts {
			words, err := shlex.Split(text)
			if err != nil {
				t.Fatal(err)
			}
			of, words, err := program().find(words)
			if err != nil || !strings.HasPrefix(of.path+" ", c.path+" ") {
				t.Errorf("%s: %v: an example of %s", text, err, c.path)
				continue
			}
			for _, w := range words {
				if strings.HasPrefix(w, "--") && !slices.Contains(of.flagNames(), w) {
					t.Errorf("%s: no flag %s", text, w)
				}
			}
		}
		if help := helpOf(t, c.path); !strings.Contains(help, "\nEXAMPLES:\n   normbench "+texts[0]) {
			t.Errorf("the help of %s lacks its examples:\n%s", c.path, help)
		}
	})
}

// A help can be read at once: one default per flag, placeholders in capitals.
func TestHelpWords(t *testing.T) {
	placeholder := regexp.MustCompile(`^   --[a-z-]+ (?:value|[A-Z][A-Z0-9=,]*)(?:  |$)`)
	eachCommand(program(), func(c *command) {
		for line := range strings.Lines(helpOf(t, c.path)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.Count(line, "(default: ") > 1 {
				t.Errorf("%s: two defaults: %s", c.path, line)
			}
			if strings.HasPrefix(line, "   --") && !strings.HasPrefix(line, "   --help") && strings.Contains(strings.SplitN(strings.TrimSpace(line), "  ", 2)[0], " ") && !placeholder.MatchString(line) {
				t.Errorf("%s: not a placeholder in capitals: %s", c.path, line)
			}
		}
	})
}

// A long command is folded before its flags; what has no place to break stays as it is.
func TestFolded(t *testing.T) {
	for text, want := range map[string]string{
		"normbench sweep --out out":                    "normbench sweep --out out",
		"normbench sweep --shapes 4x64 --out out":      "normbench sweep \\\n       --shapes 4x64 --out out",
		"normbench --abcdefghijklmnopqrstuvwxyz012345": "normbench \\\n       --abcdefghijklmnopqrstuvwxyz012345",
	} {
		if got := foldCommand(text, 30); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, l := range strings.Split(tasks, "\n") {
		if len(l) > 80 {
			t.Errorf("%d columns: %s", len(l), l)
		}
	}
}
