package replay

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
)

func problem(t testing.TB, s string) kernels.Problem {
	t.Helper()
	p, err := kernels.ParseProblem(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func variant(t testing.TB, s string) kernels.Variant {
	t.Helper()
	v, err := kernels.ParseVariant(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func device(t testing.TB, seed uint64) (*Device, kernels.Problem) {
	p := problem(t, "rmsnorm/fwd/64x256/bf16")
	d, err := New(kernels.DeviceInfo{ID: "gpu", Kind: kernels.KindCUDA, SMs: 4, PeakRate: 1e12}, "old.jsonl", seed, []Measurement{
		{Problem: p, Variant: variant(t, "f@w4"), Status: kernels.StatusOK, SamplesUS: []float64{1, 2, 3, 4}, Check: &kernels.Check{Busy: 0.5}},
		{Problem: p, Variant: variant(t, "f@w8"), Status: kernels.StatusCompile, Reason: "no"},
		{Problem: p, Variant: kernels.Variant{Family: Stream}, SamplesUS: []float64{1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, p
}

func TestReplay(t *testing.T) {
	d, p := device(t, 1)
	if d.Info().ID != "replay-gpu" {
		t.Errorf("it says it is %s", d.Info().ID)
	}
	draw := func(d *Device, seed uint64) []float64 {
		b, err := d.Open(t.Context(), p, seed)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		o, err := b.Time(t.Context(), variant(t, "f@w4"), kernels.TimeOptions{Samples: 20, Flush: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range o.Seconds {
			if !slices.Contains([]float64{1e-6, 2e-6, 3e-6, 4e-6}, s) {
				t.Errorf("%g was never recorded", s)
			}
		}
		if want := 20e-6; o.Busy < want+20e-6 || o.Busy > want+80e-6 {
			t.Errorf("busy %g", o.Busy)
		}
		return o.Seconds
	}
	a := draw(d, 5)
	same, _ := device(t, 1)
	if !slices.Equal(a, draw(same, 5)) {
		t.Error("the same seed drew others")
	}
	other, _ := device(t, 2)
	if slices.Equal(a, draw(d, 6)) || slices.Equal(a, draw(other, 5)) {
		t.Error("another seed drew the same")
	}
	b, err := d.Open(t.Context(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := b.Check(t.Context(), variant(t, "f@w4"), 2); err != nil || c.Busy != 0.5 {
		t.Errorf("%+v %v", c, err)
	}
	if _, err := b.Time(t.Context(), variant(t, "rms_fwd/stream@w8.u1"), kernels.TimeOptions{Samples: 1}); err != nil {
		t.Errorf("the stream: %v", err)
	}
	for v, want := range map[string]string{
		"f@w8":  "compile: no",
		"f@w16": "refused: the replay of old.jsonl lacks f@w16 on rmsnorm/fwd/64x256/bf16",
	} {
		var f *kernels.Failure
		if _, err := b.Check(t.Context(), variant(t, v), 1); !errors.As(err, &f) || f.Error() != want {
			t.Errorf("%s: %v", v, err)
		}
		if _, err := b.Time(t.Context(), variant(t, v), kernels.TimeOptions{Samples: 1}); !errors.As(err, &f) || f.Error() != want {
			t.Errorf("%s: %v", v, err)
		}
	}
	var f *kernels.Failure
	if _, err := d.Open(t.Context(), problem(t, "rmsnorm/fwd/1x1/bf16"), 1); !errors.As(err, &f) || !strings.Contains(f.Reason, "lacks the problem") {
		t.Error(err)
	}
	if _, err := New(kernels.DeviceInfo{ID: "x"}, "none", 1, nil); err == nil || hint.Of(err) == "" {
		t.Error(err)
	}
}

const cache = `{
"device_name": "GPU",
"kernel_name": "rmsnorm_fwd_64x256_bf16",
"problem_size": [64, 256],
"tune_params_keys": ["family", "warps", "stages"],
"tune_params": {"family": ["f"], "warps": [4, 8], "stages": [-1]},
"objective": "time",
"normbench_device": {"id": "gpu", "kind": "cuda", "name": "GPU", "sms": 4},
"cache": {
"f,4,-1": {"family": "f", "warps": 4, "stages": -1, "time": 0.002, "times": [0.001, 0.003], "compile_time": 0},
"f,8,-1": {"family": "f", "warps": 8, "stages": -1, "time": "CompilationFailedConfig"},
"f,16,-1": {"family": "f", "warps": 16, "stages": -1, "time": "RuntimeFailedConfig", "normbench_status": "wrong", "normbench_reason": "y is wrong"},
"f,2,-1": {"family": "f", "warps": 2, "stages": -1, "time": 0.005}
}
}`

func TestParseCache(t *testing.T) {
	for name, text := range map[string]string{"closed": cache, "open": strings.TrimSuffix(cache, "\n}\n}") + ","} {
		c, err := ParseCache("x.json", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, m := range c.Entries {
			got = append(got, m.Variant.String()+" "+string(m.Status)+" "+m.Reason)
		}
		want := []string{"f@w16 wrong y is wrong", "f@w2 ok ", "f@w4 ok ", "f@w8 compile CompilationFailedConfig"}
		if !slices.Equal(got, want) || !slices.Equal(c.Entries[2].SamplesUS, []float64{1, 3}) || c.Problem.String() != "rmsnorm/fwd/64x256/bf16" || c.Device.SMs != 4 {
			t.Errorf("%s: %q %+v", name, got, c)
		}
		if !IsCache([]byte(text[:200])) {
			t.Error("it is not taken for a cache")
		}
	}
	if IsCache([]byte(`{"schema":1,"kind":"run","device_name":1}`)) {
		t.Error("records are taken for a cache")
	}
	for edit, want := range map[[2]string]string{
		{"rmsnorm_fwd", "convolution"}:                `x.json: kernel "convolution_64x256_bf16" is none of ours`,
		{`"warps", "stages"]`, `"block_size_x"]`}:     `x.json: unknown knob "block_size_x"`,
		{`"sms": 4`, `"sms": 0`}:                      `x.json: it does not say in "normbench_device" how large its device is`,
		{`"time": 0.005`, `"time": 1e400`}:            "x.json: not a kernel_tuner cache",
		{`"time": 0.005`, `"time": -1`}:               `x.json: entry "f,2,-1": a time of -1`,
		{`"time": 0.005`, `"times": [1], "time": -1`}: `x.json: entry "f,2,-1": a time of -1`,
		{`"time": 0.005`, `"time": 1, "time": 0.005`}: "x.json: the field /cache/f,2,-1/time stands twice",
		{`"warps": 4, "stages": -1, "time": 0.002`, `"warps": 4.5, "stages": -1, "time": 0.002`}: `x.json: entry "f,4,-1": "warps" is no whole number`,
		{`"RuntimeFailedConfig"`, `"SomeError"`}:                                                 `x.json: entry "f,16,-1": unknown error "SomeError"`,
		{`"warps": 2, `, `"warps": 4, `}:                                                         `x.json: entry "f,4,-1": the config stands twice`,
		{`"time": 0.005`, `"time": NaN`}:                                                         "x.json: /cache/f,2,-1/time is NaN",
		{`"cache"`, `"cash"`}:                                                                    `x.json: not a kernel_tuner cache: it has no "cache"`,
	} {
		_, err := ParseCache("x.json", []byte(strings.Replace(cache, edit[0], edit[1], 1)))
		if err == nil || !strings.HasPrefix(err.Error(), want) || hint.Of(err) == "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v:\n got %v\nwant %s", edit, err, want)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add([]byte(cache))
	f.Add([]byte(`{"cache":{}}`))
	f.Add([]byte("\xef\xbb\xbf" + cache))
	f.Add([]byte(cache[:len(cache)/2]))
	f.Add([]byte(strings.Replace(cache, `"cache"`, `"normbench_device":{"id":"../../victim"},"cache"`, 1)))
	f.Add([]byte(strings.Replace(cache, `"cache"`, `"cache":null,"cache"`, 1)))
	f.Add([]byte(strings.ReplaceAll(cache, `"time"`, `"time":NaN,"time"`)))
	f.Add([]byte(`{"cache":` + strings.Repeat(`{"a":`, 2000)))
	f.Add([]byte(`{"kernel_name":"rmsnorm_fwd_1x1_bf16","cache":{"a":{"time":1}}`))
	if files, _ := filepath.Glob("testdata/*.json"); len(files) > 0 {
		for _, name := range files {
			if b, err := os.ReadFile(name); err == nil {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCache("x", data)
		if err != nil {
			if hint.Of(err) == "" || strings.Contains(err.Error(), "\n") && !strings.Contains(string(data), "\\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		if len(c.Entries) > 0 {
			if _, err := New(c.Device, "x", 1, c.Entries); err != nil {
				t.Fatal(err)
			}
		}
	})
}
