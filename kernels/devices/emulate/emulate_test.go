package emulate

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/families/manifest"
)

// newEmulator makes the one of all tests: what is the same for all launches takes three seconds to
// compile.
var newEmulator func() (*Emulator, error)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "emulate")
	if err != nil {
		panic(err)
	}
	newEmulator = sync.OnceValues(func() (*Emulator, error) {
		return New(context.Background(), dir)
	})
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func emulator(t *testing.T) *Emulator {
	t.Helper()
	e, err := newEmulator()
	assert.Needs(t, "CXX", err)
	return e
}

// What is the same for all launches is kept between emulators, and not taken from a file that somebody else
// may have written.
func TestWhatAllLaunchesShareIsKept(t *testing.T) {
	if e := emulator(t); strings.Contains(e.compiler, "clang") {
		t.Skip("clang's header is not kept")
	}
	kept := t.TempDir()
	t.Setenv("NORMBENCH_CACHE", kept)
	for _, name := range []string{"runtime.o", "emulate.h.gch"} {
		made := func() string {
			e, err := New(t.Context(), t.TempDir())
			assert.NoError(t, err)
			defer e.Close()
			return string(assert.File(t, e.file(name)))
		}
		made()
		files, err := filepath.Glob(filepath.Join(kept, "emulator-*"+filepath.Ext(name)))
		assert.Must(t, err == nil && len(files) == 1, "%v, %v", files, err)
		assert.NoError(t, os.WriteFile(files[0], []byte("kept"), 0o600))
		assert.That(t, made() == "kept", "%s was compiled again", name)
		assert.NoError(t, os.Chmod(files[0], 0o666))
		assert.That(t, made() != "kept", "%s that others may write was taken", name)
	}
}

// device stands for a GPU, with the registry's families.
func device(t *testing.T, e *Emulator, r *kernels.Registry, info kernels.DeviceInfo) *Device {
	d := NewDevice(t.Context(), e, r, info, Limit)
	t.Cleanup(func() { d.Close() })
	return d
}

// small is a GPU of few SMs, so that CTAs have several tiles of a few rows.
func small() kernels.DeviceInfo {
	d := devicetest.H200()
	d.SMs, d.Clusters = 3, [4]int{2, 1, 1, 1}
	return d
}

// The CUDA sources give right answers: of testdata/variants.txt, which says of what.
func TestEmulatedSourcesAnswerRight(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	e := emulator(t)
	lines := strings.Split(string(assert.File(t, "testdata/variants.txt")), "\n")
	for i, line := range lines {
		if line == "" || line[0] == '#' || !assert.Sampled(i, 8) {
			continue
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			problem, variant, one := strings.Cut(line, " ")
			dev := small()
			if !one {
				checkRight(t, e, problem, devicetest.H200())
			} else if others, all := strings.CutPrefix(variant, "all+"); all {
				checkRight(t, e, problem, dev, some(devicetest.Problem(t, problem), dev,
					assert.Value[int](t, others))...)
			} else {
				dev.CacheBytes = 1 << 10
				checkRight(t, e, problem, dev, devicetest.Variant(t, variant))
			}
		})
	}
}

// checkRight holds variants to the reference, or without any what d is given by default.
func checkRight(t *testing.T, e *Emulator, problem string, d kernels.DeviceInfo,
	vs ...kernels.Variant) {
	t.Helper()
	p, r := devicetest.Problem(t, problem), families.New()
	if len(vs) == 0 {
		v, err := r.Base(p, d)
		assert.NoError(t, err)
		vs = append(vs, v)
	}
	b, err := device(t, e, r, d).Open(t.Context(), p, kernels.Inputs{Seed: 7})
	assert.NoError(t, err)
	defer b.Close()
	for _, v := range vs {
		got, err := b.Check(t.Context(), v, 1)
		assert.That(t, err == nil && got.OK(), "%s: %v: %s", v, err, got.Reason())
	}
}

var (
	picks = flag.Int("picks", 4, "how many problems TestDefaultsOfRandomProblemsAnswerRight draws")
	seed  = flag.Uint64("seed", today(), "what it draws them from; the day's number without one")
)

// today is the number of the day, so that other problems run each day.
func today() uint64 { return uint64(time.Now().Unix()) / 86400 }

