//go:build cuda && cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"normbench/kernels"
)

// A library has the functions of nvml.Interface that are used. No method here may change anything.
type library interface {
	Init() nvml.Return
	Shutdown() nvml.Return
	SystemGetDriverVersion() (string, nvml.Return)
	SystemGetConfComputeState() (nvml.ConfComputeSystemState, nvml.Return)
	SystemGetProcessName(pid int) (string, nvml.Return)
	DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return)
}

// A deviceHandle has the functions of nvml.Device that are used. No method here may change anything.
type deviceHandle interface {
	GetEccMode() (current, pending nvml.EnableState, r nvml.Return)
	GetMigMode() (current, pending int, r nvml.Return)
	GetMaxClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetPowerUsage() (uint32, nvml.Return)
	GetTemperature(nvml.TemperatureSensors) (uint32, nvml.Return)
	GetCurrentClocksEventReasons() (uint64, nvml.Return)
	GetCurrentClocksThrottleReasons() (uint64, nvml.Return)
	GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return)
}

// A Monitor reads the state of one GPU.
type Monitor struct {
	lib    library
	dev    deviceHandle // the whole GPU
	part   deviceHandle // where processes are: the GPU, or the MIG instance that was opened
	has    func(symbol string) bool
	own    []int // process ids that are not others
	driver string
	fixed  kernels.Reading // what does not change, unless somebody changes a setting
	mig    bool            // a MIG instance was opened
	err    error           // why a value could not be read, though NVML offers it

	inContainer bool
	visible     func(pid int) bool // has an entry in /proc
}

// Open opens the GPU with a UUID such as "GPU-1b3c…", as the CUDA driver and nvidia-smi print it.
// The error is one line: there is no NVML, or no such GPU.
func Open(uuid string) (*Monitor, error) {
	lib := nvml.New()
	return open(lib, func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }, uuid)
}

func open(lib library, has func(string) bool, uuid string) (*Monitor, error) {
	if r := lib.Init(); r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return nil, errors.New("no NVML: libnvidia-ml.so.1 not found")
	} else if r != nvml.SUCCESS {
		return nil, fmt.Errorf("no NVML: nvmlInit: %s", oneLine(r))
	}
	m := &Monitor{lib: lib, has: has, own: []int{os.Getpid()}, inContainer: inContainer(), visible: visible}
	dev, r := lib.DeviceGetHandleByUUID(uuid)
	// The CUDA driver's UUID of a MIG instance has no prefix of its own: it is printed like a
	// GPU's.
	if rest, ok := strings.CutPrefix(uuid, "GPU-"); ok && r != nvml.SUCCESS {
		if part, r2 := lib.DeviceGetHandleByUUID("MIG-" + rest); r2 == nvml.SUCCESS {
			dev, r, m.mig = part, r2, true
		}
	}
	if r != nvml.SUCCESS {
		lib.Shutdown()
		return nil, fmt.Errorf("no NVML of device %s: %s", uuid, oneLine(r))
	}
	m.dev, m.part = dev, dev
	if m.mig {
		if whole, r := dev.GetDeviceHandleFromMigDeviceHandle(); r == nvml.SUCCESS {
			m.dev = whole
		}
	}
	m.driver = get(m, "nvmlSystemGetDriverVersion", lib.SystemGetDriverVersion)
	m.fixed.MaxClockMHz = m.clock("nvmlDeviceGetMaxClockInfo", m.dev.GetMaxClockInfo, nvml.CLOCK_SM)
	m.fixed.ECC = get(m, "nvmlDeviceGetEccMode", func() (nvml.EnableState, nvml.Return) {
		on, _, r := m.dev.GetEccMode()
		return on, r
	}) == nvml.FEATURE_ENABLED
	// It does not change while a process has a context. Asking takes longer than all else together.
	m.fixed.Sliced = m.mig || get(m, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		mode, _, r := m.dev.GetMigMode()
		return mode, r
	}) == nvml.DEVICE_MIG_ENABLE
	m.fixed.Confidential = get(m, "nvmlSystemGetConfComputeState", lib.SystemGetConfComputeState).CcFeature ==
		nvml.CC_SYSTEM_FEATURE_ENABLED
	return m, nil
}

// DriverVersion returns the driver's version, such as "580.65.06", "" where it is not known.
func (m *Monitor) DriverVersion() string { return m.driver }

// IgnoreProcesses sets the processes that belong to the measurement, beside this one, in place of those
// set before.
func (m *Monitor) IgnoreProcesses(pids ...int) { m.own = append([]int{os.Getpid()}, pids...) }

// Close closes NVML. The Monitor must not be used any more.
func (m *Monitor) Close() { m.lib.Shutdown() }

