package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/internal/hint"
)

// A command is one of the program's: what its help says, its flags, and the one call that it is.
type command struct {
	*common
	path     string // "list configs"
	args     string // its operands, as the help has them; "" for none
	only     string // what its one operand is, "" where there may be others than one
	usage    string
	about    string
	examples string // a line each, without "normbench"
	exits    []int  // beside 0 and 2
	hidden   bool
	flags    []*option
	subs     []*command
	offers   func(e *env, typed string) []string // operands, to completion
	run      func(e *env) error
}

// name is the last word of the path.
func (c *command) name() string { return c.path[strings.LastIndexByte(c.path, ' ')+1:] }

// full is the command as one types it.
func (c *command) full() string { return strings.TrimSpace("normbench " + c.path) }

// find is the subcommand that the first words name, and the words behind them.
func (c *command) find(words []string) (*command, []string, error) {
	if len(c.subs) == 0 || len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return c, words, nil
	}
	i := slices.IndexFunc(c.subs, func(s *command) bool {
		return s.name() == words[0] || s.name() == "help" && words[0] == "h"
	})
	if i < 0 {
		path := strings.TrimSpace(c.path + " " + words[0])
		help := fmt.Sprintf("`%s` lists the commands", strings.TrimSpace("normbench help "+c.path))
		return nil, nil, hint.Errorf(hint.DidYouMean(words[0], c.names(), help),
			"unknown command %q", path)
	}
	return c.subs[i].find(words[1:])
}

// names are those of the subcommands that help shows.
func (c *command) names() (list []string) {
	for _, s := range c.subs {
		if !s.hidden {
			list = append(list, s.name())
		}
	}
	return list
}

// An option is a flag of a command.
type option struct {
	category  string
	name      string
	usage     string // the first word in backquotes stands for the value
	to        any    // a pointer to a string, bool, int, uint64, float64, time.Duration or []string
	otherwise string // the default, as the help has it
	words     []string
	check     func() error // of the value
	file      bool         // that is written
	several   bool         // values, with commas
	offers    func(e *env, typed string) []string
}

// add adds a flag, whose default is what to points at.
func (c *command) add(category, name string, to any, usage string) *option {
	o := &option{category: category, name: name, to: to, usage: usage}
	if v := reflect.ValueOf(to).Elem(); !v.IsZero() {
		o.otherwise = fmt.Sprint(v)
	}
	c.flags = append(c.flags, o)
	return o
}

// flagNames are those of the flags, as one types them.
func (c *command) flagNames() (list []string) {
	for _, o := range c.flags {
		if o.category != catNone {
			list = append(list, "--"+o.name)
		}
	}
	return list
}

// drop takes a flag out.
func (c *command) drop(name string) {
	c.flags = slices.DeleteFunc(c.flags, func(o *option) bool { return o.name == name })
}

// flag is the flag of a name, or nil.
func (c *command) flag(name string) *option {
	for _, o := range c.flags {
		if o.name == name {
			return o
		}
	}
	return nil
}

// or sets what the help says of the default.
func (o *option) or(text string) *option { o.otherwise = text; return o }

// only are the values that a flag may have.
func (o *option) only(words ...string) *option {
	o.words = words
	return o.offering(words...)
}

// list says that several values may stand with commas between them.
func (o *option) list() *option { o.several = true; return o }

// offering has completion offer values.
func (o *option) offering(words ...string) *option {
	o.offers = func(*env, string) []string { return words }
	return o
}

// offeringOf has completion offer what is known only as it runs.
func (o *option) offeringOf(offers func(e *env, typed string) []string) *option {
	o.offers = offers
	return o
}

// written says that the value is a file to write, whose name check accepts.
func (o *option) written(check func() error) *option {
	o.file, o.check = true, check
	return o
}

// within refuses numbers that are out of a range.
func (o *option) within(lo, hi float64, help string) *option {
	o.check = func() error {
		v := reflect.Indirect(reflect.ValueOf(o.to))
		n, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
		if n >= lo && n <= hi {
			return nil
		}
		return hint.Errorf(help, "--%s %v is out of range", o.name, v)
	}
	return o
}

// positive refuses durations that are none.
func (o *option) positive(help string) *option {
	o.check = func() error {
		if d := *o.to.(*time.Duration); d <= 0 {
			return hint.Errorf(help, "--%s %s is not positive", o.name, d)
		}
		return nil
	}
	return o
}

// isBool says whether the flag stands without a value.
func (o *option) isBool() bool { _, ok := o.to.(*bool); return ok }

