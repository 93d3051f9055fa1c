package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// BenchmarkTune fits rules to 1,000,000 records: 208 problems of four classes
// with some 4800 variants each, 20 samples a record, 0.6 GB in all. The demand:
// 20 s and 1 GB on 2 cores.
func BenchmarkTune(b *testing.B) {
	path := filepath.Join(b.TempDir(), "records.jsonl")
	size := writeTuneRecords(b, path, 1_000_000)
	r := families.New()
	var out, errs bytes.Buffer
	b.SetBytes(size)
	b.ReportAllocs()
	debug.FreeOSMemory()
	resetPeak()
	for b.Loop() {
		out.Reset()
		errs.Reset()
		if code := run([]string{"normbench", "tune", path}, strings.NewReader(""), &out, &errs, r); code != 0 {
			b.Fatalf("exit code %d: %s", code, errs.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n < 40 {
		b.Fatalf("tables of %d lines:\n%s", n, out.String())
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/tune")
	b.ReportMetric(float64(m.HeapSys-m.HeapReleased)/1e6, "heap-MB")
	if peak := peakRSS(); peak > 0 {
		b.ReportMetric(float64(peak)/1e6, "peak-RSS-MB")
	}
}

// writeTuneRecords writes a sweep with more variants than any grid has. The
// lines are put together by hand, as a million through an encoder take longer
// than what is measured.
func writeTuneRecords(b *testing.B, path string, total int) int64 {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	d := devicetest.H200()
	run := record.Run{Device: d, Protocol: record.Protocol{Name: "cold", Samples: 20, Cold: true}}
	device, err := json.Marshal(run.Device)
	if err != nil {
		b.Fatal(err)
	}
	protocol, err := json.Marshal(run.Protocol)
	if err != nil {
		b.Fatal(err)
	}
	head := fmt.Appendf(nil, `{"schema":2,"kind":"run","run":"r1","time":"2026-03-04T05:06:07Z","tool":"v1","command":[],"device":%s,"protocol":%s}`, device, protocol)
	w.Write(append(durable.Seal(head), '\n'))
	var shapes [][2]int64
	for m := int64(512); m <= 1<<20; m *= 2 {
		for n := int64(128); n <= 8192 && len(shapes) < 52; n *= 2 {
			if m*n >= 1<<20 && m*n <= 1<<28 {
				shapes = append(shapes, [2]int64{m, n})
			}
		}
	}
	classes := []struct {
		op     kernels.Op
		pass   kernels.Pass
		family string
	}{
		{kernels.RMSNorm, kernels.Fwd, "rms_fwd/cta_reg"}, {kernels.RMSNorm, kernels.Bwd, "rms_bwd/reg_persist"},
		{kernels.LayerNorm, kernels.Fwd, "ln_fwd/cta_reg"}, {kernels.LayerNorm, kernels.Bwd, "ln_bwd/reg_persist"},
	}
	each := (total + len(shapes)*len(classes) - 1) / (len(shapes) * len(classes))
	rnd := rand.New(rand.NewPCG(1, 1))
	line := make([]byte, 0, 2048)
	n := 0
	for _, c := range classes {
		for _, s := range shapes {
			p := kernels.Problem{Op: c.op, Pass: c.pass, M: s[0], N: s[1], DType: kernels.BF16, Weight: kernels.BF16, Bias: c.op == kernels.LayerNorm}
			for i := range each {
				// The best warps grow with the row, the best programs with the rows.
				br, warps, k, prog := 1<<(i%4), 1<<(i/4%6), 1<<(i/24%4), i/96
				us := 5 + float64(p.M*p.N)/3e5
				us *= 1 + 0.2*math.Abs(math.Log2(float64(32*warps)/float64(br)/float64(s[1])*8)) + 0.03*math.Abs(math.Log2(float64(k)*264/float64(s[0]))) + 0.002*float64(prog)
				label := fmt.Sprintf("br%d.w%d.v0.st1.k%d.p%d", br, warps, k, prog)
				if c.pass == kernels.Bwd {
					label += ".rc32.rr32"
				}
				config, err := kernels.ParseConfig(label)
				if err != nil {
					b.Fatal(err)
				}
				v := kernels.Variant{Family: c.family, Config: config}
				line = fmt.Appendf(line[:0], `{"schema":2,"kind":"record","run":"r1","key":%q,"time":"2026-03-04T05:06:08Z","problem":%q,"family":%q,"config":%q`,
					record.Key(p, v, d, "0123456789ab", run.Protocol), p.String(), c.family, label)
				line = fmt.Appendf(line, `,"base":%t,"status":"ok","source":"0123456789ab","seed":42,"bytes":%d,"check":{"outputs":[{"name":"y","elems":%d,"bad":0,"max_err":0.47,"rel_l2":0.0017}],"repeats":2,"differing":0,"busy":0.0123},"samples_us":[`, i == 0, p.Bytes(), p.M*p.N)
				for j := range 20 {
					if j > 0 {
						line = append(line, ',')
					}
					line = strconv.AppendFloat(line, us*(1+0.01*rnd.ExpFloat64()), 'f', 3, 64)
				}
				line = append(line, "],\"stream_us\":18.25,\"wall_ms\":81.5}"...)
				line = append(durable.Seal(line), '\n')
				if _, err := w.Write(line); err != nil {
					b.Fatal(err)
				}
				n++
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
