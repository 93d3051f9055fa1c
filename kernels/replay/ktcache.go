package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
)

// A Cache is a kernel_tuner cache file as far as a replay needs it
// (kernel_tuner/util.py, 1.4). Its tune parameters are knobs, by key or name, and
// "family"; its kernel is a problem, with underscores for slashes. What
// kernel_tuner does not know stands under names of our own: the device, the
// samples of the stream, and per entry the status and its reason.
type Cache struct {
	DeviceName string
	Device     kernels.DeviceInfo
	Problem    kernels.Problem
	Cache      string // cold, rotate or warm; "" where it is not known
	Entries    []Measurement
}

// The names that normbench adds to a cache's own.
const (
	KeyDevice = "normbench_device"
	KeyStream = "normbench_stream_us"
	KeyCache  = "normbench_cache"
	KeyFamily = "family"
	KeyStatus = "normbench_status"
	KeyReason = "normbench_reason"
	// NoKnob is the value of a knob that the entry's family does not have.
	NoKnob = -1
)

// KernelName is a problem as a cache's kernel_name.
func KernelName(p kernels.Problem) string { return strings.ReplaceAll(p.String(), "/", "_") }

// errorNames are what kernel_tuner calls a config that failed.
var errorNames = map[string]kernels.Status{
	"InvalidConfig":           kernels.StatusRefused,
	"CompilationFailedConfig": kernels.StatusCompile,
	"RuntimeFailedConfig":     kernels.StatusLaunch,
}

// IsCache says whether a file looks like a cache and not like records.
func IsCache(start []byte) bool {
	s := strings.TrimSpace(string(start))
	return strings.HasPrefix(s, "{") && (strings.Contains(s, `"device_name"`) || strings.Contains(s, `"kernel_name"`)) && !strings.HasPrefix(s, `{"schema"`)
}

// ParseCache reads a kernel_tuner cache, also one that is not closed, as
// kernel_tuner leaves it when it is stopped. name is for errors.
func ParseCache(name string, data []byte) (*Cache, error) {
	const help = "export one with `normbench export RECORDS --format kt-cache`"
	var f struct {
		Schema     string              `json:"schema_version"`
		DeviceName string              `json:"device_name"`
		KernelName string              `json:"kernel_name"`
		Keys       []string            `json:"tune_params_keys"`
		Device     *kernels.DeviceInfo `json:"normbench_device"`
		Stream     []float64           `json:"normbench_stream_us"`
		State      string              `json:"normbench_cache"`
		Cache      map[string]map[string]any
	}
	if err := durable.Once(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	err := json.Unmarshal(data, &f)
	if err != nil {
		// kernel_tuner appends entries with a comma behind each.
		open := strings.TrimRight(strings.TrimSpace(string(data)), ",")
		if json.Unmarshal([]byte(open+"}\n}"), &f) != nil {
			return nil, hint.Errorf(help, "%s: not a kernel_tuner cache: %v", name, err)
		}
	}
	if !knownSchema(f.Schema) {
		return nil, hint.Errorf(help, "%s: schema %.80q is not known", name, f.Schema)
	}
	if f.Cache == nil {
		return nil, hint.Errorf(help, "%s: not a kernel_tuner cache: it has no \"cache\"", name)
	}
	c := &Cache{DeviceName: f.DeviceName, Cache: f.State}
	if c.Problem, err = kernels.ParseProblem(strings.ReplaceAll(f.KernelName, "_", "/")); err != nil {
		return nil, hint.Errorf("kernel_name is a problem such as rmsnorm_bwd_4096x8192_bf16", "%s: kernel %.80q is none of ours", name, f.KernelName)
	}
	if f.Device == nil || f.Device.SMs < 1 {
		return nil, hint.Errorf(help, "%s: it does not say in %q how large its device is", name, KeyDevice)
	}
	if c.Device = *f.Device; kernels.CheckID(c.Device.ID) != nil {
		return nil, fmt.Errorf("%s: %w", name, kernels.CheckID(c.Device.ID))
	}
	for _, k := range f.Keys {
		if k == KeyFamily {
			continue
		}
		if _, err := kernels.ParseKnob(k); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	keys := make([]string, 0, len(f.Cache))
	for k := range f.Cache {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	seen := make(map[kernels.Variant]bool, len(keys))
	for _, k := range keys {
		m, err := entry(f.Cache[k], f.Keys)
		if err == nil && seen[m.Variant] {
			err = fmt.Errorf("the config stands twice")
		}
		if err != nil {
			return nil, hint.Errorf(help, "%s: entry %.80q: %w", name, k, err)
		}
		seen[m.Variant] = true
		m.Problem = c.Problem
		c.Entries = append(c.Entries, m)
	}
	if len(f.Stream) > 0 {
		if !times(f.Stream) {
			return nil, hint.Errorf(help, "%s: %q holds no times", name, KeyStream)
		}
		c.Entries = append(c.Entries, Measurement{Problem: c.Problem, Variant: kernels.Variant{Family: Stream}, Status: kernels.StatusOK, SamplesUS: f.Stream})
	}
	return c, nil
}

func entry(e map[string]any, keys []string) (Measurement, error) {
	m := Measurement{Status: kernels.StatusOK}
	var settings []kernels.Setting
	for _, k := range keys {
		if k == KeyFamily {
			m.Variant.Family, _ = e[k].(string)
			continue
		}
		f, ok := e[k].(float64)
		if !ok || f != math.Trunc(f) || f < NoKnob || f > 1<<30 {
			return m, fmt.Errorf("%q is no whole number", k)
		}
		knob, err := kernels.ParseKnob(k)
		if err != nil {
			return m, err
		}
		if f != NoKnob {
			settings = append(settings, kernels.Setting{Knob: knob, Value: int(f)})
		}
	}
	if m.Variant.Family == "" {
		return m, fmt.Errorf("no %q", KeyFamily)
	}
	m.Variant.Config = kernels.NewConfig(settings...)
	for _, k := range []string{"time", "__error__"} {
		if s, ok := e[k].(string); ok {
			status, known := errorNames[s]
			if !known {
				return m, fmt.Errorf("unknown error %.80q", s)
			}
			m.Status, m.Reason = status, s
		}
	}
	if s, ok := e[KeyStatus].(string); ok && m.Status != kernels.StatusOK {
		m.Status = kernels.Status(s)
	}
	if s, ok := e[KeyReason].(string); ok && m.Status != kernels.StatusOK {
		m.Reason = s
	}
	if m.Status != kernels.StatusOK {
		return m, nil
	}
	ms, _ := e["times"].([]any)
	for _, x := range ms {
		f, _ := x.(float64)
		m.SamplesUS = append(m.SamplesUS, f*1e3)
	}
	if f, ok := e["time"].(float64); ok && !times([]float64{f}) {
		return m, fmt.Errorf("a time of %g", f)
	} else if ok && len(ms) == 0 {
		m.SamplesUS = []float64{f * 1e3}
	}
	if len(m.SamplesUS) == 0 || !times(m.SamplesUS) {
		return m, fmt.Errorf("no times")
	}
	return m, nil
}

func times(us []float64) bool {
	for _, t := range us {
		if !(t > 0) || math.IsInf(t, 0) {
			return false
		}
	}
	return true
}
