package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
)

// tasks is what normbench says when it is called alone.
const tasks = `normbench tunes and benchmarks GPU normalization kernels:
RMSNorm and LayerNorm, forward and backward.

Tune my shapes
   normbench sweep --shapes 16384x4096,4096x8192 --out out
Tune the norms of my model
   normbench sweep --model llama3-8b --tokens 8192 --tp 8 --device cuda --out out
Compare in a pull request (docs/gate.md has the workflow)
   normbench gate --kernels mykernels --base origin/main
My own kernel
   normbench verify --kernels examples/kernels --shapes 64x256 --op rmsnorm
A new GPU
   normbench selftest --device cuda
   normbench map learn --device cuda --budget 20m --out out --html out/map.html
Against other libraries
   normbench compare peer:best base --device cuda --shapes peers

A first look, in a clone, without a GPU: recorded against other libraries
   normbench report results/nvidia-h200/peers/layernorm-bwd.json.gz
A first try, on this machine's CPU, in about half a minute:
   normbench sweep --out out
All commands: normbench help. One of them: normbench COMMAND --help
`

// examples are two or three of each command, without "normbench".
const examples = `
sweep --shapes 16384x4096,4096x8192 --op rmsnorm --out out
sweep --device cuda --shapes te --dtype bf16,fp16 --budget 5m --shard 3/8 --out out
sweep --shapes 16x4096 --family rms_bwd/reg_persist --knob p=1,2,3 --op rmsnorm --pass bwd --dry-run
compare results/nvidia-h200#base results/nvidia-h200 --shapes fast-llm
compare rms_bwd/two_pass rms_bwd/reg_persist --shapes 32x1024 --op rmsnorm --pass bwd
compare base base --baseline-kernels out/main/kernels/families --gate --device cuda --shapes fast-llm
report results/nvidia-h200/peers/layernorm-bwd.json.gz --shapes fast-llm
report results/nvidia-h200 --op rmsnorm --shapes quack --html rows.html
bench base rms_bwd/two_pass@br2 --op rmsnorm --pass bwd --shapes 64x1024
bench base peer:best --device cuda --shapes growth-rows --out out/growth
verify --shapes odd --op layernorm --pass fwd
verify preset:quack-101 --shapes 64x1024 --op rmsnorm
verify peer:best --device cuda --shapes fast-llm
map fill results/nvidia-h200/learn --out out/tuned.json
map fill results/nvidia-h200/learn --format csv
map learn --device cuda --budget 20m --op rmsnorm,layernorm --pass fwd,bwd
map learn --device cpu --budget 30s --domain M=1:256,N=64:1Ki --op rmsnorm --pass fwd --out out
map show base --widths 4096 --op rmsnorm --pass bwd
map show tuned:results/nvidia-h200/tuned.json --widths 4096,8192
map export base --widths 4096,8192 --op rmsnorm --pass bwd --format python
map export base --format cpp --out out/launch.hpp
merge out/tuned.json results/nvidia-h200/tuned.json --out out/both.json
merge out
explain 4096x8192
explain rmsnorm/bwd/64x1024/bf16 --measure
explain rmsnorm/bwd/4096x8192/bf16 --device b200
lint results/nvidia-h200/tuned.json
lint results/*/tuned.json
list families
list families --kernels examples/kernels --format csv
list presets
list presets --format json
list peers
list peers --python venv/bin/python
list knobs
list knobs --columns key,name,meaning
list shapes
list shapes --shapes te --format csv
list models
list models --model llama3-8b --tokens 8192 --tp 8
list devices
list devices --wide
list configs --family rms_bwd/reg_persist --problem rmsnorm/bwd/4096x8192/bf16 --device h200
list configs --kernels examples/kernels --family rms_warp --problem rmsnorm/fwd/64x256/bf16 --device h200 --plans
init triton examples/triton/rms.py:rms_forward
init triton liger_kernel.ops.rms_norm:_rms_norm_forward_kernel --python venv/bin/python
capture --out shapes.yaml -- python train.py --steps 20
capture --steps 3 --out shapes.yaml -- torchrun --nproc-per-node 8 train.py
gate --kernels mykernels --base origin/main --shapes 8192x4096
gate --kernels examples/kernels --device cpu --shapes 64x256 --op rmsnorm --pass fwd --out out/gate
export results/nvidia-h200 --format kt-cache --out out/caches
export results/nvidia-h200 --format benchfmt
selftest
selftest --device cuda
judge rounds.csv
judge --gate rounds.csv
judge --format json rounds.csv
history --since 10 --html out/history.html
history --format github-action-benchmark
history add results/nvidia-h200/peers/rmsnorm-fwd.json.gz --file out/history.jsonl
history add out --commit 1f439e0
completion bash
completion zsh
version
version --quiet
complete -- 'normbench compare --sh'
complete -- 'normbench '
worker --device cuda:0
worker --device cpu
compile-helper libnvrtc.so.13
compile-helper /usr/local/cuda/lib64/libnvrtc.so
`