// An eighth of an H200 is given the launch rules of eight times the rows, which are too many to
// emulate. What it is given by default for problems drawn at random gives right answers, on which
// the launch rules were not tried: -picks 700 -seed 2 takes ten minutes on one core.
func TestDefaultsOfRandomProblemsAnswerRight(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	e, d := emulator(t), devicetest.H200()
	for i := range d.Clusters {
		d.Clusters[i] = 8 >> i
	}
	d.CacheBytes, d.SMs = d.CacheBytes*16/int64(d.SMs), 16
	r := rand.New(rand.NewPCG(*seed, 0))
	t.Logf("-picks %d -seed %d", *picks, *seed)
	for range *picks {
		p := devicetest.Draw(r, 14, 16)
		for p.M*p.N > 400e3 || p.N < 16 {
			p = devicetest.Draw(r, 14, 16)
		}
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			checkRight(t, e, p.String(), d)
		})
	}
}

// some are variants of all families that serve p: the base, if it is accepted, and n more of the
// space, always the same.
func some(p kernels.Problem, d kernels.DeviceInfo, n int) (vs []kernels.Variant) {
	hash := func(v kernels.Variant) uint64 {
		h := fnv.New64a()
		h.Write([]byte(v.Family + v.Config.String()))
		return h.Sum64()
	}
	for _, f := range families.New().FamiliesFor(p) {
		var space []kernels.Variant
		base := f.Base(p, d)
		configs, _ := f.Configs(p, d)
		for _, c := range configs {
			if v := (kernels.Variant{Family: f.Name, Config: c}); c == base {
				vs = append(vs, v)
			} else {
				space = append(space, v)
			}
		}
		slices.SortFunc(space, func(a, b kernels.Variant) int { return cmp.Compare(hash(a), hash(b)) })
		vs = append(vs, space[:min(n, len(space))]...)
	}
	return vs
}

// mistakes are what the cases of testdata/mistakes.cu come to. One of them has none.
var mistakes = []string{
	"k: x is read 1 element (4 bytes) beyond its end, by thread 12 of CTA 0",
	"k: y is written 1 element (4 bytes) ahead of its start, by thread 0 of CTA 0",
	"an access at byte 4 of x is not aligned to 16 bytes",
	"all threads wait, and nothing happens",
	"all threads wait, and nothing happens",
	"an assumption does not hold",
	"a CTA has ended before its bulk copies",
	"",
	"y is written 3 elements (12 bytes) beyond its end, by thread 0 of CTA 0",
	"a load of float4 at byte 4 of x is not aligned to 16 bytes",
	"a store of float4 at an address is not aligned to 16 bytes",
	"x is read 3 elements (12 bytes) beyond its end",
	"x is read 3 elements (12 bytes) beyond its end",
	"index 40 is beyond an array of type float [40]",
	"dynamic shared memory is written 4 bytes beyond its end, by thread 16 of CTA 0",
	"an assumption does not hold",
	"an assumption does not hold",
	"all threads wait, and nothing happens (scratch starts as NaN",
	"a null pointer is read or written",
	"an address far from every buffer is read or written",
}

//go:embed testdata/mistakes.cu
var mistaken string

