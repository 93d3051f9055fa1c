package lab

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/emulate"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/tune"
)

// What --include and --python name goes to workers, and not into this process's environment.
func TestUseKernelsLeavesTheEnvironmentAlone(t *testing.T) {
	headers, others := t.TempDir(), t.TempDir()
	t.Setenv(nvrtc.IncludeVariable, others)
	t.Setenv(triton.PythonVariable, "")
	l := New(t.Context(), console.New(t.Context(), nil, io.Discard), families.New(), func() {})
	assert.NoError(t, l.UseKernels("../examples/kernels", []string{headers}, "a-python", true, nil))
	want := []string{nvrtc.IncludeVariable + "=" + headers + string(filepath.ListSeparator) + others,
		triton.PythonVariable + "=a-python"}
	assert.That(t, slices.Equal(l.Loader.Env(), want), "workers get %q, want %q", l.Loader.Env(), want)
	assert.Equal(t, os.Getenv(nvrtc.IncludeVariable), others, "the process's folders")
	assert.Equal(t, os.Getenv(triton.PythonVariable), "", "the process's Python")
}

// Cards of one kind that differ by more than the noise are named, and the least floor is the run's.
func TestCardsThatDifferAreNamed(t *testing.T) {
	card := func(us float64) kernels.Device {
		return &devicetest.Fake{Seconds: devicetest.Always(us * 1e-6)}
	}
	for us, want := range map[float64]string{10.1: "", 9.5: "the cards differ"} {
		var said strings.Builder
		l := New(t.Context(), console.New(t.Context(), nil, &said), families.New(), func() {})
		var run record.Run
		assert.NoError(t, l.TestTimer(&run, card(10), card(us)))
		assert.Equal(t, run.FloorUS, min(10, us), "a floor", "us of cards with 10 and", us)
		if second := slices.ContainsFunc(run.SelfTest, func(x record.Trial) bool {
			return strings.HasPrefix(x.Name, "device 2: ") && !x.OK
			// a fake's spin is as short as any launch
		}); !second || !strings.Contains(run.Failures(), "device 2: ") {
			t.Errorf("%g us: what the second card failed is not kept: %v", us, run.SelfTest)
		}
		text := said.String()
		assert.That(t, strings.Contains(text, "device 2 of 2: stream 11") == (want != "") &&
			strings.Contains(text, want), "%g us: %q", us, text)
	}
}

// CPUs are tested too. Their floor is not kept: a kernel on an idle core may be shorter than an empty
// launch on a busy one.
func TestFloorsOfCPUsAreNotKept(t *testing.T) {
	cpu := func(us float64) kernels.Device {
		return &devicetest.Fake{DeviceInfo: devicetest.CPU(), Seconds: devicetest.Always(us * 1e-6)}
	}
	var said strings.Builder
	l := New(t.Context(), console.New(t.Context(), nil, &said), families.New(), func() {})
	var run record.Run
	assert.NoError(t, l.TestTimer(&run, cpu(10), cpu(20)))
	assert.That(t, len(run.SelfTest) >= 7 && run.Failures() != "", "tested: %+v", run.SelfTest)
	assert.Equal(t, run.FloorUS, 0.0, "a floor of a cpu")
	assert.That(t, !strings.Contains(said.String(), "differ"), "noise is taken for a difference: %s", &said)
}

// sweepOn sweeps small problems on a fake into a folder and returns what people see: the text on
// stderr, and the table.
func sweepOn(t *testing.T, dev kernels.Device, out, strategy string, shapes ...string) (progress, table string) {
	t.Helper()
	return sweepFamilies(t, dev, out, strategy, nil, shapes...)
}

// sweepFamilies is sweepOn of families, each against itself.
func sweepFamilies(t *testing.T, dev kernels.Device, out, strategy string, only []string,
	shapes ...string) (progress, table string) {
	t.Helper()
	var said, shown strings.Builder
	l := New(t.Context(), console.New(t.Context(), nil, &said), families.New(), func() {})
	s := &SweepTask{Config: &OpenOptions{}, Devices: []kernels.Device{dev}, Out: out, Only: only}
	for _, text := range shapes {
		s.Problems = append(s.Problems, devicetest.Problem(t, text))
	}
	s.Search.Strategy = strategy
	s.Options = sweep.RunOptions{Run: l.NewRun(dev.Info(), sweep.ColdProtocol(dev.Info(), 7)), Seed: 1}
	s.Options.Run.Tool = "test"
	assert.NoError(t, l.LayOut(s))
	found, err := l.Sweep(s)
	assert.Must(t, err == nil && found != nil, "%v: %s", err, &said)
	assert.NoError(t, report.RenderAll(&shown, found.Found, report.FormatText))
	return said.String(), shown.String()
}

