// Normbench tunes and benchmarks GPU normalization kernels: RMSNorm and
// LayerNorm, forward and backward.
//
// `normbench help` lists its commands; README.md shows them at work.
//
// Results go to standard output. Progress, notes and errors go to standard
// error, one line each where it is no terminal. The exit codes are below.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

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
	// a gate failed: a confirmed regression, a wrong or unreproducible result
	exitGate    = lab.ExitGate
	exitTrouble = lab.ExitTrouble
	exitUnclear = 3 // compare --strict: a cell is inconclusive; verify: CUDA code was not run
	exitUnfit   = 4 // the machine is unfit to measure on, or a sweep left something unmeasured
	exitWrong   = 5 // compare: an operand answers wrong
	exitSignal  = lab.ExitSignal
)

// An env is what a command runs in.
type env struct {
	*lab.Lab
	program string // as it was called
	stdin   io.Reader
	out     *report.Screen // standard output
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
	e := &env{program: args[0], stdin: stdin, out: &report.Screen{Writer: c.Out, Tool: version()}}
	e.Lab = lab.New(ctx, c, r, func() {
		c.Sayf("interrupted")
		os.Exit(exitSignal)
	})
	defer e.Started() // before the stop above, which ends ctx too
	e.Tool, e.Command = version(), append([]string{"normbench"}, args[1:]...)
	err := e.app().RunContext(ctx, args)
	if c.Raw.Lost != nil {
		cause := c.Raw.Lost
		if p := new(fs.PathError); errors.As(cause, &p) {
			cause = p.Err
		}
		err = lab.Exit(exitTrouble, e.WithRecords(hint.Errorf("free some space there, or send it elsewhere",
			"standard output: %w", cause)))
	}
	if err == nil {
		return 0
	}
	code := exitTrouble
	var own *lab.ExitError
	var left *sweep.UnfinishedError
	switch {
	case errors.As(err, &own):
		code = own.Code
	case errors.As(err, &left):
		code = exitUnfit
	case ctx.Err() != nil: // what a device says while it is being stopped is no news
		code, err = exitSignal, errors.New("interrupted")
	}
	if text := err.Error(); code == exitSignal {
		e.Sayf("%s", console.OneLine(text))
	} else if text != "" {
		e.Sayf("error: %s", console.OneLine(text))
		if h := hint.Of(err); h != "" {
			e.Sayf("hint: %s", console.OneLine(h))
		}
	}
	return code
}

func (e *env) app() *cli.App {
	app := &cli.App{
		Name:                  "normbench",
		Usage:                 "tune and benchmark GPU normalization kernels",
		Version:               version(),
		Writer:                e.out,
		ErrWriter:             e.Err,
		ExitErrHandler:        func(*cli.Context, error) {},
		HideHelpCommand:       true, // ours has errors like everyone else's
		CustomAppHelpTemplate: appHelp,
		// The commas of --worker and --knob are theirs.
		DisableSliceFlagSeparator: true,
		Commands: []*cli.Command{
			sweepCommand(e), compareCommand(e), reportCommand(e), benchCommand(e), verifyCommand(e),
			mapCommand(e), mergeCommand(e), explainCommand(e), lintCommand(e), listCommand(e), captureCommand(e),
			initCommand(e), gateCommand(e), judgeCommand(e), historyCommand(e), exportCommand(e), selftestCommand(e),
			completionCommand(e), versionCommand(e), workerCommand(e), compileHelperCommand(e), completeCommand(e), helpCommand(e),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("", c.Args().Slice(), c.App.Commands,
					"`normbench help` lists the commands")
			}
			_, err := io.WriteString(e.out, tasks)
			return err
		},
		OnUsageError: usageError,
	}
	for _, c := range app.Commands {
		prepareCommand(c)
	}
	cli.HelpPrinter = e.helpPrinter
	cli.VersionPrinter = func(*cli.Context) { fmt.Fprintln(e.out, versionLine()) }
	cli.HelpFlag = &cli.BoolFlag{Name: "help", Category: catOutput, Aliases: []string{"h"},
		Usage: "show this help", DisableDefaultText: true}
	app.Flags = []cli.Flag{cli.HelpFlag} // cli leaves it out beside a help command of one's own
	return app
}

func helpCommand(e *env) *cli.Command {
	x := &commonFlags{}
	return e.command(&cli.Command{
		Name:      "help",
		Aliases:   []string{"h"},
		Usage:     "list the commands, or show the help of one",
		ArgsUsage: "[COMMAND]",
	}, x, func() error {
		return e.app().RunContext(e.Ctx, slices.Concat([]string{"normbench"}, x.operands, []string{"--help"}))
	})
}

