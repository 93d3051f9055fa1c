package shapes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/textfile"
	"normbench/kernels"
)

// A hookOutput is the file that the capture's hook writes for one process of the captured program.
type hookOutput struct {
	Rank     int
	Steps    int // of the optimizer
	Norms    []hookNorm
	Others   []hookOther
	Unseen   map[string]int // by Python class: how many modules' forward was not called
	Compiled int            // frames that torch.compile compiled
}

// A hookNorm counts the calls of one norm with one kind of input.
type hookNorm struct {
	Op, Pass, DType, Weight string
	Module                  string `json:"class"` // its Python class: LlamaRMSNorm
	M, N                    int64
	Bias, Residual          bool
	ZeroCentered            bool    `json:"zero_centered"`
	Sigmoid                 bool    // of a gated norm: its gate is a sigmoid, not SiLU
	GateFirst               bool    `json:"gate_first"` // and multiplies what is normalized
	Strides                 []int64 // none where the input is contiguous
	Calls                   int
}

// A hookOther counts calls of a norm that no problem describes, and says why.
type hookOther struct {
	Module string `json:"class"` // its Python class
	Why    string
	Calls  int
}

// problem converts a norm that the hook saw to a problem; it fails where normbench has no such problem.
func (n *hookNorm) problem() (p kernels.Problem, err error) {
	p = kernels.Problem{Op: kernels.Op(n.Op), Pass: kernels.Pass(n.Pass), M: n.M, N: n.N, Bias: n.Bias,
		Residual: n.Residual, ZeroCentered: n.ZeroCentered, Sigmoid: n.Sigmoid, GateFirst: n.GateFirst}
	if p.DType, err = kernels.ParseDType(n.DType); err != nil {
		return p, err
	}
	p.Weight, p.NoWeight = p.DType, n.Weight == "" && p.Op.Spec().Weight
	if n.Weight != "" {
		if p.Weight, err = kernels.ParseDType(n.Weight); err != nil {
			return p, err
		}
	}
	return p, p.Validate()
}

// A Capture holds the norms that a captured program ran, by rank, as text of a shapes file.
type Capture struct {
	Notes []string // what a person should know
	Calls int      // of problems, over all ranks
	text  []byte
}

// Text returns the capture as the text of a shapes file, which --shapes reads.
func (c *Capture) Text() []byte { return c.text }

// A rankedProblem is a problem that one rank has run, with the module and the strides of its input.
type rankedProblem struct {
	problem, module, strides string
}

// A rank holds what all processes of one rank have run.
type rank struct {
	number, steps int
	calls         map[rankedProblem]int
}

// ReadCapture reads the files that the hook wrote to dir, one for each process of a program, and merges
// them into a capture. Ranks that ran the same problems become one group, named after the first of them.
// command is the captured command line.
func ReadCapture(dir, command string) (*Capture, error) {
	files, err := filepath.Glob(filepath.Join(dir, "seen.*.json"))
	if err != nil {
		return nil, err
	}
	c := &Capture{}
	ranks := map[int]*rank{}
	others, unseen, compiled := map[hookOther]int{}, map[string]int{}, 0
	for _, file := range files {
		text, err := textfile.Read(file, textfile.Large)
		if err != nil {
			return nil, err
		}
		var s hookOutput
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		r := ranks[s.Rank]
		if r == nil {
			r = &rank{number: s.Rank, calls: map[rankedProblem]int{}}
			ranks[s.Rank] = r
		}
		r.steps = max(r.steps, s.Steps)
		for _, n := range s.Norms {
			p, err := n.problem()
			if err != nil {
				others[hookOther{Module: n.Module, Why: err.Error()}] += n.Calls
				continue
			}
			e := rankedProblem{problem: p.String(), module: n.Module}
			if len(n.Strides) > 0 {
				e.strides = strings.ReplaceAll(fmt.Sprint(n.Strides), " ", ", ")
			}
			r.calls[e] += n.Calls
			c.Calls += n.Calls
		}
		for _, o := range s.Others {
			others[hookOther{Module: o.Module, Why: o.Why}] += o.Calls
		}
		compiled = max(compiled, s.Compiled)
		for module, n := range s.Unseen {
			unseen[module] = max(unseen[module], n)
		}
	}
	groups := groupRanks(ranks)
	c.note(groups, len(ranks), others, unseen, compiled)
	c.write(groups, command)
	return c, nil
}

// groupRanks groups the ranks that ran the same problems in as many steps. It leaves out ranks without
// calls.
func groupRanks(ranks map[int]*rank) (groups [][]*rank) {
	for _, i := range slices.Sorted(maps.Keys(ranks)) {
		r := ranks[i]
		if len(r.calls) == 0 {
			continue
		}
		k := slices.IndexFunc(groups, func(g []*rank) bool {
			return g[0].steps == r.steps && maps.Equal(g[0].calls, r.calls)
		})
		if k < 0 {
			groups = append(groups, []*rank{r})
		} else {
			groups[k] = append(groups[k], r)
		}
	}
	return groups
}

