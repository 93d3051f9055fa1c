// Normbench tunes and benchmarks GPU normalization kernels: RMSNorm and
// LayerNorm, forward and backward.
//
// `normbench help` lists its commands; README.md shows them at work.
//
// Results go to standard output. Progress, notes and errors go to standard
// error, one line each where it is no terminal. The exit codes are below.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
)

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr, families.New()))
}

// The exit codes.
const (
	exitGate    = 1   // a gate failed: a confirmed regression, too far from the stream, a wrong or unreproducible result
	exitTrouble = 2   // usage, or anything else that went wrong
	exitUnclear = 3   // compare --strict: a cell is inconclusive; verify: CUDA code was not run
	exitUnfit   = 4   // the machine is unfit to measure on, or a sweep left something unmeasured
	exitWrong   = 5   // compare: an operand answers wrong
	exitSignal  = 130 // interrupted with the work kept: see errInterrupted
)

// An exitError ends the program with its code. The text of a nil error is not
// printed: the command has said it already.
type exitError struct {
	code int
	err  error
}

func (c *exitError) Error() string {
	if c.err == nil {
		return ""
	}
	return c.err.Error()
}
func (c *exitError) Unwrap() error { return c.err }

// errInterrupted is what a command ends with that a signal stopped, and says what became of
// its work. It is no error, and is not called one.
func errInterrupted(format string, args ...any) error {
	return &exitError{exitSignal, fmt.Errorf("interrupted; "+format, args...)}
}

// An env is what a command runs in.
type env struct {
	*lab.Lab
	stdin io.Reader
	out   *report.Screen // standard output
	args  []string       // the whole command line
	saved string         // the file with what this command has measured; "" for none
}

// run is the program. It returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, r *kernels.Registry) int {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once, whatever it is at
	c := console.New(ctx, stdout, stderr)
	// Until a device is opened a signal ends the program: what only reads and computes has nothing
	// to keep, and would otherwise go on to the end and write. Then it ends ctx.
	started := context.AfterFunc(ctx, func() {
		c.Notef("interrupted")
		os.Exit(exitSignal)
	})
	defer started() // before the stop above, which ends ctx too
	e := &env{Lab: lab.New(ctx, c, r, started), stdin: stdin,
		out: &report.Screen{Writer: c.Out}, args: args}
	if words, asked := completionWords(args[1:]); asked {
		program().complete(e, words)
		return 0
	}
	of, words, err := program().find(args[1:])
	if err == nil {
		err = of.start(e, words)
	}
	if c.Raw.Lost != nil {
		cause := c.Raw.Lost
		if p := new(fs.PathError); errors.As(cause, &p) {
			cause = p.Err
		}
		err = &exitError{exitTrouble, e.late(hint.Errorf("free some space there, or send it elsewhere", "standard output: %w", cause))}
	}
	if err == nil {
		return 0
	}
	code := exitTrouble
	var own *exitError
	var left *sweep.Unfinished
	switch {
	case errors.As(err, &own):
		code = own.code
	case errors.As(err, &left):
		code = exitUnfit
	case ctx.Err() != nil: // what a device says while it is being stopped is no news
		code, err = exitSignal, errors.New("interrupted")
	}
	if text := err.Error(); code == exitSignal {
		e.Notef("%s", console.OneLine(text))
	} else if text != "" {
		e.Notef("error: %s", console.OneLine(text))
		if h := hint.Of(err); h != "" {
			e.Notef("hint: %s", console.OneLine(h))
		}
	}
	return code
}

// program is the command that has all others.
func program() *command {
	c := &command{
		common:   &common{},
		usage:    "tune and benchmark GPU normalization kernels",
		about:    "`normbench COMMAND --help` has examples, every flag and the exit codes.",
		args:     "[operands]",
		examples: "sweep --out out\nhelp sweep",
		subs: []*command{
			sweepCommand(), compareCommand(), reportCommand(), benchCommand(), verifyCommand(),
			tuneCommand(), learnCommand(), ruleCommand(), explainCommand(), lintCommand(),
			listCommand(), initCommand(), judgeCommand(), exportCommand(), selftestCommand(),
			workerCommand(), compileHelperCommand(), completionCommand(), helpCommand(),
		},
	}
	shown := false
	c.add(catOutput, "version", &shown, "print the version")
	c.add(catNone, "v", &shown, "")
	c.run = func(e *env) error {
		text := tasks
		if shown {
			text = "normbench version " + version() + "\n"
		}
		_, err := io.WriteString(e.out, text)
		return err
	}
	return c
}
