package peers

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families/reference"
)

func matches(re, s string) bool { return regexp.MustCompile(re).MatchString(s) }

// A fixture is a problem as package reference has it, for peers.py to meet: its
// inputs to the bit, its answers and what an output may err.
type fixture struct {
	Problem    kernels.Problem           `json:"problem"`
	Seed       uint64                    `json:"seed"`
	Draw       kernels.Draw              `json:"draw"`
	From       int64                     `json:"from,omitempty"`
	Inputs     map[string]string         `json:"inputs"`  // the bits of all elements, in hexadecimal
	Answers    map[string]string         `json:"answers"` // float64, as text, one after a space
	Scale      map[string][]float64      `json:"scale"`   // by row
	Tolerances map[string]map[string]any `json:"tolerances"`
}

var fixtures = []struct {
	problem string
	seed    uint64
	draw    kernels.Draw
	from    int64
}{
	// a seed with more bits than an int64 or a float64 would keep
	{"rmsnorm/fwd/5x33/bf16", 1<<63 + 12345, kernels.DrawUnit, 0},
	{"rmsnorm/bwd/19x33/fp16", 7, kernels.DrawUnit, 0},
	{"layernorm/fwd/9x17/fp32+bias", 1, kernels.DrawUnit, 0},
	{"layernorm/bwd/9x17/bf16-wfp32+bias", 2, kernels.DrawMean, 0},
	{"rmsnorm/bwd/4x8/bf16+noweight+residual", 3, kernels.DrawLarge, 0},
	{"rmsnorm/fwd/17x8/fp32+zc+residual", 4, kernels.DrawUnit, 0},
	{"layernorm/fwd/2x8/fp16+bias", 5, kernels.DrawMean, 0},
	{"layernorm/bwd/2x8/fp16+bias", 1<<62 + 5, kernels.DrawTiny, 0},
	{"rmsnorm/bwd/2x8/bf16", 5, kernels.DrawZeros, 0},
	{"rmsnorm/fwd/16x9/bf16", 5, kernels.DrawExtreme, 0},
	{"layernorm/bwd/16x9/fp16+bias", 6, kernels.DrawExtreme, 0},
	{"rmsnorm/fwd/16x9/bf16", 5, kernels.DrawNonFinite, 0},
	{"layernorm/bwd/16x9/fp16+bias", 6, kernels.DrawNonFinite, 0},
	{"rmsnormgated/fwd/9x17/bf16+sigmoid", 8, kernels.DrawUnit, 0},
	{"layernormgated/fwd/9x17/fp16+bias+gatefirst", 9, kernels.DrawUnit, 0},
	{"rmsnormgated/bwd/9x17/fp32", 10, kernels.DrawUnit, 0},
	{"layernormgated/bwd/9x17/bf16-wfp32+bias", 11, kernels.DrawMean, 0},
	{"layernormgated/bwd/9x17/fp32+bias+zc+gatefirst", 12, kernels.DrawUnit, 0},
	{"rmsnormgated/bwd/2x8/fp16+nodw+sigmoid+gatefirst", 13, kernels.DrawLarge, 0},
	{"layernormgated/bwd/16x9/bf16+bias+sigmoid", 14, kernels.DrawExtreme, 0},
	{"rmsnormgated/bwd/16x9/bf16", 15, kernels.DrawNonFinite, 0},
	{"layernorm/bwd/3x9/bf16-wfp32+bias+residual", 16, kernels.DrawPlain, 5},
}

func fixtureOf(t *testing.T, text string, draw kernels.Inputs) fixture {
	p := devicetest.Problem(t, text)
	f := fixture{Problem: p, Seed: draw.Seed, Draw: draw.Draw, From: draw.From, Inputs: map[string]string{}, Answers: map[string]string{},
		Scale: map[string][]float64{}, Tolerances: map[string]map[string]any{}}
	mem := reference.Inputs(p, draw)
	for name, m := range mem {
		var b strings.Builder
		for bits := range slices.Chunk(m.Bytes, int(m.DType.Size())) {
			slices.Reverse(bits) // the host's are the other way around
			fmt.Fprintf(&b, "%x", bits)
			slices.Reverse(bits)
		}
		f.Inputs[name] = b.String()
	}
	ans := reference.ComputeGroundTruth(p, mem)
	for _, tensor := range p.Tensors() {
		if tensor.Role != kernels.Output || tensor.Name == "rstd" || tensor.Name == "mean" {
			continue // no peer hands out its statistics
		}
		var b strings.Builder
		for _, v := range ans.Values[tensor.Name] {
			fmt.Fprintf(&b, "%.17g ", v)
		}
		f.Answers[tensor.Name] = b.String()
		f.Scale[tensor.Name] = ans.Scale[tensor.Name]
		tol := reference.ToleranceFor(p, tensor)
		f.Tolerances[tensor.Name] = map[string]any{"rel": tol.Rel, "terms": tol.Terms, "abs": tol.Abs}
	}
	return f
}

const fixtureFile = "testdata/reference.json"

// The file is what package reference says today. That holds wherever there is
// no torch to compare peers.py with.
func TestFixtureIsWhatTheReferenceSays(t *testing.T) {
	var all []fixture
	for _, f := range fixtures {
		all = append(all, fixtureOf(t, f.problem, kernels.Inputs{Seed: f.seed, Draw: f.draw, From: f.from}))
	}
	want, err := json.MarshalIndent(all, "", " ")
	assert.NoError(t, err)
	assert.Golden(t, fixtureFile, string(want)+"\n")
}

// TestPythonTestsPass runs the tests in Python, each where python3 has what it needs.
func TestPythonTestsPass(t *testing.T) {
	for _, test := range []struct {
		needs, what string
		args        []string
	}{
		// Inputs, answers, tolerances, the comparison, and eager PyTorch as a peer from end to end;
		// on the CPU if need be.
		{"import torch", "no torch", []string{"against.py", fixtureFile}},
		// What is said of a user's file, and which problems a peer refuses.
		{"pass", "", []string{"files.py"}},
		// What is asked of cuDNN, flash-attn, fla, mamba and quack, each a module made up here.
		{"pass", "", []string{"made_up.py"}},
		// The proof that no host time is in a sample, on a simulated GPU: slow hosts, pauses,
		// clocks that rise, queues that fill, peers that wait.
		{"pass", "", []string{"clock.py"}},
		// Nothing that a call asked the L2 to keep is there for the next sample.
		{"import torch; assert torch.cuda.is_available()", "no torch with a GPU",
			[]string{"flush.py"}},
		// What a process beside has compiled is found; torch.compile takes half a minute.
		{"import shutil, torch, triton; assert shutil.which('g++')",
			"no torch.compile that works on a CPU", []string{"prepare.py"}},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			path := python(t)
			if exec.Command(path, "-c", test.needs).Run() != nil || testing.Short() &&
				test.args[0] == "prepare.py" {
				t.Skip("NOT TESTED: python3 has " + test.what + " here")
			}
			test.args[0] = filepath.Join("testdata", test.args[0])
			out, err := exec.Command(path, append([]string{"-B"}, test.args...)...).CombinedOutput()
			assert.That(t, err == nil, "%v", err)
			t.Logf("%s", out)
		})
	}
}
