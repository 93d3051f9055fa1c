package export

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
)

// records writes a small records file: one problem of a grid, with failures, and
// a search of another with finals.
func records(t *testing.T, edit func(*record.Run, *record.Record)) string {
	t.Helper()
	dir := t.TempDir()
	w, _, err := record.OpenWriter(dir, ".")
	assert.NoError(t, err)
	defer w.Close()
	grid := &record.Run{ID: "g", Time: time.Unix(1e9, 0).UTC(), Tool: "v1",
		Device: kernels.DeviceInfo{ID: "gpu", Kind: kernels.KindCUDA, Name: "GPU",
			SMs: 4}, Protocol: record.Protocol{Name: "cold", Samples: 2, Cold: true}}
	search, final := *grid, *grid
	search.ID, search.Protocol.Phase = "s", record.PhaseSearch
	final.ID, final.Protocol.Phase = "f", record.PhaseFinal
	add := func(run *record.Run, problem, variant string, status kernels.Status, us ...float64) {
		p := devicetest.Problem(t, problem)
		v := devicetest.Variant(t, variant)
		r := &record.Record{Run: run.ID, Time: run.Time, Problem: p, Family: v.Family,
			Config: v.Config,
			Status: status, Source: "abc", Bytes: p.Bytes(), SamplesUS: us,
			Check: &kernels.Check{Outputs: []kernels.OutputCheck{{Name: "y", Elems: 100}}}}
		if status != kernels.StatusOK {
			r.Reason = "as asked"
		}
		if len(us) == 2 {
			r.Check.Compile = 0.25
		}
		if status == kernels.StatusWrong {
			r.Check.Outputs[0].Bad = 25
		}
		if len(us) == 4 {
			r.Visits = []int{2, 2}
		}
		if edit != nil {
			edit(run, r)
		}
		r.Key = record.Key(p, v, run.Device, r.Source, run.Protocol)
		assert.NoError(t, w.AppendAll(r))
	}
	for _, run := range []*record.Run{grid, &search, &final} {
		if edit != nil {
			edit(run, nil)
		}
		assert.NoError(t, w.AppendAll(run))
	}
	const p1, p2 = "rmsnorm/fwd/64x256/bf16", "layernorm/bwd/8x16/bf16-wfp32+bias"
	add(grid, p1, "stream@w8", kernels.StatusOK, 5, 5)
	add(grid, p1, "rms_fwd/cta_reg@br1.w4", kernels.StatusOK, 10, 12)
	add(grid, p1, "rms_fwd/two_pass@w8.k2", kernels.StatusOK, 20, 22)
	add(grid, p1, "rms_fwd/two_pass@w16.k2", kernels.StatusWrong)
	add(grid, p1, "rms_fwd/two_pass@w32.k2", kernels.StatusCompile)
	add(grid, p1, "rms_fwd/two_pass@w2.k2", kernels.StatusTimeout)
	add(&search, p2, "ln_bwd/reg_persist@w4", kernels.StatusOK, 7)
	add(&final, p2, "ln_bwd/reg_persist@w4", kernels.StatusOK, 8, 9, 10, 11)
	add(&search, p2, "ln_bwd/reg_persist@w8", record.StatusPruned)
	return dir
}

func load(t *testing.T) []*Problem {
	t.Helper()
	ps, _, err := Load(records(t, nil))
	assert.NoError(t, err)
	assert.Must(t, len(ps) == 2 && len(ps[0].Records) == 5 && len(ps[1].Records) == 2 &&
		len(ps[1].Records[0].SamplesUS) == 4, "%+v", ps)
	return ps
}