// exits are a command's exit codes beside 0 and 2.
var exits = map[string][]int{
	"sweep":     {exitUnfit, exitSignal},
	"compare":   {exitGate, exitUnclear, exitUnfit, exitWrong, exitSignal},
	"gate":      {exitGate, exitUnclear, exitUnfit, exitWrong, exitSignal},
	"bench":     {exitGate, exitUnfit, exitSignal},
	"verify":    {exitGate, exitUnclear, exitSignal},
	"map learn": {exitUnfit, exitSignal},
	"lint":      {exitGate},
	"judge":     {exitGate},
	"explain":   {exitGate, exitSignal},
	"selftest":  {exitUnfit},
}

var exitWords = map[int]string{
	0:           "done",
	exitGate:    "a gate failed: a regression, a wrong result, or a finding",
	exitTrouble: "wrong usage, or any other error",
	exitUnclear: "inconclusive, where a gate is strict; or verify did not run a kernel of yours",
	exitUnfit:   "the machine is unfit to measure on, or something is left unmeasured",
	exitWrong:   "a compared kernel answers wrong",
	exitSignal:  "interrupted, with the work kept",
}

// Categories of flags; what has none is of catHow.
const (
	catWhat   = "WHAT"
	catWhere  = "WHERE"
	catHow    = "HOW LONG AND HOW"
	catOutput = "OUTPUT"
)

const commandHelp = `{{fold (print .HelpName " - " .Usage) 0}}

USAGE:
   {{.HelpName}} {{if .Subcommands}}{{if .SkipFlagParsing}}[COMMAND]{{else}}COMMAND{{end}} {{end}}[flags]{{with .ArgsUsage}} {{.}}{{end}}
{{with .Description}}
DESCRIPTION:
   {{fold . 3}}
{{end}}{{with .VisibleCommands}}
COMMANDS:{{range .}}
   {{row 12 .Name .Usage}}{{end}}
{{end}}
EXAMPLES:{{range examples .}}
   {{.}}{{end}}
{{range groups .}}
{{.Title}}:{{range .Flags}}
   {{flag .}}{{end}}
{{end}}
EXIT CODES:{{range exits .}}
   {{.}}{{end}}
`

const appHelp = `normbench - {{.Usage}}

USAGE:
   normbench COMMAND [flags] [operands]

COMMANDS:{{range .VisibleCommands}}
   {{row 12 .Name .Usage}}{{end}}

FLAGS:
   --help, -h     show this help
   --version, -v  print the version
   --quiet        behind a command: no notes and no progress, errors alone

` + "`normbench COMMAND --help` has examples, every flag and the exit codes.\n"

// A flagGroup is the flags of a category.
type flagGroup struct {
	Title string
	Flags []cli.Flag
}

// helpPrinter prints help, no wider than the terminal.
func (e *env) helpPrinter(w io.Writer, template string, data any) {
	width, _ := e.width()
	width = max(width, 60)
	wrap := func(text string, indent int) string {
		return strings.Join(console.Wrap(text, width-indent), "\n"+strings.Repeat(" ", indent))
	}
	row := func(column int, name, text string) string { // a name and, beside it, what it means
		if utf8.RuneCountInString(name) > column {
			name += "\n" + strings.Repeat(" ", 3+column)
		}
		return fmt.Sprintf("%-*s  %s", column, name, wrap(text, 5+column))
	}
	cli.HelpPrinterCustom(w, template, data, map[string]any{
		"row": row,
		"fold": func(text string, indent int) string {
			paras := strings.Split(text, "\n\n")
			for i, p := range paras {
				paras[i] = wrap(p, indent)
			}
			return strings.Join(paras, "\n\n"+strings.Repeat(" ", indent))
		},
		"examples": func(c *cli.Command) (lines []string) {
			path := strings.TrimPrefix(c.HelpName, "normbench ")
			for _, x := range strings.Split(examples, "\n") {
				if strings.HasPrefix(x+" ", path+" ") && len(lines) < 3 {
					lines = append(lines, foldCommand("normbench "+x, width-3))
				}
			}
			return lines
		},
		"groups": flagGroups,
		"flag": func(f cli.Flag) string {
			name, text, _ := strings.Cut(f.String(), "\t")
			name, _, _ = strings.Cut(name, " [ ")
			return row(24, name, strings.TrimSuffix(text, " (default: false)"))
		},
		"exits": func(c *cli.Command) (lines []string) {
			codes := append([]int{0, exitTrouble}, exits[strings.TrimPrefix(c.HelpName, "normbench ")]...)
			slices.Sort(codes)
			for _, code := range codes {
				lines = append(lines, row(3, strconv.Itoa(code), exitWords[code]))
			}
			return lines
		},
	})
}

// flagGroups are a command's flags by category. (The library sorts them by name.)
func flagGroups(c *cli.Command) (groups []flagGroup) {
	for _, title := range []string{catWhat, catWhere, catHow, catOutput} {
		g := flagGroup{Title: title}
		for _, f := range c.VisibleFlags() {
			if cmp.Or(f.(cli.CategorizableFlag).GetCategory(), catHow) == title {
				g.Flags = append(g.Flags, f)
			}
		}
		if len(g.Flags) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
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
