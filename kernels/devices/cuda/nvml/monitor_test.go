//go:build cuda && cgo

package nvml

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cuda/driver"
	"normbench/kernels/devices/devicetest"
)

func every(string) bool { return true }

// mocked is a GPU of go-nvml's mock of a DGX A100, with answers for what the mock lacks.
func mocked(t *testing.T, has func(string) bool) (*Monitor, *dgxa100.Device) {
	t.Helper()
	server := dgxa100.New()
	server.SystemGetConfComputeStateFunc = func() (nvml.ConfComputeSystemState, nvml.Return) {
		return nvml.ConfComputeSystemState{CcFeature: nvml.CC_SYSTEM_FEATURE_ENABLED}, nvml.SUCCESS
	}
	server.SystemGetProcessNameFunc = func(pid int) (string, nvml.Return) {
		if pid == 4242 {
			return "/usr/bin/python", nvml.SUCCESS
		}
		return "", nvml.ERROR_NOT_FOUND
	}
	d := server.Devices[3].(*dgxa100.Device)
	clock := func(c nvml.ClockType) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1200, nvml.CLOCK_MEM: 1593}[c], nvml.SUCCESS
	}
	d.GetClockInfoFunc, d.GetMaxClockInfoFunc = clock, func(c nvml.ClockType) (uint32,
		nvml.Return) {
		mhz, r := clock(c)
		return mhz + 10, r
	}
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_DISABLED, nvml.SUCCESS
	}
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 123_250, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (t uint32, r nvml.Return) { return 41, r }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x5, nvml.SUCCESS }
	d.GetCurrentClocksThrottleReasonsFunc = func() (_ uint64, r nvml.Return) { return 0x20, r }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{
			{Pid: uint32(os.Getpid()), UsedGpuMemory: 1 << 20},
			{Pid: 4242, UsedGpuMemory: 5 << 20},
			{Pid: 4243, UsedGpuMemory: ^uint64(0)},
			{Pid: 4244, UsedGpuMemory: 1},
		}, nvml.SUCCESS
	}
	m, err := open(server, has, d.UUID)
	assert.NoError(t, err)
	m.inContainer = false
	m.IgnoreProcesses(4244)
	return m, d
}

func TestSampleReadsTheWholeState(t *testing.T) {
	m, d := mocked(t, every)
	want := kernels.Reading{ClockMHz: 1200, MaxClockMHz: 1210, MemClockMHz: 1593, PowerW: 123.25,
		TemperatureC: 41,
		Throttle:     []string{"sw power cap"}, Others: []string{"process 4242 (python)",
			"process 4243"}, Confidential: true, ECC: true}
	r, err := m.Sample()
	assert.That(t, err == nil && reflect.DeepEqual(r, want) && m.DriverVersion() != "",
		"%v\ngot  %+v\nwant %+v", err, r, want)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	sliced, err := open(m.lib, every, d.UUID)
	assert.NoError(t, err)
	if r, err := sliced.Sample(); err != nil || !r.Sliced {
		t.Errorf("MIG is not noticed: %+v, %v", r, err)
	}
	// A process that belongs to the measurement is no stranger, for as long as it is named.
	for _, test := range []struct {
		beside []int
		want   int
	}{{[]int{4242}, 2}, {[]int{4242, 4243, 4244}, 0}, {nil, 3}} {
		m.IgnoreProcesses(test.beside...)
		r, err := m.Sample()
		assert.That(t, err == nil && len(r.Others) == test.want,
			"beside %v: others %q, %v", test.beside, r.Others, err)
	}
	m.Close()
}

func TestMissingFunctionsLeaveFieldsEmpty(t *testing.T) {
	t.Run("old driver", func(t *testing.T) {
		const newer = "nvmlDeviceGetCurrentClocksEventReasons"
		m, _ := mocked(t, func(symbol string) bool { return symbol != newer })
		r, err := m.Sample()
		assert.That(t, err == nil && slices.Equal(r.Throttle, []string{"sw thermal slowdown"}),
			"%+v, %v", r, err)
	})
	t.Run("nothing", func(t *testing.T) { // and no function is called that is not there
		m, _ := mocked(t, func(string) bool { return false })
		r, err := m.Sample()
		assert.That(t, err == nil && reflect.DeepEqual(r, kernels.Reading{}), "%+v, %v", r, err)
	})
	t.Run("not supported", func(t *testing.T) {
		m, d := mocked(t, every)
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 7, nvml.ERROR_NOT_SUPPORTED }
		r, err := m.Sample()
		assert.That(t, err == nil && r.PowerW == 0 && r.ClockMHz == 1200, "%+v, %v", r, err)
	})
	t.Run("lost", func(t *testing.T) {
		m, d := mocked(t, every)
		const lost = nvml.ERROR_GPU_IS_LOST
		d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 7, lost }
		r, err := m.Sample()
		assert.That(t, err != nil && strings.HasPrefix(err.Error(), "nvmlDeviceGetClockInfo: ") &&
			r.ClockMHz == 0 && r.PowerW != 0, "%+v, %v", r, err)
	})
	t.Run("other GPU", func(t *testing.T) {
		m, err := open(dgxa100.New(), every, "GPU-none")
		assert.That(t, m == nil && err != nil && !strings.Contains(err.Error(), "\n"),
			"%v, %v", m, err)
	})
}