// note adds notes for a person: what each group of ranks ran, which calls no problem describes, and
// which modules the hook could not see.
func (c *Capture) note(groups [][]*rank, ranks int, others map[hookOther]int, unseen map[string]int, compiled int) {
	add := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	for _, g := range groups {
		prefix, calls := "", 0
		if ranks > 1 {
			prefix = nameRanks(g) + ": "
		}
		problems := map[string]bool{}
		for e, n := range g[0].calls {
			problems[e.problem] = true
			calls += n
		}
		in := console.Count(g[0].steps, "step")
		if g[0].steps == 0 {
			in = "a run without an optimizer's step, which counts as one step"
		}
		add("%s%s, %s in %s", prefix, console.Count(len(problems), "problem"), console.Count(calls, "call"), in)
	}
	for _, o := range slices.SortedFunc(maps.Keys(others), func(a, b hookOther) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Why, b.Why))
	}) {
		add("not mapped: %s, %s: %s", o.Module, console.Count(others[o], "call"), console.OneLine(o.Why))
	}
	var counts []string
	for _, module := range slices.Sorted(maps.Keys(unseen)) {
		counts = append(counts, fmt.Sprintf("%d of %s", unseen[module], module))
	}
	list := strings.Join(counts, ", ")
	switch {
	case compiled > 0 && list == "":
		add("torch.compile took %s; norms in them are not seen: TORCHDYNAMO_DISABLE=1 runs all without it",
			console.Count(compiled, "frame"))
	case compiled > 0:
		add("not seen, as torch.compile took their forward or it was not called: modules %s; "+
			"TORCHDYNAMO_DISABLE=1 runs all without it", list)
	case list != "":
		add("not seen, as their forward was not called or was replaced: modules %s", list)
	}
}

// nameRanks names the ranks of a group: "rank 0", "ranks 0-3, 6".
func nameRanks(g []*rank) string {
	var parts []string
	for i := 0; i < len(g); i++ {
		j := i
		for j+1 < len(g) && g[j+1].number == g[j].number+1 {
			j++
		}
		part := fmt.Sprint(g[i].number)
		if j > i {
			part += fmt.Sprintf("-%d", g[j].number)
		}
		parts, i = append(parts, part), j
	}
	word := "rank"
	if len(g) > 1 {
		word = "ranks"
	}
	return word + " " + strings.Join(parts, ", ")
}

// write fills in the capture's text: a shapes file with a group of problems for each group of ranks.
func (c *Capture) write(groups [][]*rank, command string) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# normbench capture -- %s", console.OneLine(command))
	for _, n := range c.Notes {
		line("# %s", console.OneLine(n))
	}
	for _, g := range groups {
		name := "step"
		if len(groups) > 1 {
			name = fmt.Sprintf("rank%d", g[0].number)
		}
		line("%s:", name)
		if g[0].steps > 0 {
			line("  steps: %d", g[0].steps)
		}
		line("  problems:")
		for _, e := range slices.SortedFunc(maps.Keys(g[0].calls), compareProblemsOfRanks) {
			strides := ""
			if e.strides != "" {
				strides = ", strides: " + e.strides
			}
			line("    - {problem: %s, calls: %d, class: %q%s}", e.problem, g[0].calls[e], e.module, strides)
		}
	}
	c.text = []byte(b.String())
}

// compareProblemsOfRanks orders problems as people look for them: forward first, by op, then the largest
// first.
func compareProblemsOfRanks(a, b rankedProblem) int {
	p, _ := kernels.ParseProblem(a.problem) // Problem.String wrote both
	q, _ := kernels.ParseProblem(b.problem)
	return cmp.Or(cmp.Compare(q.Pass, p.Pass), cmp.Compare(p.Op, q.Op), cmp.Compare(q.M*q.N, p.M*p.N),
		cmp.Compare(a.problem, b.problem), cmp.Compare(a.module, b.module), cmp.Compare(a.strides, b.strides))
}

// CaptureFailure reads the files that the hook leaves when it could not capture a program. python is the
// interpreter without PyTorch, failed the hook's error; both are "" where all went well. torch says
// whether PyTorch was imported.
func CaptureFailure(dir string) (python, failed string, torch bool) {
	read := func(name string) (string, bool) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		return console.OneLine(string(text)), err == nil
	}
	python, _ = read("notorch")
	failed, _ = read("failed")
	_, torch = read("torch")
	return python, failed, torch
}
