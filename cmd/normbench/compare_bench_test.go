package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/record"
)

// BenchmarkCompare compares two sweeps of 100 problems with 500 variants each,
// some 75 MB a file. The demand: 2 s and 300 MB on 2 cores.
func BenchmarkCompare(b *testing.B) {
	dir := b.TempDir()
	r := families.New()
	paths := []string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")}
	var size int64
	for i, path := range paths {
		size += writeSweep(b, path, uint64(i))
	}
	var out, errs bytes.Buffer
	compare := func() {
		out.Reset()
		errs.Reset()
		if code := run([]string{"normbench", "compare", paths[0], paths[1]}, strings.NewReader(""), &out, &errs, r); code != 0 {
			b.Fatalf("exit code %d: %s", code, errs.String())
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	debug.FreeOSMemory()
	resetPeak()
	for b.Loop() {
		compare()
	}
	if n := strings.Count(out.String(), "\n"); n < 100 {
		b.Fatalf("a table of %d lines:\n%s", n, out.String())
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/compare")
	b.ReportMetric(float64(m.HeapSys-m.HeapReleased)/1e6, "heap-MB")
	if peak := peakRSS(); peak > 0 {
		b.ReportMetric(float64(peak)/1e6, "peak-RSS-MB")
	}
}

// writeSweep writes a file of the size of a large sweep.
func writeSweep(b *testing.B, path string, seed uint64) (size int64) {
	const problems, variants, samples = 100, 500, 30
	type head struct {
		Schema int    `json:"schema"`
		Kind   string `json:"kind"`
	}
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	enc := json.NewEncoder(w)
	d := devicetest.H200()
	pr := sweep.ColdProtocol(d, samples)
	pr.StageSamples = 10
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if err := enc.Encode(struct {
		head
		record.Run
	}{head{1, "run"}, record.Run{ID: "r1", Time: at, Device: d, Protocol: pr}}); err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	times := func(n int, us float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = us * 1e-6 * (1 + 0.01*rnd.ExpFloat64())
		}
		return record.Micros(x)
	}
	for i := range problems {
		p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Bwd, M: int64(512 * (1 + i/10)), N: int64(256 * (1 + i%10)), DType: kernels.BF16, Weight: kernels.BF16}
		if i%2 > 0 {
			p.Op, p.Bias = kernels.LayerNorm, true
		}
		for j := range variants {
			v := kernels.Variant{Family: "rms_bwd/reg_persist", Config: kernels.NewConfig(
				kernels.Setting{Knob: kernels.BlockRows, Value: 1 << (j % 4)}, kernels.Setting{Knob: kernels.Warps, Value: 1 + j/4},
				kernels.Setting{Knob: kernels.VectorBytes, Value: 16}, kernels.Setting{Knob: kernels.ReduceCols, Value: 32})}
			us := 20 + 40*rnd.Float64()
			out := func(name string, n int64) kernels.OutputCheck {
				return kernels.OutputCheck{Name: name, Elems: n, MaxErr: 0.4 + rnd.Float64()/8, RelL2: 0.0017 + rnd.Float64()/1e4}
			}
			rec := record.Record{
				Run: "r1", Key: record.Key(p, v, d, "0123456789ab", pr), Time: at.Add(time.Duration(i*variants+j) * 80 * time.Millisecond),
				Problem: p, Family: v.Family, Config: v.Config, Base: j == 0, Status: kernels.StatusOK, Source: "0123456789ab",
				Seed: 42, Bytes: p.Bytes(), ScratchBytes: 4 * p.N * 264,
				Check: &kernels.Check{
					Outputs: []kernels.OutputCheck{out("dx", p.M*p.N), out("dw", p.N)},
					Resources: []kernels.Resource{
						{Stage: "k1", Registers: 64, Shared: 32768, Occupancy: 6, Threads: 256, CTAs: 264},
						{Stage: "k2", Registers: 40, Shared: 4096, Occupancy: 8, Threads: 256, CTAs: 128},
					},
					Repeats: 2, Busy: 0.0123,
				},
				SamplesUS: times(samples, us),
				Stages:    []record.Stage{{Stage: "k1", SamplesUS: times(10, 0.9*us)}, {Stage: "k2", SamplesUS: times(10, 0.1*us)}},
				StreamUS:  18.25, WallMS: 81.5,
			}
			if err := enc.Encode(struct {
				head
				*record.Record
			}{head{1, "record"}, &rec}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return st.Size()
}

// resetPeak makes the kernel forget the process's peak so far, where it can:
// that of writing the files.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakRSS is the most memory that the process held since resetPeak, in bytes; 0
// where the system does not say.
func peakRSS() (bytes int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &bytes); n == 1 {
			return bytes << 10
		}
	}
	return 0
}
