package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"normbench/internal/console"
)

// tasks is what normbench says when it is called alone.
const tasks = `normbench tunes and benchmarks GPU normalization kernels:
RMSNorm and LayerNorm, forward and backward.

Tune my shapes
   normbench sweep --shapes 16384x4096,4096x8192 --out out
Compare in a pull request
   normbench compare base base --gate --device cuda --shapes fast-llm \
       --baseline-kernels out/main/kernels/families
My own kernel
   normbench verify --kernels examples/kernels --shapes 64x256 --op rmsnorm
A new GPU
   normbench selftest --device cuda
   normbench learn --device cuda --budget 20m --out out --html out/map.html
Against other libraries
   normbench compare peer:best base --device cuda --shapes peers

A first try, on this machine's CPU, in about 20 seconds:
   normbench sweep --out out
All commands: normbench help. One of them: normbench COMMAND --help
`

var exitWords = map[int]string{
	0:           "done",
	exitGate:    "a gate failed: a regression, a shape below --at-least, a wrong result, or a finding",
	exitTrouble: "wrong usage, or any other error",
	exitUnclear: "inconclusive, with --strict; or verify did not run a kernel of yours",
	exitUnfit:   "the machine is unfit to measure on, or something is left unmeasured",
	exitWrong:   "a compared kernel answers wrong",
	exitSignal:  "interrupted, with the work kept",
}

// Categories of flags, in the order of a help.
const (
	catNone   = "" // no help shows it
	catWhat   = "WHAT"
	catWhere  = "WHERE"
	catHow    = "HOW LONG AND HOW"
	catOutput = "OUTPUT"
)

// A manual is a help that is being written, no wider than a width.
type manual struct {
	b     strings.Builder
	width int
}

func (m *manual) wrap(text string, indent int) string {
	return strings.Join(console.Wrap(text, m.width-indent), "\n"+strings.Repeat(" ", indent))
}

func (m *manual) section(title string) { fmt.Fprintf(&m.b, "\n%s:\n", title) }

func (m *manual) line(text string) { m.b.WriteString("   " + text + "\n") }

// row is a name and, beside it in a column, what it means.
func (m *manual) row(column int, name, text string) {
	if utf8.RuneCountInString(name) > column {
		name += "\n" + strings.Repeat(" ", 3+column)
	}
	m.line(fmt.Sprintf("%-*s  %s", column, name, m.wrap(text, 5+column)))
}

// help prints what a command is for, its flags and its exit codes.
func (c *command) help(e *env) error {
	width, _ := e.width()
	m := &manual{width: max(width, 60)}
	m.b.WriteString(m.wrap(c.full()+" - "+c.usage, 0) + "\n")
	m.section("USAGE")
	words := c.full()
	if len(c.subs) > 0 {
		words += " COMMAND"
	}
	m.line(strings.TrimSpace(words + " [flags] " + c.args))
	if c.about != "" {
		m.section("DESCRIPTION")
		for i, paragraph := range strings.Split(c.about, "\n\n") {
			if i > 0 {
				m.b.WriteString("\n")
			}
			m.line(m.wrap(paragraph, 3))
		}
	}
	if len(c.subs) > 0 {
		m.section("COMMANDS")
	}
	for _, s := range c.subs {
		if !s.hidden {
			m.row(12, s.name(), s.usage)
		}
	}
	m.section("EXAMPLES")
	for _, x := range strings.Split(c.examples, "\n") {
		m.line(foldCommand("normbench "+x, m.width-3))
	}
	for _, category := range []string{catWhat, catWhere, catHow, catOutput} {
		c.helpFlags(m, category)
	}
	m.section("EXIT CODES")
	codes := append([]int{0, exitTrouble}, c.exits...)
	slices.Sort(codes)
	for _, code := range codes {
		m.row(3, strconv.Itoa(code), exitWords[code])
	}
	_, err := io.WriteString(e.out, m.b.String())
	return err
}

// helpFlags prints the flags of a category.
func (c *command) helpFlags(m *manual, category string) {
	const column = 24
	begun := false
	for _, o := range c.flags {
		if o.category != category {
			continue
		}
		if !begun {
			m.section(category)
			begun = true
		}
		name, text := "--"+o.name, strings.ReplaceAll(o.usage, "`", "")
		if _, quoted, ok := strings.Cut(o.usage, "`"); ok {
			placeholder, _, _ := strings.Cut(quoted, "`")
			name += " " + placeholder
		} else if !o.isBool() {
			name += " value"
		}
		if o.otherwise != "" {
			text += " (default: " + o.otherwise + ")"
		}
		m.row(column, name, text)
	}
	if category == catOutput {
		if !begun {
			m.section(category)
		}
		m.row(column, "--help, -h", "show this help")
	}
}

// foldCommand breaks a command before flags to a width, with a backslash behind each line but the last.
func foldCommand(text string, width int) string {
	if utf8.RuneCountInString(text) > width {
		if at := strings.LastIndex(text[:width-2], " --"); at > 4 { // else it is the line's own indent
			return text[:at] + " \\\n   " + foldCommand("    "+text[at+1:], width)
		}
	}
	return text
}

// helpCommand has the help of another, and of the program.
func helpCommand() *command {
	c := &command{
		common:   &common{},
		path:     "help",
		args:     "[COMMAND]",
		usage:    "list the commands, or show the help of one",
		examples: "help\nhelp sweep",
	}
	c.run = func(e *env) error {
		of, _, err := program().find(c.operands)
		if err != nil {
			return err
		}
		return of.help(e)
	}
	return c
}