// isList says whether the flag may be repeated.
func (o *option) isList() bool { _, ok := o.to.(*[]string); return ok }

// parse reads a value. Its error is how a value is written.
func (o *option) parse(text string) error {
	var err error
	form := "write a whole number"
	switch to := o.to.(type) {
	case *string:
		*to = text
	case *[]string:
		*to = append(*to, text)
	case *bool:
		form = fmt.Sprintf("write --%[1]s or --%[1]s=false", o.name)
		*to, err = strconv.ParseBool(text)
	case *int:
		var n int64
		n, err = strconv.ParseInt(text, 0, strconv.IntSize)
		*to = int(n)
	case *uint64:
		form = "write a whole number, 0 or more"
		*to, err = strconv.ParseUint(text, 0, 64)
	case *float64:
		form = "write a number, such as 0.8"
		*to, err = strconv.ParseFloat(text, 64)
	case *time.Duration:
		form = "write a time with its unit, such as 20s, 5m or 1h30m"
		*to, err = time.ParseDuration(text)
	}
	if err != nil {
		return hint.Errorf(form, "invalid value %q for --%s", text, o.name)
	}
	return nil
}

// errHelp says that --help stands among the words.
var errHelp = errors.New("help is asked for")

// parse reads a command's flags, which stand before, among and after its operands, and the
// operands. After "--" everything is an operand. It refuses what would be read as something else:
// a flag of one value that is given twice, and empty values, as of a variable that is not set.
func (c *command) parse(words []string) error {
	c.given = map[string]bool{}
	only := false
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if only || !strings.HasPrefix(word, "-") || word == "-" {
			c.operands = append(c.operands, word)
			continue
		} else if only = word == "--"; only {
			continue
		}
		var err error
		if words, err = c.parseFlag(word, words); err != nil {
			return err
		}
	}
	return c.checkOperands()
}

// parseFlag reads a flag, whose value may be the next word. It returns the words that are left.
func (c *command) parseFlag(word string, words []string) ([]string, error) {
	help := fmt.Sprintf("`%s --help` lists its flags", c.full())
	name, value, assigned := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if (name == "help" || name == "h") && !assigned {
		return nil, errHelp
	}
	o := c.flag(name)
	switch {
	case o == nil:
		return nil, hint.Errorf(hint.DidYouMean("--"+name, c.flagNames(), help),
			"unknown flag --%s", name)
	case assigned:
	case o.isBool():
		value = "true"
	case len(words) == 0:
		return nil, hint.Errorf(help, "no value for --%s", name)
	default:
		value, words = words[0], words[1:]
	}
	return words, c.set(o, value)
}

// checkOperands refuses operands that are empty, or not as many as the command takes.
func (c *command) checkOperands() error {
	switch {
	case slices.Contains(c.operands, ""):
		return hint.Errorf("leave it out, or set the variable that it comes from",
			"an operand of %s is empty", c.name())
	case len(c.operands) > 0 && c.args == "":
		return hint.Errorf(fmt.Sprintf("`%s --help` shows its use", c.full()),
			"%s takes no operands, got %q", c.name(), c.operands[0])
	case len(c.operands) != 1 && c.only != "":
		return hint.Errorf(fmt.Sprintf("`%s --help` has examples", c.full()),
			"%s takes %s, got %d", c.name(), c.only, len(c.operands))
	}
	return nil
}

// set gives a flag a value.
func (c *command) set(o *option, value string) error {
	_, isText := o.to.(*string)
	switch {
	case isText && value == "":
		return hint.Errorf("give it a value, or leave the flag out", "--%s is empty", o.name)
	case c.given[o.name] && !o.isBool() && !o.isList():
		return hint.Errorf("give it once; where it takes several values, they stand with commas",
			"--%s is given twice", o.name)
	case o.words != nil && !slices.Contains(o.words, value):
		return hint.Errorf(hint.DidYouMean(value, o.words, "use "+strings.Join(o.words, ", ")),
			"unknown --%s %q", o.name, value)
	}
	c.given[o.name] = true
	if err := o.parse(value); err != nil || o.check == nil {
		return err
	}
	return o.check()
}

// start reads the words behind a command's name, and runs it.
func (c *command) start(e *env, words []string) error {
	err := c.parse(words)
	if errors.Is(err, errHelp) {
		return c.help(e)
	}
	if err == nil {
		err = c.prepare(e)
	}
	if err != nil {
		return err
	}
	return c.run(e)
}