// machine is a CPU on which the base of each problem takes 100 us, two_pass takes fast and all else
// more than either. Its noise makes a launch up to so much slower, each by chance.
func machine(fast, noise float64) *devicetest.Fake {
	registry := families.New()
	return &devicetest.Fake{DeviceInfo: devicetest.CPU(), Registry: registry,
		Seconds: func(p kernels.Problem, v kernels.Variant, sample int) float64 {
			us := 120.0
			base, _ := registry.Base(p, devicetest.CPU())
			switch {
			case strings.HasSuffix(v.Family, "/stream"):
				us = 50
			case v == base:
				us = 100
			case v.Family == "rms_fwd/two_pass":
				us = fast
			}
			h := fnv.New64a()
			fmt.Fprint(h, p, v, sample)
			return us * 1e-6 * (1 + noise*rand.New(rand.NewPCG(h.Sum64(), 1)).Float64())
		}}
}

const smallProblem = "rmsnorm/fwd/64x256/bf16"

// A sweep on a cpu has what one on a GPU has: a selftest, whose failures stand above the table, and
// finals, by whose rounds the table and the progress line name one winner.
func TestSweepOfACPUHasSelftestAndFinals(t *testing.T) {
	dev, out := machine(60, 1e-3), t.TempDir()
	progress, table := sweepOn(t, dev, out, search.Auto, smallProblem)
	above, rows, _ := strings.Cut(table, "verdict")
	assert.That(t, strings.Contains(above, "selftest: ") &&
		strings.Contains(strings.Join(strings.Fields(above), " "), "; do not trust small differences"),
		"an unfit machine is not named above the table: %s", table)
	assert.That(t, strings.Contains(rows, "FASTER") && strings.Contains(rows, "paired: by the finals' rounds"),
		"no finals: %s", rows)
	assert.That(t, strings.Contains(progress, ": chosen 60.0 us (83% of stream, 1.67x base, FASTER) "+
		"rms_fwd/two_pass@"), "progress: %s", progress)
	// Half a percent is ahead in every round, and no result on a cpu.
	progress, _ = sweepOn(t, machine(99.5, 1e-3), t.TempDir(), search.Auto, smallProblem)
	assert.That(t, strings.Contains(progress, "chosen 100.0 us (50% of stream, = base)"), "%s", progress)
	again, _ := sweepOn(t, machine(60, 1e-3), out, search.Auto, smallProblem)
	assert.That(t, strings.Contains(again, " 0 variants measured") && !strings.Contains(again, "selftest"),
		"a sweep that is done tests the timer: %s", again)
}

// What noise alone makes fast is not called: the row says that the base was kept, and which median
// was not proven; the progress line says the same.
func TestSweepKeepsTheBaseWhereNothingIsProven(t *testing.T) {
	var shapes []string
	for m := range 16 {
		shapes = append(shapes, fmt.Sprintf("rmsnorm/fwd/%dx256/bf16", 16+m))
	}
	progress, table := sweepOn(t, machine(97, 1.5), t.TempDir(), search.Auto, shapes...)
	kept := regexp.MustCompile(`kept base: \S+ us not proven`)
	rows := kept.FindAllString(table, -1)
	assert.That(t, len(rows) > 0 && len(rows)+strings.Count(table, "  = base\n") == len(shapes), "%s", table)
	told := kept.FindAllString(progress, -1)
	slices.Sort(rows)
	slices.Sort(told)
	assert.Same(t, told, rows, progress)
	assert.Equal(t, strings.Count(progress, ", = base) rms_fwd/"), len(shapes)-len(rows), "lines: ", progress)
	assert.That(t, strings.Contains(table, "found: no config is proven faster than the base, in 16 problems; the base "+
		"stays in 16, and in "), "%s", table)
}

// A grid has no rounds that two variants share, so its table has times and a ratio, and no verdict.
func TestSweepOfAGridHasNoVerdict(t *testing.T) {
	progress, table := sweepOn(t, machine(60, 1e-3), t.TempDir(), search.Grid, smallProblem)
	assert.That(t, strings.Contains(table, "1.67x  not paired") && !strings.Contains(table, "FASTER\n") &&
		strings.Contains(table, "`normbench compare A B --live`"), "%s", table)
	assert.That(t, strings.Contains(progress, ": least median 60.0 us (83% of stream, not paired) "),
		"progress: %s", progress)
}

