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
)

// library is what is used of nvml.Interface. No method here may change anything.
type library interface {
	Init() nvml.Return
	Shutdown() nvml.Return
	SystemGetDriverVersion() (string, nvml.Return)
	SystemGetCudaDriverVersion() (int, nvml.Return)
	SystemGetConfComputeState() (nvml.ConfComputeSystemState, nvml.Return)
	SystemGetProcessName(pid int) (string, nvml.Return)
	DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return)
}

// device is what is used of nvml.Device. No method here may change anything.
type device interface {
	GetName() (string, nvml.Return)
	GetUUID() (string, nvml.Return)
	GetVbiosVersion() (string, nvml.Return)
	GetEccMode() (current, pending nvml.EnableState, r nvml.Return)
	GetMigMode() (current, pending int, r nvml.Return)
	GetPersistenceMode() (nvml.EnableState, nvml.Return)
	GetEnforcedPowerLimit() (uint32, nvml.Return)
	GetMaxClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetClockInfo(nvml.ClockType) (uint32, nvml.Return)
	GetPowerUsage() (uint32, nvml.Return)
	GetTemperature(nvml.TemperatureSensors) (uint32, nvml.Return)
	GetCurrentClocksEventReasons() (uint64, nvml.Return)
	GetCurrentClocksThrottleReasons() (uint64, nvml.Return)
	GetUtilizationRates() (nvml.Utilization, nvml.Return)
	GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return)
}

// A Monitor reads the state of one GPU.
type Monitor struct {
	lib  library
	dev  device // the whole GPU
	part device // where processes are: the GPU, or the MIG instance that was opened
	has  func(symbol string) bool
	own  []int  // process ids that are not others
	unit string // the UUID that was opened
	mig  bool   // a MIG instance was opened

	inContainer bool
	visible     func(pid int) bool // has an entry in /proc
}

// Open opens the GPU with a UUID such as "GPU-1b3c…", as the CUDA driver and nvidia-smi print it.
// The processes that are not others' are this one and own. The error is one line and wraps
// [ErrNoNVML] if there is no NVML or no such GPU.
func Open(uuid string, own ...int) (*Monitor, error) {
	lib := nvml.New()
	return open(lib, func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }, uuid, own)
}

func open(lib library, has func(string) bool, uuid string, own []int) (*Monitor, error) {
	if r := lib.Init(); r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return nil, fmt.Errorf("%w: libnvidia-ml.so.1 not found", ErrNoNVML)
	} else if r != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: nvmlInit: %s", ErrNoNVML, oneLine(r))
	}
	m := &Monitor{lib: lib, has: has, own: append([]int{os.Getpid()}, own...), unit: uuid, inContainer: inContainer(), visible: visible}
	// The CUDA driver's UUID of a MIG instance has no prefix of its own: it is printed like a GPU's.
	names := []string{uuid}
	if rest, ok := strings.CutPrefix(uuid, "GPU-"); ok {
		names = append(names, "MIG-"+rest)
	}
	var first nvml.Return
	for i, name := range names {
		dev, r := lib.DeviceGetHandleByUUID(name)
		if r == nvml.SUCCESS {
			m.dev, m.part, m.unit = dev, dev, name
			if strings.HasPrefix(name, "MIG-") {
				m.mig = true
				if whole, r := dev.GetDeviceHandleFromMigDeviceHandle(); r == nvml.SUCCESS {
					m.dev = whole
				}
			}
			return m, nil
		}
		if i == 0 {
			first = r
		}
	}
	lib.Shutdown()
	return nil, fmt.Errorf("%w of device %s: %s", ErrNoNVML, uuid, oneLine(first))
}

// Beside names the processes that are not others' but this one, in place of those before.
func (m *Monitor) Beside(pids ...int) { m.own = append([]int{os.Getpid()}, pids...) }

// Close lets go of NVML. The Monitor must not be used any more.
func (m *Monitor) Close() error {
	if r := m.lib.Shutdown(); r != nvml.SUCCESS {
		return fmt.Errorf("nvmlShutdown: %s", oneLine(r))
	}
	return nil
}

