package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// newChecker is for an H200 of another arch, or skips without NVRTC.
func newChecker(t *testing.T, r *kernels.Registry, arch string) *Checker {
	t.Helper()
	d := devicetest.H200()
	d.Arch = arch
	c, err := NewChecker(r, d)
	if err != nil {
		if os.Getenv("NORMBENCH_REQUIRE_NVRTC") != "" {
			t.Fatal(err)
		}
		t.Skipf("no NVRTC: %v", err)
	}
	return c
}

// The example's whole space compiles for every arch that we support.
func TestExample(t *testing.T) {
	r, fs, err := Load(families.New(), "../../examples/kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"sm_80", "sm_90", "sm_100"} {
		c := newChecker(t, r, arch)
		for _, f := range fs {
			for _, text := range []string{"rmsnorm/fwd/4096x4096/bf16", "rmsnorm/fwd/33x541/fp16-wfp32+zc", "rmsnorm/fwd/64x256/fp32+noweight"} {
				p := problem(t, text)
				if f.CheckServes(p) != nil {
					continue
				}
				configs, err := c.Check(f, p, arch == "sm_90")
				if err != nil || configs == 0 {
					t.Errorf("%s on %s for %s: %d configs, %v", f.Name, p, arch, configs, err)
				}
			}
		}
		if c.Kernels() == 0 {
			t.Error("nothing was compiled")
		}
	}
}

// A source that does not compile, or whose kernel has another name when it is
// compiled, is an error; so is a Fault anywhere in the space.
func TestCheckFails(t *testing.T) {
	p := problem(t, "layernorm/bwd/4096x4096/bf16")
	for _, test := range []struct{ manifest, source, want string }{
		{good, strings.Replace(goodSource, "const X *x", "const Q *x", 1), "mine.cu(2)"},
		{good, strings.Replace(goodSource, `extern "C" __global__ void first`, `__global__ void first`, 1), "has no kernel first when it is compiled"},
		{strings.Replace(good, "elems: M}", `elems: "M / (8 - w)"}`, 1), goodSource, "scratch[1].elems divides by zero for layernorm/bwd/4096x4096/bf16 with w8.v0.k"},
	} {
		r, fs, err := Load(families.New(), folder(t, "mine.yaml", test.manifest, "mine.cu", test.source))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newChecker(t, r, "sm_90").Check(fs[0], p, false); err == nil || !strings.Contains(err.Error(), test.want) || hint.Of(err) == "" {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// A cache folder that cannot be written is told, and costs no kernel.
func TestCheckUnkept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NORMBENCH_CACHE", file)
	r, fs, err := Load(families.New(), folder(t, "mine.yaml", good, "mine.cu", goodSource))
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(t, r, "sm_90")
	if _, err := c.Check(fs[0], problem(t, "layernorm/bwd/4096x4096/bf16"), false); err != nil || c.Kernels() == 0 {
		t.Errorf("%d kernels, %v", c.Kernels(), err)
	}
	if want := "cubins are not kept in " + file + ", so the next run compiles them again: not a directory"; c.Unkept() != want {
		t.Errorf("got  %s\nwant %s", c.Unkept(), want)
	}
}