// A family that is swept against itself is compared with its own default, also where normbench's default
// is faster than all of it: that stands beside it, and neither wins nor is the base. What a sweep of all
// families wrote into the same folder stays, and the second one skips nothing of the first.
func TestFamilyAgainstItselfHasItsOwnDefault(t *testing.T) {
	const family, wide = "rms_fwd/two_pass", "rmsnorm/fwd/16x4096/bf16"
	out, p := t.TempDir(), devicetest.Problem(t, wide)
	dev := machine(60, 1e-3)
	own := dev.Registry.Families[slices.IndexFunc(dev.Registry.Families,
		func(f *kernels.Family) bool { return f.Name == family })].Base(p, dev.DeviceInfo)
	normbench, err := dev.Registry.Base(p, dev.DeviceInfo)
	assert.NoError(t, err)
	all := dev.Seconds
	dev.Seconds = func(p kernels.Problem, v kernels.Variant, sample int) float64 {
		s := all(p, v, sample)
		switch {
		case v.Family == family && v.Config == own:
			return s * 90 / 60
		case v == normbench:
			return s * 40 / 100
		}
		return s
	}
	folder := filepath.Join(out, dev.DeviceInfo.ID)
	_, general := sweepOn(t, dev, out, search.Auto, wide)
	assert.That(t, strings.Contains(general, "= base"), "normbench's default is the fastest: %s", general)
	before, err := os.ReadFile(filepath.Join(folder, tune.FileName))
	assert.NoError(t, err)

	for _, strategy := range []string{search.Auto, search.Grid} {
		said, table := sweepFamilies(t, dev, out, strategy, []string{family}, wide)
		assert.That(t, strings.Contains(table, "A = "+family+" by its own default, B = "+family+" at its best"),
			"%s: %s", strategy, table)
		assert.That(t, strings.Contains(table, "normbench's default beside them") && strings.Contains(table, normbench.Family),
			"%s: normbench's default is not beside it: %s", strategy, table)
		if strategy == search.Auto {
			assert.That(t, regexp.MustCompile(`1\.50\dx \(1\.[45]\d*-1\.5\d*\) +FASTER`).MatchString(table),
				"no gain with its interval: %s", table)
			assert.That(t, regexp.MustCompile(`0\.66\dx \(0\.6\d*-0\.6\d*\)`).MatchString(table),
				"normbench's default over the family's best: %s", table)
			assert.That(t, strings.Contains(said, "1.50x base, FASTER) "+family), "progress: %s", said)
		}
		now, err := tune.Read(filepath.Join(folder, filepath.FromSlash(family), tune.FileName))
		assert.NoError(t, err)
		e := now.Entries[0]
		assert.That(t, now.BaseOf == family && e.Family == family && e.Config != own && e.Base.Family == family &&
			e.Base.Config == own && e.Default.Family == normbench.Family && e.RunnerUp.Family == family,
			"%s: %+v", strategy, e)
		after, err := os.ReadFile(filepath.Join(folder, tune.FileName))
		assert.NoError(t, err)
		assert.Equal(t, string(after), string(before), "the table of all families")
	}
	f, err := record.Load(folder)
	assert.NoError(t, err)
	bases := map[string]kernels.Variant{}
	for es := range f.LatestOutcomes().ByProblem() {
		for _, e := range es {
			if e.Base {
				bases[e.BaseOf] = e.Variant
			}
		}
	}
	assert.Same(t, bases, map[string]kernels.Variant{"": normbench, family: {Family: family, Config: own}}, "bases",
		cmpopts.EquateComparable(kernels.Config{}))
}

// A pull request may change a kernel's arguments with its manifest: the base's kernel is launched by the base's.
func TestTheBasesKernelIsLaunchedByTheBasesManifest(t *testing.T) {
	base, now := filepath.Join(t.TempDir(), "base"), filepath.Join(t.TempDir(), "now")
	for _, dir := range []string{base, now} {
		assert.NoError(t, os.CopyFS(dir, os.DirFS("../examples/kernels")))
	}
	for file, change := range map[string][2]string{
		"rms_warp.cu":   {"const X *x, const W *w, X *y, float *rstd,", "X *y, float *rstd, const X *x, const W *w, const X *none,"},
		"rms_warp.yaml": {"      - x\n      - w\n      - y\n      - rstd\n", "      - y\n      - rstd\n      - x\n      - w\n      - none\n"},
	} {
		was := string(assert.File(t, filepath.Join(now, file)))
		assert.Must(t, strings.Contains(was, change[0]), "%s has no %q", file, change[0])
		assert.Write(t, filepath.Join(now, file), strings.Replace(was, change[0], change[1], 1))
	}
	l := New(t.Context(), console.New(t.Context(), nil, io.Discard), families.New(), func() {})
	assert.NoError(t, l.UseKernels(now, nil, "", false, nil))
	assert.NoError(t, l.UseBaseline(base))
	e, err := emulate.New(t.Context(), t.TempDir())
	assert.Needs(t, "CXX", err)
	defer e.Close()
	d := emulate.NewDevice(t.Context(), e, l.Registry, devicetest.H200(), emulate.Limit)
	defer d.Close()
	b, err := d.Open(t.Context(), devicetest.Problem(t, "rmsnorm/fwd/8x256/bf16"), kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	for _, family := range []string{"rms_warp", families.Baseline + "rms_warp"} {
		c, err := b.Check(t.Context(), kernels.Variant{Family: family}, 1)
		assert.That(t, err == nil && c.OK(), "%s: %s %v", family, c.Reason(), err)
	}
}