// A call is one attempt to read a field. Its function is called only if NVML has the symbol.
type call struct {
	field, symbol string
	read          func() nvml.Return
}

// readAll makes the calls and returns the fields that NVML does not offer. The error is of the first
// call that failed for another reason.
func (m *Monitor) readAll(calls []call) (unsupported []string, err error) {
	for _, c := range calls {
		r := nvml.ERROR_FUNCTION_NOT_FOUND
		if m.has(c.symbol) {
			r = c.read()
		}
		if r == nvml.SUCCESS {
			continue
		}
		if !slices.Contains(unsupported, c.field) {
			unsupported = append(unsupported, c.field)
		}
		switch r {
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NOT_FOUND:
		default:
			if err == nil {
				err = fmt.Errorf("%s: %s", c.symbol, oneLine(r))
			}
		}
	}
	return unsupported, err
}

// Static describes the GPU. A field that could not be read is zero and named in Unsupported.
func (m *Monitor) Static() Static {
	var s Static
	s.Unsupported, _ = m.readAll([]call{
		{"name", "nvmlDeviceGetName", func() (r nvml.Return) { s.Name, r = m.dev.GetName(); return }},
		{"driver_version", "nvmlSystemGetDriverVersion", func() (r nvml.Return) { s.DriverVersion, r = m.lib.SystemGetDriverVersion(); return }},
		{"cuda_driver", "nvmlSystemGetCudaDriverVersion", func() (r nvml.Return) { s.CUDADriver, r = m.lib.SystemGetCudaDriverVersion(); return }},
		{"vbios", "nvmlDeviceGetVbiosVersion", func() (r nvml.Return) { s.VBIOS, r = m.dev.GetVbiosVersion(); return }},
		{"ecc", "nvmlDeviceGetEccMode", func() nvml.Return {
			on, _, r := m.dev.GetEccMode()
			s.ECC = r == nvml.SUCCESS && on == nvml.FEATURE_ENABLED
			return r
		}},
		{"mig", "nvmlDeviceGetMigMode", func() nvml.Return { return m.migMode(&s.MIG) }},
		{"confidential", "nvmlSystemGetConfComputeState", func() nvml.Return {
			state, r := m.lib.SystemGetConfComputeState()
			s.Confidential = r == nvml.SUCCESS && state.CcFeature == nvml.CC_SYSTEM_FEATURE_ENABLED
			return r
		}},
		{"persistence_mode", "nvmlDeviceGetPersistenceMode", func() nvml.Return {
			on, r := m.dev.GetPersistenceMode()
			s.PersistenceMode = r == nvml.SUCCESS && on == nvml.FEATURE_ENABLED
			return r
		}},
		{"power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", func() nvml.Return {
			mw, r := m.dev.GetEnforcedPowerLimit()
			s.PowerLimitW = number(float64(mw)/1000, r)
			return r
		}},
		{"max_sm_clock_mhz", "nvmlDeviceGetMaxClockInfo", func() nvml.Return {
			mhz, r := m.dev.GetMaxClockInfo(nvml.CLOCK_SM)
			s.MaxSMClockMHz = number(int(mhz), r)
			return r
		}},
		{"max_mem_clock_mhz", "nvmlDeviceGetMaxClockInfo", func() nvml.Return {
			mhz, r := m.dev.GetMaxClockInfo(nvml.CLOCK_MEM)
			s.MaxMemClockMHz = number(int(mhz), r)
			return r
		}},
		{"shared_with", "nvmlDeviceGetComputeRunningProcesses", func() nvml.Return { return m.others(&s.SharedWith) }},
	})
	s.UUID = m.unit
	s.MIG = s.MIG || m.mig
	return s
}

// Sample reads the state now. A field that could not be read is zero and named in Unsupported. It
// fails, after reading what it can, if the GPU does not answer: it is lost, say.
func (m *Monitor) Sample() (Reading, error) {
	var r Reading
	unsupported, err := m.readAll(m.sample(&r))
	r.Unsupported = unsupported
	r.MIG = r.MIG || m.mig
	return r, err
}