// get is a value, or zero where NVML does not offer it. The function is called only if NVML has the
// symbol.
func get[T any](m *Monitor, symbol string, read func() (T, nvml.Return)) (v T) {
	if !m.has(symbol) {
		return v
	}
	switch x, r := read(); r {
	case nvml.SUCCESS:
		return x
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_PERMISSION,
		nvml.ERROR_NOT_FOUND:
	default:
		if m.err == nil {
			m.err = fmt.Errorf("%s: %s", symbol, oneLine(r))
		}
	}
	return v
}

func (m *Monitor) clock(symbol string, read func(nvml.ClockType) (uint32, nvml.Return),
	c nvml.ClockType) int {
	return int(get(m, symbol, func() (uint32, nvml.Return) { return read(c) }))
}

// Sample reads the state now. What could not be read is zero. It fails, after reading what it
// can, if the GPU does not answer: it is lost, say.
func (m *Monitor) Sample() (kernels.Reading, error) {
	m.err = nil
	r := m.fixed
	r.ClockMHz = m.clock("nvmlDeviceGetClockInfo", m.dev.GetClockInfo, nvml.CLOCK_SM)
	r.MemClockMHz = m.clock("nvmlDeviceGetClockInfo", m.dev.GetClockInfo, nvml.CLOCK_MEM)
	reasons, why := "nvmlDeviceGetCurrentClocksEventReasons", m.dev.GetCurrentClocksEventReasons
	if !m.has(reasons) { // an old driver has another name
		reasons, why = "nvmlDeviceGetCurrentClocksThrottleReasons", m.dev.GetCurrentClocksThrottleReasons
	}
	r.Throttle = throttling(get(m, reasons, why))
	r.PowerW = float64(get(m, "nvmlDeviceGetPowerUsage", m.dev.GetPowerUsage)) / 1000
	r.TemperatureC = int(get(m, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return m.dev.GetTemperature(nvml.TEMPERATURE_GPU)
	}))
	infos := get(m, "nvmlDeviceGetComputeRunningProcesses", m.part.GetComputeRunningProcesses)
	for _, p := range withoutOwn(infos, m.own, m.inContainer, m.visible) {
		text := fmt.Sprintf("process %d", p.Pid)
		if !m.inContainer && m.has("nvmlSystemGetProcessName") { // elsewhere the id may be another's
			if name, r := m.lib.SystemGetProcessName(int(p.Pid)); r == nvml.SUCCESS {
				text += fmt.Sprintf(" (%s)", filepath.Base(strings.TrimRight(name, " ")))
			}
		}
		r.Others = append(r.Others, text)
	}
	return r, m.err
}

// harmless are the bits of NVML's clocks event reasons that leave measurements comparable: an idle
// GPU is not slowed down, and clocks that somebody set stay where they are; their number says if
// they are low.
const harmless = nvml.ClocksEventReasonGpuIdle | nvml.ClocksEventReasonApplicationsClocksSetting |
	nvml.ClocksEventReasonDisplayClockSetting

// reasons are the other bits.
var reasons = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksEventReasonSwPowerCap, "sw power cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hw slowdown"},
	{nvml.ClocksEventReasonSyncBoost, "sync boost"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "sw thermal slowdown"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hw thermal slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "hw power brake"},
}

// throttling names the bits of a mask that hold the clock down. A bit that is not known does.
func throttling(mask uint64) (names []string) {
	mask &^= harmless
	for _, r := range reasons {
		if mask&r.bit != 0 {
			names = append(names, r.name)
			mask &^= r.bit
		}
	}
	if mask != 0 {
		names = append(names, fmt.Sprintf("unknown %#x", mask))
	}
	return names
}

// withoutOwn lists the processes on the card that are not ours. In a container NVML names ours by numbers
// of the host, which do not exist here: as many such processes as ours are missing count as ours, those
// with the most memory first.
func withoutOwn(all []nvml.ProcessInfo, own []int, inContainer bool,
	visible func(int) bool) []nvml.ProcessInfo {
	missing := len(own)
	others := slices.DeleteFunc(slices.Clone(all), func(p nvml.ProcessInfo) bool {
		mine := slices.Contains(own, int(p.Pid))
		if mine {
			missing--
		}
		return mine
	})
	if !inContainer {
		return others
	}
	// all bits are set where it is not known
	memory := func(p nvml.ProcessInfo) uint64 { return p.UsedGpuMemory + 1 }
	slices.SortStableFunc(others, func(a, b nvml.ProcessInfo) int {
		return cmp.Compare(memory(b), memory(a))
	})
	return slices.DeleteFunc(others, func(p nvml.ProcessInfo) bool {
		if missing <= 0 || visible(int(p.Pid)) {
			return false
		}
		missing--
		return true
	})
}

func visible(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return !errors.Is(err, os.ErrNotExist)
}

// inContainer says whether process ids here are not the host's. The number is that of the first
// namespace, fixed in the kernel (PROC_PID_INIT_INO).
func inContainer() bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ns != "pid:[4026531836]"
}

func oneLine(r nvml.Return) string { return strings.Join(strings.Fields(r.Error()), " ") }