// What is wrong with a kernel is said.
func TestMistakesOfAKernelAreSaid(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	e := emulator(t)
	try := func(text string, which int, want string) {
		r := &kernels.Registry{File: func(string) (string, error) { return text, nil }}
		mem := map[string]*kernels.Memory{"x": kernels.NewMemory(kernels.FP32, 13),
			"y": kernels.NewMemory(kernels.FP32, 13)}
		for i := range mem["x"].Len() {
			mem["x"].Set(i, float32(i))
		}
		l := &kernels.Launch{Source: "k.cu", Entry: "k", Grid: [3]int{1, 1, 1}, Block: 44,
			Shared: 64, Args: append(kernels.Buffers("x", "y"), kernels.Int64("n", 13),
				kernels.Int64("which", int64(which)))}
		err := e.Run(t.Context(), r, l, mem, false)
		if want == "" {
			right := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0}
			got := kernels.Elements[float32](mem["y"])
			assert.That(t, err == nil && slices.Equal(got, right), "%v: %v", err, got)
			return
		}
		assert.That(t, err != nil && strings.Contains(err.Error(), want) &&
			!strings.HasSuffix(err.Error(), ": ") && !strings.Contains(err.Error(), "\n"),
			"%d of %s: %v, want %s", which, text, err, want)
	}
	for which, want := range mistakes {
		try(mistaken, which, want)
	}
	const head = `extern "C" __global__ void k(const float *x, float *y, long long n, long long which) { `
	const guarded = "unsigned v; const float *p = x + (threadIdx.x < 13 ? threadIdx.x : 99); " +
		`asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.b32 %0, 0;\n\t@p ld.global.cg.u32 {%0}, [%1];\n}" ` +
		`: "=r"(v) : "l"(p + 1), "r"((int)(threadIdx.x < 12))); ` +
		`if (threadIdx.x < 13) asm volatile("st.global.cs.u32 [%0], {%1};" : : "l"(y + threadIdx.x), "r"(v)); }`
	try(head+guarded, 0, "") // a load that its predicate forbids reads nothing
	for text, want := range map[string]string{
		`asm volatile("bar.sync 3;"); }`:               `k.cu: the emulator has no "bar.sync 3;"`,
		`asm volatile("unfinished }`:                   "a string without an end",
		`nonsense; }`:                                  "k.cu:1: 'nonsense' was not declared",
		`y[0] = __nosuch(x[0]); }`:                     "k.cu: the emulator has no __nosuch yet; verify on a GPU",
		`if (which == 0) y[0] = 1 + __nosuch(x[0]); }`: "k.cu:1: the emulator has no __nosuch yet; verify on a GPU",
	} {
		try(head+text, 0, want)
	}
	unreached := "__device__ float other(float v) { return __nosuch(v); }\n#define K(T) extern \"C\" __global__ void k(const T *x, T *y, " +
		"long long n, long long) { if (threadIdx.x + 1 < n) y[threadIdx.x] = x[threadIdx.x + 1]; else if (threadIdx.x < n) y[threadIdx.x] = 0; }\nK(float)\n"
	const branch = "if (n < 0) { float v = __nosuch(x[0]); y[0] = v; } else if (threadIdx.x < n) y[threadIdx.x] = threadIdx.x + 1 < n ? x[threadIdx.x + 1] : 0; }"
	try(head+branch, 0, "")
	try(unreached, 0, "") // what the kernel does not reach is not the emulator's to know
	try(`extern "C" __global__ void k(const float *x) {}`, 0, "the entry takes 1 argument, and is given 4")
	for _, include := range []string{"#include </etc/hostname>", "# /**/ include <../up.h>",
		"#inc\\\nlude </etc/hostname>", "%:include \"/etc/hostname\"", "%:include NAME"} {
		want := "is outside of the kernel's folder"
		if strings.HasSuffix(include, "NAME") {
			want = "takes no #include of NAME"
		}
		try("#define NAME </etc/hostname>\n"+include+"\n"+head+"}", 0, want)
	}
}

// faults are the variants of testdata/faults, with what is said of each; "" is right.
var faults = []struct{ problem, variant, want string }{
	{"rmsnorm/fwd/9x541/bf16", "spill@BUG0", ""},
	{"rmsnorm/fwd/9x541/bf16", "spill@BUG1", "y is wrong in 8 of 4869"},
	{"rmsnorm/fwd/9x541/bf16", "spill@BUG2",
		"y is written 1 element (2 bytes) beyond its end, by thread 0 of CTA 8"},
	{"rmsnorm/fwd/9x541/bf16", "spill@BUG3", "y is wrong in 8 of 4869"},
	{"rmsnorm/fwd/9x541/fp32", "order@BUG0", ""},
	{"rmsnorm/fwd/9x541/fp32", "order@BUG1", "elements change from run to run"},
	{"rmsnorm/fwd/9x541/fp32", "inplace@BUG0", ""},
	{"rmsnorm/fwd/9x541/fp32+residual", "inplace@BUG0", ""},
	{"rmsnorm/fwd/9x541/fp32+residual", "inplace@BUG1", "resout is wrong in "},
	{"rmsnorm/fwd/9x541/fp32", "inplace@BUG2", "of w is read, which CTA 0 writes in the same launch"},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG0", ""},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG1", "y is wrong in "},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG2", "got NaN"},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG3", "got NaN"},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG4", "all threads wait, and nothing happens"},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG5", "of y is read, which CTA 0 writes in the same launch"},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG6", "of dynamic shared memory is not aligned to 16 bytes"},
	{"rmsnorm/fwd/9x541/fp32", "lanes@BUG7", "w is read 1 element (4 bytes) beyond its end"},
	{"rmsnorm/fwd/1x541/fp32", "handoff@BUG0", ""},
	{"rmsnorm/fwd/1x541/fp32", "handoff@BUG1", "y is wrong in "},
	{"rmsnorm/fwd/1x541/fp32", "handoff@BUG2", "y is wrong in "},
	{"rmsnorm/fwd/1x541/fp32", "handoff@BUG3", "y is wrong in "},
	{"rmsnorm/fwd/9x541/fp32", "handoff@BUG1", "y is wrong in "},
	{"rmsnorm/fwd/9x541/fp32", "handoff@BUG2", "y is wrong in "},
	{"rmsnorm/bwd/9x541/fp32", "adds@BUG0", ""},
	{"rmsnorm/bwd/9x541/fp32", "adds@BUG1", "of dw is read, which CTA 0 writes in the same launch: no atomic and no lock orders the two"},
	{"rmsnorm/bwd/9x541/fp32", "adds@BUG2", ""},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG0", ""},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG1", "dw is wrong in 541 of 541 elements, first at 0: got NaN"},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG2", "dx is wrong in "},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG3", "it has changed its input dy"},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG4", "dx is wrong in "},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG5", "parts is read 1 element (4 bytes) beyond its end"},
	{"layernorm/bwd/9x541/fp32+bias", "parts@BUG7", "db is never written in 541 of 541"},
}

