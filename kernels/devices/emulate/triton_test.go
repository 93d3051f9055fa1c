package emulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/families/manifest"
)

// Triton's interpreter runs the examples and Liger-Kernel's kernels right, and notices a wrong one.
// PyTorch, which Liger-Kernel imports, is a stub.
func TestTritonKernelsRunInTheInterpreter(t *testing.T) {
	const examples, liger = "../../../examples/triton", "../../../examples/public/liger"
	torch, err := filepath.Abs("../../families/manifest/testdata")
	assert.NoError(t, err)
	t.Setenv("PYTHONPATH", torch+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"))
	for _, dir := range []string{examples, liger} {
		_, _, err := manifest.Load(families.New(), dir)
		assert.Needs(t, "TRITON", err) // scripts/triton-env.sh
	}
	e := emulator(t)
	check := func(dir, problem string, i int) (c kernels.Check, err error) {
		r, fs, err := manifest.Load(families.New(), dir)
		assert.NoError(t, err)
		p, err := kernels.ParseProblem(problem)
		assert.NoError(t, err)
		b, err := device(t, e, r, small()).Open(t.Context(), p, kernels.Inputs{Seed: today()})
		assert.NoError(t, err)
		defer b.Close()
		return b.Check(t.Context(), kernels.Variant{Family: fs[i].Name, Config: fs[i].Base(p,
			small())}, 1)
	}
	for i, problems := range [][]string{
		{"rmsnorm/bwd/7x541/bf16", "rmsnorm/bwd/1x33/fp16", "rmsnorm/bwd/3x1/fp32-wbf16"},
		{"rmsnorm/fwd/7x541/bf16", "rmsnorm/fwd/1x33/fp16+noweight", "rmsnorm/fwd/3x1/fp32"},
		{"layernorm/bwd/7x541/bf16+bias"}, {"layernorm/fwd/7x541/bf16+bias"},
		{"rmsnorm/bwd/7x541/bf16"}, {"rmsnorm/fwd/7x541/bf16+zc"},
	} {
		for _, p := range problems {
			dir, i := examples, i
			if i >= 2 {
				dir, i = liger, i-2
			}
			switch c, err := check(dir, p, i); {
			case err != nil && strings.Contains(err.Error(), "needs numpy") &&
				os.Getenv("NORMBENCH_REQUIRE_TRITON") == "":
				t.Skip(err)
			case err != nil || !c.OK():
				t.Errorf("%s: %v %s", p, err, c.Reason())
			}
		}
	}
	for bug, want := range map[string]string{"BUG0": "",
		"BUG1": "y is written 1 element (2 bytes) beyond its end, by program 6",
		"BUG2": "w is read 1 element (2 bytes) beyond its end, by program 0",
		"BUG3": "y is written 1 element (2 bytes) ahead of its start, by program 0",
		"BUG4": "y is wrong in 6 of 3787 elements",
		"BUG5": "y is written 4 elements (8 bytes) beyond its end, by program 6",
		"BUG8": "", "BUG10": "",
		"BUG9": "element 0 of y is read, which program 0 writes in the same launch: no atomic and no lock orders the two, by program 1",
		"BUG6": "an atomic changes element 0 of counts, which nothing has written",
		"BUG7": "an atomic changes element 0 of counts, which nothing has written",
	} {
		r, _, err := manifest.Load(families.New(), "testdata/tritonfaults")
		assert.NoError(t, err)
		checkFault(t, e, r, "rmsnorm/fwd/7x541/bf16", "faulty@"+bug, want)
	}
	for old, test := range map[string]string{"+ eps)": "- eps * 99999)",
		"y = x * rstd": "y = x.nope(rstd)"} {
		dir := t.TempDir()
		for _, name := range []string{"rms.py", "rms_forward.yaml"} {
			b, err := os.ReadFile(examples + "/" + name)
			if err == nil {
				err = os.WriteFile(dir+"/"+name, []byte(strings.ReplaceAll(string(b), old, test)),
					0o666)
			}
			assert.NoError(t, err)
		}
		c, err := check(dir, "rmsnorm/fwd/7x541/bf16", 0)
		wrong := strings.HasPrefix(test, "-")
		assert.That(t, wrong == (err == nil && !c.OK()) &&
			(wrong || strings.Contains(err.Error(), "Triton's interpreter")), "%s: %v, %s", test,
			err, c.Reason())
	}
}