func (m *Monitor) sample(s *Reading) []call {
	eventReasons := func(get func() (uint64, nvml.Return)) func() nvml.Return {
		return func() nvml.Return {
			mask, r := get()
			if r == nvml.SUCCESS {
				s.ThrottleReasons, s.Throttling = decode(mask)
			}
			return r
		}
	}
	// Old drivers have only the second name.
	why := call{"throttle_reasons", "nvmlDeviceGetCurrentClocksEventReasons", eventReasons(m.dev.GetCurrentClocksEventReasons)}
	if !m.has(why.symbol) {
		why = call{"throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", eventReasons(m.dev.GetCurrentClocksThrottleReasons)}
	}
	return []call{
		{"sm_clock_mhz", "nvmlDeviceGetClockInfo", func() nvml.Return {
			mhz, r := m.dev.GetClockInfo(nvml.CLOCK_SM)
			s.SMClockMHz = number(int(mhz), r)
			return r
		}},
		{"mem_clock_mhz", "nvmlDeviceGetClockInfo", func() nvml.Return {
			mhz, r := m.dev.GetClockInfo(nvml.CLOCK_MEM)
			s.MemClockMHz = number(int(mhz), r)
			return r
		}},
		why,
		{"power_w", "nvmlDeviceGetPowerUsage", func() nvml.Return {
			mw, r := m.dev.GetPowerUsage()
			s.PowerW = number(float64(mw)/1000, r)
			return r
		}},
		{"temperature_c", "nvmlDeviceGetTemperature", func() nvml.Return {
			c, r := m.dev.GetTemperature(nvml.TEMPERATURE_GPU)
			s.TemperatureC = number(int(c), r)
			return r
		}},
		{"utilization", "nvmlDeviceGetUtilizationRates", func() nvml.Return {
			u, r := m.dev.GetUtilizationRates()
			s.Utilization, s.MemoryUtilization = number(int(u.Gpu), r), number(int(u.Memory), r)
			return r
		}},
		{"mig", "nvmlDeviceGetMigMode", func() nvml.Return { return m.migMode(&s.MIG) }},
		{"other_processes", "nvmlDeviceGetComputeRunningProcesses", func() nvml.Return { return m.others(&s.OtherProcesses) }},
	}
}

// number is v, or 0 if the call that gave it failed.
func number[T int | float64](v T, r nvml.Return) T {
	if r != nvml.SUCCESS {
		return 0
	}
	return v
}

func (m *Monitor) migMode(on *bool) nvml.Return {
	mode, _, r := m.dev.GetMigMode()
	*on = r == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
	return r
}

func (m *Monitor) others(list *[]Process) nvml.Return {
	infos, r := m.part.GetComputeRunningProcesses()
	if r != nvml.SUCCESS {
		return r
	}
	var all []Process
	for _, info := range infos {
		p := Process{PID: int(info.Pid), MemoryBytes: info.UsedGpuMemory}
		if p.MemoryBytes == ^uint64(0) { // not available
			p.MemoryBytes = 0
		}
		all = append(all, p)
	}
	*list = foreign(all, m.own, m.inContainer, m.visible)
	for i := range *list {
		p := &(*list)[i]
		if !m.inContainer && m.has("nvmlSystemGetProcessName") { // elsewhere the id may be another's
			if name, r := m.lib.SystemGetProcessName(p.PID); r == nvml.SUCCESS {
				p.Name = filepath.Base(strings.TrimRight(name, " "))
			}
		}
	}
	return r
}

// foreign leaves out the own processes; see the package comment for those of a container.
func foreign(all []Process, own []int, inContainer bool, visible func(int) bool) []Process {
	missing := 0
	for _, pid := range own {
		if !slices.ContainsFunc(all, func(p Process) bool { return p.PID == pid }) {
			missing++
		}
	}
	others := slices.DeleteFunc(all, func(p Process) bool { return slices.Contains(own, p.PID) })
	if !inContainer {
		return others
	}
	slices.SortStableFunc(others, func(a, b Process) int { return cmp.Compare(b.MemoryBytes, a.MemoryBytes) })
	return slices.DeleteFunc(others, func(p Process) bool {
		if missing == 0 || visible(p.PID) {
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