// Faults that only another order of CTAs or of threads shows are found, and the right kernel beside them passes.
func TestFaultsOfOrderAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	e := emulator(t)
	r, _, err := manifest.Load(families.New(), "testdata/faults")
	assert.NoError(t, err)
	for _, f := range faults {
		checkFault(t, e, r, f.problem, f.variant, f.want)
	}
}

// checkFault checks a variant over two runs and holds what is said of it to want.
func checkFault(t *testing.T, e *Emulator, r *kernels.Registry, problem, variant, want string) {
	t.Helper()
	b, err := device(t, e, r, small()).Open(t.Context(), devicetest.Problem(t, problem),
		kernels.Inputs{Seed: 7}) // of others a last row of zeros hides order
	assert.NoError(t, err)
	defer b.Close()
	c, err := b.Check(t.Context(), devicetest.Variant(t, variant), 2)
	said := ""
	switch {
	case err != nil:
		said = err.Error()
	case !c.OK():
		said = c.Reason()
	case c.Breaks():
		said = "elements change from run to run"
	}
	assert.That(t, strings.Contains(said, want) && (want != "" || said == ""), "%s: %q, want %q",
		variant, said, want)
}

// Timed runs too start from the inputs, where they are overwritten: what the last one leaves is checked.
func TestInplaceRunsStartFromTheInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	r, _, err := manifest.Load(families.New(), "testdata/faults")
	assert.NoError(t, err)
	p := devicetest.Problem(t, "rmsnorm/fwd/3x33/fp32+residual")
	b, err := device(t, emulator(t), r, small()).Open(t.Context(), p, kernels.Inputs{Seed: today()})
	assert.NoError(t, err)
	defer b.Close()
	_, err = b.Time(t.Context(), devicetest.Variant(t, "inplace@BUG0"), kernels.TimeOptions{Samples: 3})
	assert.NoError(t, err)
	_, err = b.Time(t.Context(), devicetest.Variant(t, "inplace@BUG1"), kernels.TimeOptions{Samples: 3})
	assert.Error(t, err, "after 3 timed runs resout is wrong in ")
}

// A launch that does not end is ended, and the variant is not run on another problem.
func TestLaunchThatDoesNotEndIsEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	e := emulator(t)
	r, _, err := manifest.Load(families.New(), "testdata/faults")
	assert.NoError(t, err)
	d := device(t, e, r, small())
	d.limit = 2 * time.Second
	for _, one := range []struct{ problem, want string }{
		{"rmsnorm/fwd/9x33/fp32", "spin<BUG> did not end within 2s (scratch starts as NaN"},
		{"rmsnorm/fwd/3x33/fp32", "not run, as it did not end on rmsnorm/fwd/9x33/fp32"},
	} {
		b, err := d.Open(t.Context(), devicetest.Problem(t, one.problem), kernels.Inputs{Seed: 1})
		assert.NoError(t, err)
		_, err = b.Check(t.Context(), devicetest.Variant(t, "spin@BUG1"), 2)
		assert.That(t, err != nil && strings.Contains(err.Error(), one.want), "%s: %v", one.problem, err)
	}
}