// What kernel_tuner's reader looks at, and what it has beside that.
func TestKT(t *testing.T) {
	out := t.TempDir()
	n, err := WriteFiles(out, load(t))
	assert.Must(t, n == 4 && err == nil, "%v %v", n, err)
	data, err := os.ReadFile(filepath.Join(out, "rmsnorm_fwd_bf16_64x256", "gpu.json"))
	assert.NoError(t, err)
	assert.Equal(t, string(data[len(data)-3:]), "}\n}",
		"it does not end as a closed cache", data[len(data)-3:])
	last := -1
	for _, key := range []string{"device_name", "kernel_name", "problem_size", "tune_params_keys",
		"tune_params", "objective", "cache"} {
		i := bytes.Index(data, []byte("\n\""+key+"\":"))
		assert.That(t, i > last, "%q stands out of order", key)
		last = i
	}
	var f struct {
		Keys   []string           `json:"tune_params_keys"`
		Limits []string           `json:"restrictions"`
		Device kernels.DeviceInfo `json:"normbench_device"`
		State  string             `json:"normbench_cache"`
		Stream []float64          `json:"normbench_stream_us"`
		Cache  map[string]map[string]any
	}
	assert.NoError(t, json.Unmarshal(data, &f))
	assert.Same(t, f.Keys, []string{"family", "block_rows", "warps", "ctas_per_sm"}, "keys")
	assert.That(t, len(f.Limits) == 3 &&
		f.Limits[0] ==
			`(family, block_rows) in (("rms_fwd/cta_reg", 1), ("rms_fwd/two_pass", -1),)`,
		"restrictions %q", f.Limits)
	e := f.Cache["rms_fwd/cta_reg,1,4,-1"]
	assert.That(t, e != nil && e["time"] == 0.011 && e["benchmark_time"] == 0.022 &&
		e["compile_time"] == 250.0 && e["verification_time"] == 0.0, "%v", e)
	if e := f.Cache["rms_fwd/two_pass,-1,16,2"]; e["time"] != "RuntimeFailedConfig" ||
		e["__error__"] != e["time"] || e["compile_time"] != nil {
		t.Errorf("%v", e)
	}
	one, err := os.ReadFile(filepath.Join(out, "rmsnorm_fwd_bf16_64x256_rms_fwd_cta_reg",
		"gpu.json"))
	assert.That(t, err == nil && !bytes.Contains(one, []byte("two_pass")) &&
		!bytes.Contains(one, []byte("ctas_per_sm")), "the family's own file: %v %s", err, one)
	// What a bound ruled out has a status of its own.
	other, err := os.ReadFile(filepath.Join(out, "layernorm_bwd_bf16-wfp32+bias_8x16", "gpu.json"))
	assert.That(t, err == nil && bytes.Contains(other, []byte(`"normbench_status":"pruned"`)),
		"%v: %s", err, other)
	want := map[string]any{"rms_fwd/two_pass,-1,16,2": "wrong",
		"rms_fwd/two_pass,-1,32,2": "compile",
		"rms_fwd/two_pass,-1,2,2":  "timeout"}
	for key, e := range f.Cache {
		assert.Equal(t, e["normbench_status"], want[key], key, "the status")
	}
	assert.That(t, len(f.Cache) == 5 && f.Device.ID == "gpu" && f.State == "cold" &&
		slices.Equal(f.Stream, []float64{5, 5}), "%d entries of %+v, %s, stream %v", len(f.Cache),
		f.Device, f.State, f.Stream)
}

func TestBenchfmt(t *testing.T) {
	var b strings.Builder
	assert.NoError(t, WriteBenchfmt(&b, load(t)))
	for _, want := range []string{
		"\nBenchmarkRMSNormFwd/M=64/N=256/dtype=bf16/family=cta_reg/config=br1.w4-1 1 10000 ns/op " +
			"6.6304e+09 B/s\n",
		"\nBenchmarkLayerNormBwd/M=8/N=16/dtype=bf16/weight=fp32/bias=1/family=reg_persist/config=w4-1 " +
			"1 8500 ns/op ",
		"\nBenchmarkLayerNormBwd/M=8/N=16/dtype=bf16/weight=fp32/bias=1/family=reg_persist/config=w4-1 " +
			"1 10500 ns/op ",
	} {
		assert.That(t, strings.Contains(b.String(), want), "no line %q in\n%s", want, b.String())
	}
	assert.Equal(t, strings.Count(b.String(), "Benchmark"), 6, "lines")
}

// Problems that differ are benchmarks that differ.
func TestBenchNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	coin := func() bool { return rng.IntN(2) == 0 }
	of := map[string]kernels.Problem{}
	for range 20_000 {
		dtypes := []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP32}
		p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 1 + rng.Int64N(2),
			N:     1 + rng.Int64N(2),
			DType: dtypes[rng.IntN(3)], Weight: dtypes[rng.IntN(3)], Bias: coin(),
			ZeroCentered: coin(), NoWeight: coin(),
			Residual: coin(), FP8: coin(), Transpose: coin(), Accumulate: coin()}
		if coin() {
			p.Op = kernels.LayerNorm
		}
		if coin() {
			p.Pass = kernels.Bwd
		}
		if p.Validate() != nil {
			continue
		}
		name := benchName(p)
		q, ok := of[name]
		assert.Must(t, !ok || q == p, "%s and %s are both %s", p, q, name)
		of[name] = p
	}
	assert.That(t, len(of) >= 1000, "only %d problems", len(of))
}

func TestMixed(t *testing.T) {
	for want, edit := range map[string]func(*record.Run, *record.Record){
		"records of other among those of gpu": func(run *record.Run, r *record.Record) {
			if r == nil && run.ID == "s" {
				run.Device.ID = "other"
			}
		},
		"records of two versions of rms_fwd/two_pass, abc and new": func(run *record.Run,
			r *record.Record) {
			if r != nil && r.Config.Get(kernels.Warps) == 16 {
				r.Source = "new"
			}
		},
	} {
		_, _, err := Load(records(t, edit))
		assert.That(t, err != nil && strings.HasSuffix(err.Error(), want) && hint.Of(err) != "",
			"got %v, want %s", err, want)
	}
}
