package export

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	add(&search, p2, "ln_bwd/reg_persist@w8", kernels.StatusRefused)
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

// What kernel_tuner's reader looks at, and what it has beside that: a file for each problem.
func TestKT(t *testing.T) {
	out := t.TempDir()
	n, err := WriteFiles(out, load(t))
	files, _ := filepath.Glob(filepath.Join(out, "*", "gpu.json"))
	assert.Must(t, err == nil && n == 2 && len(files) == 2, "%v %v, %q", n, err, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.That(t, err == nil && json.Valid(data), "%s: %v", file, err)
		golden := filepath.Join("testdata", filepath.Base(filepath.Dir(file))+".json")
		assert.Golden(t, golden, string(data))
	}
}

func TestBenchfmt(t *testing.T) {
	var b strings.Builder
	assert.NoError(t, WriteBenchfmt(&b, load(t)))
	assert.Golden(t, "testdata/benchfmt.txt", b.String())
}

// Problems that differ are benchmarks that differ.
func TestBenchNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	of := map[string]kernels.Problem{}
	for range 20_000 {
		p := devicetest.Draw(rng, 2, 2)
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