// A compiler that does not end ends with the context, and with this process: living is closed then.
func TestCompilerEndsWithItsContext(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	e := emulator(t)
	for _, way := range []string{"context", "death"} {
		t.Run(way, func(t *testing.T) {
			alive, living, err := os.Pipe()
			assert.NoError(t, err)
			defer alive.Close()
			// It has the files of e, and a pipe of its own.
			dying := &Emulator{compiler: e.compiler, checks: e.checks, links: e.links, dir: e.dir,
				alive: alive, living: living}
			fifo := filepath.Join(t.TempDir(), "fifo.cpp")
			assert.NoError(t, exec.Command("mkfifo", fifo).Run())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				_, err := dying.cxx(ctx, "-c", "-o", fifo+".o", fifo)
				ended <- err
			}()
			// A writer comes through once a compiler reads, which then waits for what is never written.
			f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			assert.NoError(t, err)
			defer f.Close()
			if way == "context" {
				cancel()
				err = <-ended
				assert.That(t, errors.Is(err, context.Canceled), "%v", err)
			} else {
				living.Close()
				err = <-ended
				assert.That(t, err != nil, "it has compiled")
			}
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if _, err := f.Write([]byte("\n")); errors.Is(err, syscall.EPIPE) {
					break // nobody reads
				}
				assert.That(t, time.Now().Before(deadline), "a compiler still reads")
			}
		})
	}
}

// Loads and stores are found by what they move, however they are cached; others are not taken for them.
func TestLoadsAndStoresOfPTXAreFound(t *testing.T) {
	for instructions, want := range map[string]string{
		"ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];":                   "load128 -1",
		"ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];":           "load64 -1",
		"ld.global.cs.u16 {%0}, [%1];":                                  "load16 -1",
		"ld.global.nc.L1::no_allocate.L2::cache_hint.b32 %0, [%1], %2;": "load32 -1",
		"st.global.wb.v4.u32 [%0], {%1, %2, %3, %4};":                   "store128 -1",
		"{ .reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; " +
			"@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }": "load128If -1",
		"{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @q ld.global.u32 {%0}, [%1]; }": "",
		"{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.b32 %0, 0; @p ld.global.u32 {%0}, [%2]; }": "",
		"ld.global.v4.u16 {%0, %1, %2, %3}, [%4];":                                            "",
		"st.shared.v2.u32 [%0], {%1, %2};":                                                    "store64 0",
		"ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];":                                            "load128 4",
		"ld.local.u32 %0, [%1];":                                                              "",
		"ld.global.u32 %0, [%1+4];":                                                           "",
	} {
		got, address := functionOf(instructions)
		assert.Equal(t, fmt.Sprint(got, " ", address), cmp.Or(want, " -1"), instructions)
	}
	got, err := withoutPTX(`asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.b32 %0, 0;\n\t@p ld.global.u32 {%0}, [%1];\n}\n" : "=r"(*v) : "l"(p), "r"((int)(i < n)));`)
	assert.Equal(t, got, "emulate::load32If(*v, p, (int)(i < n));", "of several lines", err)
	got, err = withoutPTX(`asm("st.shared.u32 [%0], %1;" : : "r"(to), "r"(v));`)
	assert.Equal(t, got, "emulate::store32(emulate::at(to), v);", "to shared memory", err)
}

// Whatever follows asm, there is a source or an error; a source without it stays as it is,
// and a statement leaves what is around it.
func FuzzWithoutPTX(f *testing.F) {
	f.Add(
		`a; asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(g(lo, ")"))); b;`)
	f.Add(`asm("" : "+r"(v.word[i])); asm volatile("" ::: "memory");`)
	f.Add(`asm ( "prmt.b32 %0, %1, 0, 0x1044;" : "=r"(lo) : "r"(f(a ? b : c)))`)
	f.Add("asm(\"\\")
	f.Add("asm(:(")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := withoutPTX(text)
		assert.That(t, asmRE.MatchString(text) || err == nil && got == text,
			"%q becomes %q, %v", text, got, err)
		if strings.Contains(text, `"`) || asmRE.MatchString(text) {
			return
		}
		const one = `asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(f(p)), "r"(rank));`
		if got, err := withoutPTX(text + "\n" + one + text); err != nil || got != text+
			"\nemulate::onRank(r, f(p), rank);"+text {
			t.Errorf("%q around a statement: %q, %v", text, got, err)
		}
	})
}
