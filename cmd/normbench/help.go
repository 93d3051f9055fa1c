package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"normbench/report"
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

// A guide is what a command's help has behind its description.
type guide struct {
	examples []string // without "normbench"
	exits    []int    // beside 0 and 2
}

var guides = map[string]guide{
	"sweep": {[]string{
		"sweep --shapes 16384x4096,4096x8192 --op rmsnorm --out out",
		"sweep --device cuda --shapes te --dtype bf16,fp16 --budget 5m --out out",
		"sweep --shapes 16x4096 --family rms_bwd/reg_persist --knob p=1,2,3 --op rmsnorm --pass bwd --dry-run",
	}, []int{exitSignal}},
	"compare": {[]string{
		"compare results/nvidia-h200#base results/nvidia-h200 --shapes fast-llm",
		"compare rms_bwd/two_pass rms_bwd/reg_persist --shapes 32x1024 --op rmsnorm --pass bwd",
		"compare base base --baseline-kernels out/main/kernels/families --gate --device cuda --shapes fast-llm",
	}, []int{exitGate, exitUnclear, exitUnfit, exitWrong, exitSignal}},
	"report": {[]string{
		"report results/nvidia-h200/peers/layernorm-bwd.json.gz --shapes fast-llm",
		"report results/nvidia-h200 --op rmsnorm --shapes quack --over M --html rows.html",
	}, nil},
	"bench": {[]string{
		"bench base rms_bwd/two_pass@br2 --op rmsnorm --pass bwd --shapes 64x1024",
		"bench base peer:best --device cuda --shapes growth-rows --out out/growth",
	}, []int{exitGate, exitSignal}},
	"verify": {[]string{
		"verify --shapes odd --op layernorm --pass fwd",
		"verify preset:quack-101 --shapes 64x1024 --op rmsnorm",
		"verify peer:best --device cuda --shapes fast-llm",
	}, []int{exitGate, exitUnclear, exitSignal}},
	"tune": {[]string{
		"tune results/nvidia-h200/learn --out out/tuned.json --plot out/map.svg",
		"tune results/nvidia-h200/learn --wide",
	}, nil},
	"learn": {[]string{
		"learn --device cuda --budget 20m --op rmsnorm,layernorm --pass fwd,bwd",
		"learn --device cpu --budget 30s --domain M=1:256,N=64:1Ki --op rmsnorm --pass fwd --out out",
	}, []int{exitSignal}},
	"rule": {[]string{
		"rule base --columns 4096 --op rmsnorm --pass bwd",
		"rule base --columns 4096,8192 --op rmsnorm --pass bwd --export python",
		"rule base --export cpp --out out/launch.hpp",
	}, nil},
	"explain": {[]string{
		"explain 4096x8192",
		"explain 1024x8192 --tuned results/nvidia-h200/tuned.json",
		"explain rmsnorm/bwd/4096x8192/bf16 --device b200",
	}, nil},
	"lint": {[]string{
		"lint results/nvidia-h200/tuned.json",
		"lint out/tuned.json",
	}, []int{exitGate}},
	"list": {[]string{
		"list kernels",
		"list shapes --shapes te",
		"list configs --family rms_bwd/reg_persist --problem rmsnorm/bwd/4096x8192/bf16 --device h200",
	}, nil},
	"list kernels": {[]string{
		"list kernels",
		"list kernels --kernels examples/kernels --format csv",
	}, nil},
	"list presets": {[]string{
		"list presets",
		"list presets --format json",
	}, nil},
	"list peers": {[]string{
		"list peers",
		"list peers --python venv/bin/python",
	}, nil},
	"list knobs": {[]string{
		"list knobs",
		"list knobs --columns key,name,meaning",
	}, nil},
	"list shapes": {[]string{
		"list shapes",
		"list shapes --shapes te --format csv",
	}, nil},
	"list devices": {[]string{
		"list devices",
		"list devices --wide",
	}, nil},
	"list configs": {[]string{
		"list configs --family rms_bwd/reg_persist --problem rmsnorm/bwd/4096x8192/bf16 --device h200",
		"list configs --family rms_warp --kernels examples/kernels --problem rmsnorm/fwd/4096x4096/bf16 --device h200 --plans",
	}, nil},
	"export": {[]string{
		"export results/nvidia-h200 --format kt-cache --out out/caches",
		"export results/nvidia-h200 --format benchfmt",
	}, nil},
	"selftest": {[]string{
		"selftest",
		"selftest --device cuda",
	}, []int{exitUnfit}},
	"judge": {[]string{
		"judge rounds.csv",
		"judge --format json rounds.json",
	}, nil},
	"worker": {[]string{
		"worker --device cuda:0",
		"sweep --worker 'ssh gpu1 normbench worker --device cuda:0' --shapes fast-llm",
	}, nil},
	helperCommand: {[]string{
		"compile-helper libnvrtc.so.13",
		"compile-helper /usr/local/cuda/lib64/libnvrtc.so",
	}, nil},
	"completion": {[]string{
		"completion bash",
		"completion fish",
	}, nil},
}

var exitWords = map[int]string{
	0: "done", exitGate: "a gate failed: a regression, a shape below --at-least, a wrong result, or a finding",
	exitTrouble: "wrong usage, or any other error", exitUnclear: "inconclusive, with --strict; or verify did not run a kernel of yours",
	exitUnfit: "the machine is unfit to measure on", exitWrong: "a compared kernel answers wrong",
	exitSignal: "interrupted, with the work kept",
}