// Which of three processes, with 1, 3 and 2 bytes, are others: testdata/others.txt, by our own processes
// as we number them, and by those that a container sees.
func TestOtherProcessesAreToldFromOurs(t *testing.T) {
	assert.Lines(t, "testdata/others.txt", func(input string) string {
		x := assert.Value[struct {
			Own, Visible []int
			Container    bool
		}](t, input)
		list := []nvml.ProcessInfo{{Pid: 10, UsedGpuMemory: 1}, {Pid: 20, UsedGpuMemory: 3},
			{Pid: 30, UsedGpuMemory: 2}}
		var got []uint32
		for _, p := range withoutOwn(list, x.Own, x.Container,
			func(pid int) bool { return slices.Contains(x.Visible, pid) }) {
			got = append(got, p.Pid)
		}
		return fmt.Sprint(got)
	})
}

func TestEveryThrottleReasonHasAName(t *testing.T) {
	all := uint64(harmless)
	for _, r := range reasons {
		all |= r.bit
	}
	assert.Equal(t, all, nvml.ClocksEventReasonAll,
		"bits", "NVML", uint64(nvml.ClocksEventReasonAll))
	assert.Lines(t, "testdata/reasons.txt", func(mask string) string {
		return strings.Join(throttling(assert.Value[uint64](t, mask)), ", ")
	})
}

// Nothing but getters.
func TestOnlyGettersAreCalled(t *testing.T) {
	reads := regexp.MustCompile(`^(Init|Shutdown|(System|Device)?Get[A-Z].*)$`)
	for _, i := range []reflect.Type{reflect.TypeFor[library](), reflect.TypeFor[deviceHandle]()} {
		for m := range i.NumMethod() {
			name := i.Method(m).Name
			assert.That(t, reads.MatchString(name), "%v has %s", i, name)
		}
	}
}

// The program must start without the libraries: they must not be linked, and names that nothing
// defines must be looked up when they are called and not before. Nor may it export libcuda's names,
// or that library's own calls could bind to the trampolines.
func TestLibrariesAreNotLinked(t *testing.T) {
	exe, err := os.Executable()
	assert.NoError(t, err)
	f, err := elf.Open(exe)
	assert.NoError(t, err)
	defer f.Close()
	libs, err := f.ImportedLibraries()
	assert.NoError(t, err)
	for _, lib := range libs {
		assert.That(t, !strings.HasPrefix(lib, "libnvidia") && !strings.HasPrefix(lib, "libcuda"),
			"the program needs %s: is a function of it not in symbols.h?", lib)
	}
	symbols, err := f.DynamicSymbols()
	assert.Must(t, err == nil || errors.Is(err, elf.ErrNoSymbols), "%v", err)
	for _, s := range symbols {
		assert.That(t, s.Name != "cuInit" && s.Name != "cuMemAlloc_v2",
			"the program exports or imports %s", s.Name)
	}
	now, _ := f.DynValue(elf.DT_BIND_NOW)
	flags, _ := f.DynValue(elf.DT_FLAGS)
	flags1, _ := f.DynValue(elf.DT_FLAGS_1)
	assert.That(t, len(now) == 0 && (len(flags) == 0 || flags[0]&uint64(elf.DF_BIND_NOW) == 0) &&
		(len(flags1) == 0 || flags1[0]&uint64(elf.DF_1_NOW) == 0),
		"the program binds all names when it starts: link with -Wl,-z,lazy")
}

// TestFakeNVMLAnswersThroughTheLoader runs TestLoaderReachesNVML in a process that
// finds a fake libnvidia-ml.so.1, so that the way through go-nvml and the loader is tested without a GPU.
func TestFakeNVMLAnswersThroughTheLoader(t *testing.T) {
	devicetest.RunWithLibrary(t, "libnvidia-ml.so.1", "testdata/fakenvml.c", "TestLoaderReachesNVML",
		"NORMBENCH_FAKE_NVML=1")
}

func TestLoaderReachesNVML(t *testing.T) {
	if os.Getenv("NORMBENCH_FAKE_NVML") == "" {
		t.Skip("run by TestFakeNVMLAnswersThroughTheLoader")
	}
	_, err := Open("GPU-other")
	assert.That(t, err != nil, "a GPU that is not there was opened")
	m, err := Open("GPU-fake")
	assert.NoError(t, err)
	want := kernels.Reading{ClockMHz: 1200, MaxClockMHz: 1980, MemClockMHz: 3201, PowerW: 345.5,
		Throttle: []string{"sw power cap"}}
	r, err := m.Sample()
	assert.That(t, err == nil && reflect.DeepEqual(r, want) && m.DriverVersion() == "",
		"%+v, %v", r, err)
	m.Close()
}

// TestARealGPUIsRead reads a real GPU and says what that costs. NORMBENCH_REQUIRE_CUDA=1 makes a missing one a
// failure.
func TestARealGPUIsRead(t *testing.T) {
	n, err := driver.Count()
	assert.Needs(t, "CUDA", err)
	if n == 0 {
		assert.Needs(t, "CUDA", errors.New("no CUDA device"))
	}
	ctx, err := driver.Open(0)
	assert.NoError(t, err)
	defer ctx.Close()
	m, err := Open(ctx.Info().UUID)
	assert.NoError(t, err)
	defer m.Close()
	assert.That(t, m.DriverVersion() != "", "no driver version")
	if raw, r := m.part.GetComputeRunningProcesses(); r == nvml.SUCCESS {
		t.Logf("processes as NVML lists them: %+v; own %v, in a container %v", raw, m.own,
			m.inContainer)
	}
	start := time.Now()
	r, err := m.Sample()
	t.Logf("Sample: %v, %+v", time.Since(start), r)
	assert.That(t, err == nil && r.ClockMHz > 0 &&
		(r.MaxClockMHz <= 0 || r.ClockMHz <= r.MaxClockMHz), "SM clock %d MHz, at most %d, %v",
		r.ClockMHz, r.MaxClockMHz, err)
}
