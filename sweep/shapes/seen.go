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

// A hookOutput is what the hook of a capture writes of a process.
type hookOutput struct {
	Rank     int
	Steps    int // of the optimizer
	Norms    []hookNorm
	Others   []hookOther
	Unseen   map[string]int // modules of a class whose forward was not called
	Compiled int            // frames that torch.compile compiled
}

type hookNorm struct {
	Op, Pass, DType, Weight, Class string
	M, N                           int64
	Bias, Residual                 bool
	ZeroCentered                   bool `json:"zero_centered"`
	Strides                        []int64
	Calls                          int
}

// A hookOther counts calls that are no problem.
type hookOther struct {
	Class, Why string
	Calls      int
}

// problem is a norm as a problem.
func (n *hookNorm) problem() (p kernels.Problem, err error) {
	p = kernels.Problem{Op: kernels.Op(n.Op), Pass: kernels.Pass(n.Pass), M: n.M, N: n.N, Bias: n.Bias,
		Residual: n.Residual, ZeroCentered: n.ZeroCentered}
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

// A Capture is what was seen of a program.
type Capture struct {
	Notes []string // what a person should know
	Calls int      // of problems, over all ranks
	text  []byte
}

// Text is the capture as a file of shapes.
func (c *Capture) Text() []byte { return c.text }

// A rankedProblem is a problem that one rank has met.
type rankedProblem struct {
	problem, class, strides string
}

// A rank is what its processes have seen.
type rank struct {
	number, steps int
	calls         map[rankedProblem]int
}

// ReadCapture merges what the processes of a program wrote to a folder. Ranks that ran the same are one
// group, named after the first of them.
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
				others[hookOther{Class: n.Class, Why: err.Error()}] += n.Calls
				continue
			}
			e := rankedProblem{problem: p.String(), class: n.Class}
			if len(n.Strides) > 0 {
				e.strides = strings.ReplaceAll(fmt.Sprint(n.Strides), " ", ", ")
			}
			r.calls[e] += n.Calls
			c.Calls += n.Calls
		}
		for _, o := range s.Others {
			others[hookOther{Class: o.Class, Why: o.Why}] += o.Calls
		}
		compiled = max(compiled, s.Compiled)
		for class, n := range s.Unseen {
			unseen[class] = max(unseen[class], n)
		}
	}
	groups := groupsOf(ranks)
	c.note(groups, len(ranks), others, unseen, compiled)
	c.write(groups, command)
	return c, nil
}

// groupsOf are the ranks that have calls, those alike together.
func groupsOf(ranks map[int]*rank) (groups [][]*rank) {
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

// note says what was seen, and what not.
func (c *Capture) note(groups [][]*rank, ranks int, others map[hookOther]int, unseen map[string]int, compiled int) {
	add := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	for _, g := range groups {
		of, calls := "", 0
		if ranks > 1 {
			of = numbersOf(g) + ": "
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
		add("%s%s, %s in %s", of, console.Count(len(problems), "problem"), console.Count(calls, "call"), in)
	}
	for _, o := range slices.SortedFunc(maps.Keys(others), func(a, b hookOther) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Why, b.Why))
	}) {
		add("not mapped: %s, %s: %s", o.Class, console.Count(others[o], "call"), console.OneLine(o.Why))
	}
	var left []string
	for _, class := range slices.Sorted(maps.Keys(unseen)) {
		left = append(left, fmt.Sprintf("%d of %s", unseen[class], class))
	}
	list := strings.Join(left, ", ")
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

// numbersOf are the ranks of a group: "rank 0", "ranks 0-3, 6".
func numbersOf(g []*rank) string {
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

// write makes the file of shapes: a group for each kind of ranks.
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
		for _, e := range slices.SortedFunc(maps.Keys(g[0].calls), compareEntries) {
			strides := ""
			if e.strides != "" {
				strides = ", strides: " + e.strides
			}
			line("    - {problem: %s, calls: %d, class: %q%s}", e.problem, g[0].calls[e], e.class, strides)
		}
	}
	c.text = []byte(b.String())
}

// compareEntries orders problems by pass and size, as people look for them.
func compareEntries(a, b rankedProblem) int {
	p, _ := kernels.ParseProblem(a.problem) // Problem.String wrote both
	q, _ := kernels.ParseProblem(b.problem)
	return cmp.Or(cmp.Compare(q.Pass, p.Pass), cmp.Compare(p.Op, q.Op), cmp.Compare(q.M*q.N, p.M*p.N),
		cmp.Compare(a.problem, b.problem), cmp.Compare(a.class, b.class), cmp.Compare(a.strides, b.strides))
}

// CaptureFailure says what kept a program from being captured, as the hook noted it: "" where it was not kept.
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