// The groups of flags in a help, in order; the rest is with the last but one.
var flagGroups = []struct {
	title string
	names []string
}{
	{"WHAT", []string{"shapes", "op", "pass", "dtype", "weight-dtype", "bias", "zero-centered", "no-weight", "residual", "quant", "accumulate",
		"family", "knob", "kernels", "include", "baseline-kernels", "problem", "columns", "rows", "tuned", "peers", "python", "keep", "all-candidates", "all-configs", "over", "live"}},
	{"WHERE", []string{"device", "worker", "timeout", "peer-jobs"}},
	{"HOW LONG AND HOW", []string{"samples", "warm", "rotate", "rounds", "order", "budget", "strategy", "finals", "repeats", "hostile", "seed", "seeds", "quick",
		"retry-failed", "dry-run", "min-effect", "gate", "strict", "at-least", "force", "plans"}},
	{"OUTPUT", []string{"out", "resume", "format", "export", "plot", "html", "title", "wide", "width", "color", "help"}},
}

// setHelp writes the help of a command and of those below it.
func (e *env) setHelp(c *cli.Command, parent string) {
	path := parent + " " + c.Name
	for _, sub := range c.Subcommands {
		e.setHelp(sub, path)
	}
	c.CustomHelpTemplate = help(c, path, e.helpWidth())
}

// helpWidth is the terminal's, but no less than 60.
func (e *env) helpWidth() int {
	width, _ := terminalWidth(e.raw)
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return max(width, 60)
}

// helpTable has names in a column of their own, and beside it what they mean.
func helpTable(rows [][2]string, width int) (lines []string) {
	wide := 0
	for _, r := range rows {
		wide = max(wide, utf8.RuneCountInString(r[0]))
	}
	wide = min(wide, 24)
	for _, r := range rows {
		name := r[0]
		if utf8.RuneCountInString(name) > wide {
			lines = append(lines, name)
			name = ""
		}
		for i, text := range report.Wrap(r[1], max(30, width-wide-5)) {
			if i > 0 {
				name = ""
			}
			lines = append(lines, fmt.Sprintf("%-*s  %s", wide, name, text))
		}
	}
	return lines
}

// folded is a command on lines of a width, each but the last with a backslash behind it. It breaks before flags.
func folded(text string, width int) (lines []string) {
	for utf8.RuneCountInString(text) > width {
		at := strings.LastIndex(text[:width-2], " --")
		if at <= 4 { // it is the line's own indent
			break
		}
		lines, text = append(lines, text[:at]+" \\"), "    "+text[at+1:]
	}
	return append(lines, text)
}

// appHelp is the text of `normbench help`.
func appHelp(app *cli.App, width int) string {
	var rows [][2]string
	for _, c := range app.Commands {
		rows = append(rows, [2]string{c.Name, c.Usage})
	}
	return "normbench - " + app.Usage + "\n\nUSAGE:\n   normbench COMMAND [flags] [operands]\n\nCOMMANDS:\n   " +
		strings.Join(helpTable(rows, width), "\n   ") +
		"\n\nFLAGS:\n   --help, -h     show this help\n   --version, -v  print the version\n\n" +
		"`normbench COMMAND --help` has examples, every flag and the exit codes.\n"
}

// help is the text of a command's help. It is a template without anything to fill in.
func help(c *cli.Command, path string, width int) string {
	var b strings.Builder
	section := func(title string, lines ...string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, l := range lines {
			fmt.Fprintf(&b, "   %s\n", l)
		}
	}
	table := func(rows [][2]string) []string { return helpTable(rows, width) }
	fmt.Fprintln(&b, strings.Join(report.Wrap(path+" - "+c.Usage, width), "\n"))
	usage := path + " [flags]"
	if c.ArgsUsage != "" {
		usage = path + " [flags] " + c.ArgsUsage
	} else if len(c.Subcommands) > 0 {
		usage = path + " COMMAND [flags]"
	}
	section("USAGE", usage)
	if c.Description != "" {
		var lines []string
		for para := range strings.SplitSeq(c.Description, "\n\n") {
			if lines != nil {
				lines = append(lines, "")
			}
			lines = append(lines, report.Wrap(para, width-3)...)
		}
		section("DESCRIPTION", lines...)
	}
	var rows [][2]string
	for _, sub := range c.Subcommands {
		rows = append(rows, [2]string{sub.Name, sub.Usage})
	}
	section("COMMANDS", table(rows)...)
	g := guides[strings.TrimPrefix(path, "normbench ")]
	var lines []string
	for _, x := range g.examples {
		lines = append(lines, folded("normbench "+x, width-3)...)
	}
	section("EXAMPLES", lines...)
	for i, group := range flagGroups {
		var rows [][2]string
		for _, f := range c.Flags {
			name := f.Names()[0]
			at := slices.IndexFunc(flagGroups, func(g struct {
				title string
				names []string
			}) bool {
				return slices.Contains(g.names, name)
			})
			if at < 0 {
				at = len(flagGroups) - 2
			}
			// --columns are a matrix's in rule, a table's elsewhere.
			if name == "columns" && c.Name != "rule" {
				at = len(flagGroups) - 1
			}
			if at == i {
				name, text, _ := strings.Cut(f.String(), "\t")
				if short, _, ok := strings.Cut(name, " [ "); ok {
					name = short
				}
				rows = append(rows, [2]string{name, strings.TrimSuffix(text, " (default: false)")})
			}
		}
		if i == len(flagGroups)-1 && !slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "help") }) {
			rows = append(rows, [2]string{"--help, -h", "show this help"})
		}
		section(group.title, table(rows)...)
	}
	rows = nil
	for _, code := range slices.Sorted(slices.Values(append([]int{0, exitTrouble}, g.exits...))) {
		rows = append(rows, [2]string{strconv.Itoa(code), exitWords[code]})
	}
	section("EXIT CODES", table(rows)...)
	return b.String()
}
