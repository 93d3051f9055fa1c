//go:build cuda && cgo

package nvml

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"normbench/kernels/cuda/driver"
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
	d.GetClockInfoFunc, d.GetMaxClockInfoFunc = clock, func(c nvml.ClockType) (uint32, nvml.Return) {
		mhz, r := clock(c)
		return mhz + 10, r
	}
	d.GetVbiosVersionFunc = func() (string, nvml.Return) { return "92.00", nvml.SUCCESS }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_DISABLED, nvml.SUCCESS
	}
	d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 400_500, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 123_250, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 41, nvml.SUCCESS }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x5, nvml.SUCCESS }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0x20, nvml.SUCCESS }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 90, Memory: 40}, nvml.SUCCESS }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{
			{Pid: uint32(os.Getpid()), UsedGpuMemory: 1 << 20},
			{Pid: 4242, UsedGpuMemory: 5 << 20},
			{Pid: 4243, UsedGpuMemory: ^uint64(0)},
			{Pid: 4244, UsedGpuMemory: 1},
		}, nvml.SUCCESS
	}
	m, err := open(server, has, d.UUID, []int{4244})
	if err != nil {
		t.Fatal(err)
	}
	m.inContainer = false
	return m, d
}

func TestMock(t *testing.T) {
	m, d := mocked(t, every)
	others := []Process{{PID: 4242, Name: "python", MemoryBytes: 5 << 20}, {PID: 4243}}
	s := m.Static()
	want := Static{Name: d.Name, UUID: d.UUID, DriverVersion: s.DriverVersion, CUDADriver: s.CUDADriver, VBIOS: "92.00",
		ECC: true, Confidential: true, PersistenceMode: true, PowerLimitW: 400.5, MaxSMClockMHz: 1210, MaxMemClockMHz: 1603, SharedWith: others}
	if !reflect.DeepEqual(s, want) || s.DriverVersion == "" || s.CUDADriver < 11000 {
		t.Errorf("static\ngot  %+v\nwant %+v", s, want)
	}
	r, err := m.Sample()
	wantReading := Reading{SMClockMHz: 1200, MemClockMHz: 1593, PowerW: 123.25, TemperatureC: 41,
		ThrottleReasons: []string{"gpu idle", "sw power cap"}, Throttling: []string{"sw power cap"}, Utilization: 90, MemoryUtilization: 40, OtherProcesses: others}
	if err != nil || !reflect.DeepEqual(r, wantReading) {
		t.Errorf("reading, %v\ngot  %+v\nwant %+v", err, r, wantReading)
	}
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	if r, err := m.Sample(); err != nil || !r.MIG || !m.Static().MIG {
		t.Errorf("MIG is not noticed: %+v, %v", r, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnsupported(t *testing.T) {
	t.Run("old driver", func(t *testing.T) {
		m, _ := mocked(t, func(symbol string) bool { return symbol != "nvmlDeviceGetCurrentClocksEventReasons" })
		if r, err := m.Sample(); err != nil || !slices.Equal(r.ThrottleReasons, []string{"sw thermal slowdown"}) || r.Unsupported != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("nothing", func(t *testing.T) { // and no function is called that is not there
		m, _ := mocked(t, every)
		m.has = func(string) bool { return false }
		r, err := m.Sample()
		if err != nil || !reflect.DeepEqual(r, Reading{Unsupported: []string{"sm_clock_mhz", "mem_clock_mhz", "throttle_reasons",
			"power_w", "temperature_c", "utilization", "mig", "other_processes"}}) {
			t.Errorf("%+v, %v", r, err)
		}
		if s := m.Static(); len(s.Unsupported) != 12 || s.UUID == "" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("not supported", func(t *testing.T) {
		m, d := mocked(t, every)
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 7, nvml.ERROR_NOT_SUPPORTED }
		if r, err := m.Sample(); err != nil || r.PowerW != 0 || !slices.Equal(r.Unsupported, []string{"power_w"}) || r.SMClockMHz != 1200 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		m, d := mocked(t, every)
		d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 7, nvml.ERROR_GPU_IS_LOST }
		r, err := m.Sample()
		if err == nil || !strings.HasPrefix(err.Error(), "nvmlDeviceGetClockInfo: ") || r.SMClockMHz != 0 || r.PowerW == 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("other GPU", func(t *testing.T) {
		if m, err := open(dgxa100.New(), every, "GPU-none", nil); m != nil || !errors.Is(err, ErrNoNVML) {
			t.Errorf("%v, %v", m, err)
		}
	})
}

// Every field that can fail is named as its JSON is.
func TestFieldNames(t *testing.T) {
	m, _ := mocked(t, every)
	m.has = func(string) bool { return false }
	r, _ := m.Sample()
	for _, v := range []struct {
		value any
		names []string
	}{{r, r.Unsupported}, {m.Static(), m.Static().Unsupported}} {
		b, err := json.Marshal(v.value)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range v.names {
			if _, ok := fields[name]; !ok {
				t.Errorf("%s is not a field of %v", name, slices.Sorted(maps.Keys(fields)))
			}
		}
	}
}

func TestForeign(t *testing.T) {
	list := func() []Process {
		return []Process{{PID: 10, MemoryBytes: 1}, {PID: 20, MemoryBytes: 3}, {PID: 30, MemoryBytes: 2}}
	}
	for _, tt := range []struct {
		name      string
		own       []int
		container bool
		visible   []int
		want      []int
	}{
		{"own by id", []int{20}, false, nil, []int{10, 30}},
		{"own computes nothing", []int{5}, false, nil, []int{10, 20, 30}},
		{"container, own by id", []int{20}, true, nil, []int{30, 10}},
		{"container, own is the largest unseen", []int{5}, true, []int{20}, []int{20, 10}},
		{"container, two of them", []int{5, 6}, true, nil, []int{10}},
		{"container, all are seen", []int{5}, true, []int{10, 20, 30}, []int{20, 30, 10}},
	} {
		var got []int
		for _, p := range foreign(list(), tt.own, tt.container, func(pid int) bool { return slices.Contains(tt.visible, pid) }) {
			got = append(got, p.PID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The bits are NVML's.
// A process that belongs to the measurement is no stranger, for as long as it is named.
func TestBeside(t *testing.T) {
	m, d := mocked(t, every)
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: uint32(os.Getpid())}, {Pid: 4_000_001}, {Pid: 4_000_002}}, nvml.SUCCESS
	}
	m.inContainer = false
	others := func() (pids []int) {
		r, err := m.Sample()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.OtherProcesses {
			pids = append(pids, p.PID)
		}
		return pids
	}
	if got := others(); !slices.Equal(got, []int{4_000_001, 4_000_002}) {
		t.Errorf("alone: others %v", got)
	}
	m.Beside(4_000_001)
	if got := others(); !slices.Equal(got, []int{4_000_002}) {
		t.Errorf("with one beside: others %v", got)
	}
	m.Beside()
	if got := others(); len(got) != 2 {
		t.Errorf("with none any more: others %v", got)
	}
}

func TestReasons(t *testing.T) {
	var all uint64
	for _, r := range reasons {
		all |= r.bit
	}
	if all != nvml.ClocksEventReasonAll {
		t.Errorf("bits %#x, NVML has %#x", all, nvml.ClocksEventReasonAll)
	}
	for bit, name := range map[uint64]string{
		nvml.ClocksEventReasonGpuIdle: "gpu idle", nvml.ClocksEventReasonApplicationsClocksSetting: "application clocks",
		nvml.ClocksEventReasonSwPowerCap: "sw power cap", nvml.ClocksThrottleReasonHwSlowdown: "hw slowdown",
		nvml.ClocksEventReasonSyncBoost: "sync boost", nvml.ClocksEventReasonSwThermalSlowdown: "sw thermal slowdown",
		nvml.ClocksThrottleReasonHwThermalSlowdown: "hw thermal slowdown", nvml.ClocksThrottleReasonHwPowerBrakeSlowdown: "hw power brake",
		nvml.ClocksEventReasonDisplayClockSetting: "display clocks",
	} {
		if names, _ := decode(bit); !slices.Equal(names, []string{name}) {
			t.Errorf("%#x is %q, not %q", bit, names, name)
		}
	}
}

// Nothing but getters: neither in the interfaces nor anywhere in the code.
func TestReadOnly(t *testing.T) {
	reads := regexp.MustCompile(`^(Init|Shutdown|(System|Device)?Get[A-Z].*)$`)
	for _, i := range []reflect.Type{reflect.TypeFor[library](), reflect.TypeFor[device]()} {
		for m := range i.NumMethod() {
			if name := i.Method(m).Name; !reads.MatchString(name) {
				t.Errorf("%v has %s", i, name)
			}
		}
	}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Skip("the sources are not here")
	}
	typ := reflect.TypeFor[nvml.Device]()
	other := reflect.TypeFor[nvml.Interface]()
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			_, a := typ.MethodByName(s.Sel.Name)
			_, b := other.MethodByName(s.Sel.Name)
			if (a || b) && s.Sel.Name != "Extensions" && s.Sel.Name != "LookupSymbol" && !reads.MatchString(s.Sel.Name) {
				t.Errorf("%s: %s may change a setting", fset.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
}

// The program must start without the library: it must not be linked, and its names, which nothing
// defines, must be looked up when they are called and not before.
func TestNotLinked(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range libs {
		if strings.HasPrefix(lib, "libnvidia") || strings.HasPrefix(lib, "libcuda") {
			t.Errorf("the program needs %s", lib)
		}
	}
	now, _ := f.DynValue(elf.DT_BIND_NOW)
	flags, _ := f.DynValue(elf.DT_FLAGS)
	flags1, _ := f.DynValue(elf.DT_FLAGS_1)
	if len(now) > 0 || len(flags) > 0 && flags[0]&uint64(elf.DF_BIND_NOW) != 0 || len(flags1) > 0 && flags1[0]&uint64(elf.DF_1_NOW) != 0 {
		t.Error("the program binds all names when it starts: link with -Wl,-z,lazy")
	}
}

// TestFakeNVML runs TestFake in a process that finds a fake libnvidia-ml.so.1, so that the way
// through go-nvml and the loader is tested without a GPU.
func TestFakeNVML(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	dir := t.TempDir()
	lib := filepath.Join(dir, "libnvidia-ml.so.1")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, "testdata/fakenvml.c").CombinedOutput(); err != nil {
		t.Skipf("cannot compile the fake library: %v: %s", err, out)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFake$", "-test.v")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "NORMBENCH_FAKE_NVML=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFake") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestFake(t *testing.T) {
	if os.Getenv("NORMBENCH_FAKE_NVML") == "" {
		t.Skip("run by TestFakeNVML")
	}
	if _, err := Open("GPU-other"); !errors.Is(err, ErrNoNVML) {
		t.Errorf("got %v", err)
	}
	m, err := Open("GPU-fake")
	if err != nil {
		t.Fatal(err)
	}
	s := m.Static()
	if s.Name != "Fake" || s.CUDADriver != 13000 || s.MaxSMClockMHz != 1980 || s.MIG || !slices.Equal(s.Unsupported,
		[]string{"driver_version", "vbios", "ecc", "confidential", "persistence_mode", "power_limit_w", "shared_with"}) {
		t.Errorf("%+v", s)
	}
	r, err := m.Sample()
	if err != nil || r.SMClockMHz != 1200 || r.PowerW != 345.5 || !slices.Equal(r.ThrottleReasons, []string{"sw power cap"}) ||
		!slices.Equal(r.Unsupported, []string{"temperature_c", "utilization", "other_processes"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestGPU reads a real GPU and says what that costs. NORMBENCH_REQUIRE_CUDA=1 makes a missing one a
// failure.
func TestGPU(t *testing.T) {
	skip := func(err error) {
		if os.Getenv("NORMBENCH_REQUIRE_CUDA") == "1" {
			t.Fatalf("NORMBENCH_REQUIRE_CUDA is set, but: %v", err)
		}
		t.Skip(err)
	}
	if n, err := driver.Count(); err != nil {
		skip(err)
	} else if n == 0 {
		skip(errors.New("no CUDA device"))
	}
	ctx, err := driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	start := time.Now()
	m, err := Open(ctx.Info().UUID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Open: %v", time.Since(start))
	start = time.Now()
	s := m.Static()
	t.Logf("Static: %v", time.Since(start))
	b, _ := json.MarshalIndent(s, "", "  ")
	t.Logf("%s", b)
	if s.Name != ctx.Info().Name || !m.mig && s.UUID != ctx.Info().UUID || s.CUDADriver != ctx.Info().DriverVersion || s.DriverVersion == "" {
		t.Errorf("NVML says %+v, the driver %+v", s, ctx.Info())
	}
	if uuid, r := m.dev.GetUUID(); r != nvml.SUCCESS || !m.mig && uuid != s.UUID {
		t.Errorf("NVML says %s, %v of device %s", uuid, r, s.UUID)
	}
	for _, p := range s.SharedWith {
		if p.PID == os.Getpid() {
			t.Error("the GPU is shared with this very process")
		}
	}
	if raw, r := m.part.GetComputeRunningProcesses(); r == nvml.SUCCESS {
		t.Logf("processes as NVML lists them: %+v; own %v, in a container %v", raw, m.own, m.inContainer)
	}
	var r Reading
	const n = 20
	start = time.Now()
	for range n {
		if r, err = m.Sample(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("Sample: %v", time.Since(start)/n)
	for _, c := range m.sample(&r) {
		start := time.Now()
		for range n {
			c.read()
		}
		t.Logf("  %-20s %v", c.field, time.Since(start)/n)
	}
	b, _ = json.MarshalIndent(r, "", "  ")
	t.Logf("%s", b)
	if r.SMClockMHz <= 0 || s.MaxSMClockMHz > 0 && r.SMClockMHz > s.MaxSMClockMHz {
		t.Errorf("SM clock %d MHz, at most %d", r.SMClockMHz, s.MaxSMClockMHz)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