// prepareCommand has a command fail and be helped as all are.
func prepareCommand(c *cli.Command) {
	c.OnUsageError = usageError
	c.HideHelpCommand, c.CustomHelpTemplate = true, commandHelp
	for _, sub := range c.Subcommands {
		prepareCommand(sub)
	}
}

// errHelp tells that --help is among the words: parse returns it.
var errHelp = errors.New("help is asked for")

// parse reads a command's flags, which stand before, among and after its operands, and the
// operands. After "--" everything is an operand. It refuses what would be read as something else: a
// flag of one value that is given twice, and empty values, as of a variable that is not set.
func (x *commonFlags) parse(ctx *cli.Context, c *cli.Command) error {
	help := fmt.Sprintf("`%s --help` lists its flags", c.HelpName)
	x.given = map[string]bool{}
	rest, only := ctx.Args().Slice(), false
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		if only || !strings.HasPrefix(arg, "-") || arg == "-" {
			x.operands = append(x.operands, arg)
			continue
		} else if only = arg == "--"; only {
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if slices.Contains(cli.HelpFlag.Names(), name) && !hasValue {
			return errHelp
		}
		i := slices.IndexFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if i < 0 {
			return hint.Errorf(cmp.Or(flagHint(pathOf(c), name),
				hint.DidYouMean("--"+name, dashedNames(c.Flags), help)), "unknown flag --%s", name)
		}
		_, isBool := c.Flags[i].(*cli.BoolFlag)
		switch {
		case hasValue:
		case isBool:
			value = "true"
		case len(rest) == 0:
			return hint.Errorf(help, "no value for --%s", name)
		default:
			value, rest = rest[0], rest[1:]
		}
		if err := x.set(ctx, c, c.Flags[i], value); err != nil {
			return err
		}
	}
	switch {
	case slices.Contains(x.operands, ""):
		return hint.Errorf("leave it out, or set the variable that it comes from",
			"an operand of %s is empty", pathOf(c))
	case len(x.operands) > 0 && c.ArgsUsage == "":
		return hint.Errorf(fmt.Sprintf("`%s --help` shows its use", c.HelpName),
			"%s takes no operands, got %q", pathOf(c), x.operands[0])
	case len(x.operands) != 1 && x.only != "":
		return hint.Errorf(fmt.Sprintf("`%s --help` has examples", c.HelpName),
			"%s takes %s, got %d", pathOf(c), x.only, len(x.operands))
	}
	return nil
}

// pathOf returns a command's name behind those of its parents: "map learn".
func pathOf(c *cli.Command) string { return strings.TrimPrefix(c.HelpName, "normbench ") }

// set gives a flag a value.
func (x *commonFlags) set(ctx *cli.Context, c *cli.Command, flag cli.Flag, value string) error {
	name := flag.Names()[0]
	_, text := flag.(*cli.StringFlag)
	_, list := flag.(*cli.StringSliceFlag)
	_, isBool := flag.(*cli.BoolFlag)
	words := choices(pathOf(c), name)
	switch {
	case text && value == "":
		return hint.Errorf("give it a value, or leave the flag out", "--%s is empty", name)
	case x.given[name] && !isBool && !list:
		return hint.Errorf("give it once; where it takes several values, they stand with commas",
			"--%s is given twice", name)
	case words != nil && !slices.Contains(words, value):
		return hint.Errorf(hint.DidYouMean(value, words, "use "+strings.Join(words, ", ")),
			"unknown --%s %q", name, value)
	}
	x.given[name] = true
	if err := ctx.Set(name, value); err != nil {
		return hint.Errorf(valueForm(flag), "invalid value %q for --%s", value, name)
	}
	if f, ok := flag.(cli.ActionableFlag); ok {
		return f.RunAction(ctx)
	}
	return nil
}

// valueForm says how a value of a flag is written.
func valueForm(f cli.Flag) string {
	switch f.(type) {
	case *cli.DurationFlag:
		return "write a time with its unit, such as 20s, 5m or 1h30m"
	case *cli.Float64Flag:
		return "write a number, such as 0.8"
	case *cli.Uint64Flag:
		return "write a whole number, 0 or more"
	case *cli.BoolFlag:
		return fmt.Sprintf("write --%[1]s or --%[1]s=false", f.Names()[0])
	}
	return "write a whole number"
}

// usageError puts what the library says of flags before a command into our words.
func usageError(_ *cli.Context, err error, _ bool) error {
	text := strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag --", 1)
	return hint.Errorf("`normbench --help` shows its use", "%s", text)
}
