package devicetest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// The test kernels compile wherever they serve, and so does nothing that the
// files of the other families do not have.
func TestKernelsCompile(t *testing.T) {
	c, err := nvrtc.Find()
	if err != nil {
		if os.Getenv("NORMBENCH_REQUIRE_NVRTC") != "" {
			t.Fatal(err)
		}
		t.Skipf("no NVRTC: %v", err)
	}
	r := Registry(families.New())
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c)
	for _, text := range []string{"rmsnorm/fwd/33x541/bf16", "rmsnorm/fwd/33x541/fp16-wfp32+bias+zc"} {
		p := parse(t, text)
		f, err := r.Lookup(Wrong) // all are entries of one file
		if err != nil {
			t.Fatal(err)
		}
		l := f.Plan(p, f.Base(p, H200()), H200()).Launches[0]
		u, err := cuda.NewUnit(r, &l, "sm_90")
		if err != nil {
			t.Fatal(err)
		}
		b, err := cache.Compile(u.Source, u.Options)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, f := range Families() {
			entry := f.Plan(p, f.Base(p, H200()), H200()).Launches[0].Entry
			if _, ok := b.Kernels[entry]; !ok {
				t.Errorf("%s has no entry %q", l.Source, entry)
			}
		}
	}
}

// The fake is what other tests stand on: its script is played exactly.
func TestFake(t *testing.T) {
	p := parse(t, "rmsnorm/bwd/300x1024/bf16")
	r := families.New()
	bad, slow := kernels.Variant{Family: "rms_bwd/two_pass"}, kernels.Variant{Family: "rms_bwd/reg_persist"}
	dead := false
	f := &Fake{
		Registry: r,
		Seconds:  func(_ kernels.Problem, _ kernels.Variant, sample int) float64 { return float64(sample + 1) },
		Fail: func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			switch {
			case v.Family == bad.Family:
				return kernels.Failf(kernels.StatusWrong, "as scripted")
			case dead:
				return kernels.Failf(kernels.StatusTimeout, "as scripted")
			}
			return nil
		},
	}
	b, err := f.Open(t.Context(), p, 7)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := b.Check(t.Context(), slow, 2); err != nil || !c.OK() || c.Repeats != 2 || len(c.Resources) != 2 {
		t.Errorf("check: %+v, %v", c, err)
	}
	if c, err := b.Check(t.Context(), bad, 2); err != nil || c.OK() {
		t.Errorf("a wrong variant: %+v, %v", c, err)
	}
	var failure *kernels.Failure
	if _, err := b.Check(t.Context(), kernels.Variant{Family: "nobody"}, 1); !errors.As(err, &failure) || failure.Status != kernels.StatusRefused {
		t.Errorf("an unknown family: %v", err)
	}
	for _, want := range []float64{1, 3} { // samples count on
		tm, err := b.Time(t.Context(), slow, kernels.TimeOptions{Samples: 2, Stages: true})
		if err != nil || len(tm.Seconds) != 2 || tm.Seconds[0] != want || len(tm.Stages) != 2 || tm.Stages[1].Stage != "k2" || tm.Stages[1].Seconds[0] != want/4 {
			t.Errorf("time: %+v, %v", tm, err)
		}
	}
	dead = true
	if _, err := b.Check(t.Context(), slow, 1); !errors.As(err, &failure) || failure.Status != kernels.StatusTimeout || !failure.Broken {
		t.Errorf("a timeout: %v", err)
	}
	dead = false
	if _, err := b.Check(t.Context(), slow, 1); !errors.As(err, &failure) || !failure.Broken {
		t.Errorf("a broken bench answers %v", err)
	}
	b.Close()
	if b, err = f.Open(t.Context(), p, 7); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(t.Context(), slow, 1); err != nil {
		t.Errorf("opened again: %v", err)
	}
	var ops []string
	for _, c := range f.Calls("open", "close", "time") {
		ops = append(ops, c.Op)
	}
	if got := strings.Join(ops, " "); got != "open time time close open" {
		t.Errorf("the log is %q", got)
	}
	// Misuse is a bug of the caller, and must not pass for a result.
	func() {
		defer func() {
			if recover() == nil {
				t.Error("opened twice, and nobody minded")
			}
		}()
		f.Open(t.Context(), p, 7)
	}()
}

func TestTypical(t *testing.T) {
	p := parse(t, "rmsnorm/fwd/4096x4096/bf16")
	stream, other := kernels.Variant{Family: "rms_fwd/stream"}, kernels.Variant{Family: "rms_fwd/cta_reg"}
	for i := range 20 {
		s, o := Typical(p, stream, i), Typical(p, other, i)
		if s != Typical(p, stream, i) || !(s > 10e-6 && s < o && o < 50e-6) {
			t.Errorf("sample %d: stream %g s, kernel %g s", i, s, o)
		}
	}
	if Typical(p, other, 0) == Typical(p, other, 1) {
		t.Error("samples have no noise")
	}
}
