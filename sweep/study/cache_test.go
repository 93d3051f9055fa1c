package study

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Free is the space of a kernel_tuner cache: its knobs, their values and what was
// measured of each config. Nothing is assumed of what the knobs mean.
type Free struct {
	Kernel, Device string
	Knobs          []FreeKnob
	Configs        []FreeConfig // in the order of their labels
}

// A FreeKnob is a knob with the values that occur, in ascending order where they
// are numbers.
type FreeKnob struct {
	Name   string
	Labels []string
	Values []float64 // nil where a value is no number
}

// A FreeConfig is a config as indices into its knobs' values, with its time in
// milliseconds, +Inf where it is invalid.
type FreeConfig struct {
	At   []int
	Time float64
}

// readCache reads a kernel_tuner cache, .json or .json.gz. A knob with one value is left out.
func readCache(path string) (*Free, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if data, err = io.ReadAll(z); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var c struct {
		Device string                    `json:"device_name"`
		Kernel string                    `json:"kernel_name"`
		Keys   []string                  `json:"tune_params_keys"`
		Cache  map[string]map[string]any `json:"cache"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &Free{Kernel: c.Kernel, Device: c.Device}
	var entries []map[string]any
	for name, e := range c.Cache {
		t := math.Inf(1)
		if ms, ok := e["time"].(float64); ok && ms < 1e20 { // old versions wrote 1e20 for an error
			t = ms
		}
		if !(t > 0) {
			return nil, fmt.Errorf("%s: entry %q has a time of %g", path, name, t)
		}
		entries, f.Configs = append(entries, e), append(f.Configs, FreeConfig{Time: t})
	}
	for _, name := range c.Keys {
		var values []any
		for _, e := range entries {
			if _, ok := e[name]; !ok {
				return nil, fmt.Errorf("%s: an entry has no %q", path, name)
			}
			if !slices.Contains(values, e[name]) {
				values = append(values, e[name])
			}
		}
		if len(values) < 2 {
			continue
		}
		f.addKnob(name, values)
		for i, e := range entries {
			f.Configs[i].At = append(f.Configs[i].At, slices.Index(values, e[name]))
		}
	}
	slices.SortFunc(f.Configs, func(a, b FreeConfig) int { return strings.Compare(f.label(a), f.label(b)) })
	if math.IsInf(f.Best(), 1) || len(f.Knobs) == 0 {
		return nil, fmt.Errorf("%s has no valid config, or one config only", path)
	}
	return f, nil
}

// addKnob sorts the values and adds a knob of them.
func (f *Free) addKnob(name string, values []any) {
	numbers := !slices.ContainsFunc(values, func(v any) bool { _, ok := v.(float64); return !ok })
	slices.SortFunc(values, func(x, y any) int {
		if numbers {
			return cmp.Compare(x.(float64), y.(float64))
		}
		return cmp.Compare(fmt.Sprintf("%T%v", x, x), fmt.Sprintf("%T%v", y, y))
	})
	k := FreeKnob{Name: name}
	for _, v := range values {
		k.Labels = append(k.Labels, fmt.Sprint(v))
		if numbers {
			k.Values = append(k.Values, v.(float64))
		}
	}
	f.Knobs = append(f.Knobs, k)
}

// Best is the least time of all.
func (f *Free) Best() float64 {
	best := math.Inf(1)
	for _, c := range f.Configs {
		best = min(best, c.Time)
	}
	return best
}

// Label is a config as its knobs' values, with commas between.
func (f *Free) Label(i int) string { return f.label(f.Configs[i]) }

func (f *Free) label(c FreeConfig) string {
	parts := make([]string, len(f.Knobs))
	for k, knob := range f.Knobs {
		parts[k] = knob.Labels[c.At[k]]
	}
	return strings.Join(parts, ",")
}

func TestReadCache(t *testing.T) {
	const text = `{"device_name": "GPU", "kernel_name": "conv", "tune_params_keys": ["x", "mode", "one"], "cache": {
"a": {"x": 16, "mode": "fast", "one": 1, "time": 2.5},
"b": {"x": 8, "mode": "slow", "one": 1, "time": "RuntimeFailedConfig"},
"c": {"x": 8, "mode": "fast", "one": 1, "time": 1.5}}}`
	read := func(text string) (*Free, error) {
		path := filepath.Join(t.TempDir(), "cache.json.gz")
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return readCache(path)
	}
	f, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, c := range f.Configs {
		got = append(got, fmt.Sprint(f.Label(i), " ", c.Time))
	}
	if want := "[16,fast 2.5 8,fast 1.5 8,slow +Inf]"; fmt.Sprint(got) != want || len(f.Knobs[0].Values) != 2 || f.Knobs[1].Values != nil {
		t.Errorf("%v, want %s; knobs %+v", got, want, f.Knobs)
	}
	for _, edit := range [][2]string{{"1.5", "-1"}, {`"x": 16, `, ""}, {`2.5}`, `"x"}`}} {
		broken := strings.Replace(text, edit[0], edit[1], 1)
		if edit[1] == `"x"}` { // no entry is valid
			broken = strings.Replace(broken, "1.5", `"InvalidConfig"`, 1)
		}
		if _, err := read(broken); err == nil {
			t.Errorf("%s was read", broken)
		}
	}
}
