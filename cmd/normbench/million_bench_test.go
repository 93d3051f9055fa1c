package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/record"
)

// BenchmarkMillion is what is done with a results folder of 1,000,000 records, a grid
// of 1,300 problems on an H200: 1.1 GB. The demand: 10 s and 500 MB each on 2 cores.
func BenchmarkMillion(b *testing.B) {
	dir := b.TempDir()
	replayed := []string{"normbench", "sweep", "--device", "replay:../../results/nvidia-h200", "--strategy", "grid",
		"--shapes", "4096x8192", "--op", "rmsnorm", "--pass", "bwd", "--out", dir}
	r := families.New()
	var out, errs bytes.Buffer
	do := func(b testing.TB, args []string) {
		out.Reset()
		errs.Reset()
		if code := run(args, strings.NewReader(""), &out, &errs, r); code != 0 {
			b.Fatalf("%s: exit code %d: %s", args, code, errs.String())
		}
	}
	do(b, replayed)
	dir = filepath.Join(dir, "replay-nvidia-h200")
	writeMillion(b, dir)
	for _, of := range []struct {
		name string
		args []string
	}{
		{"report", []string{"normbench", "report", dir}},
		{"compare", []string{"normbench", "compare", dir + "#base", dir}},
		{"resume", replayed},
		{"kt-cache", []string{"normbench", "export", "--format", "kt-cache", "--out", b.TempDir(), dir}},
	} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			debug.FreeOSMemory()
			resetPeak()
			for b.Loop() {
				do(b, of.args)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
			b.ReportMetric(float64(peakRSS())/1e6, "peak-RSS-MB")
		})
	}
}

// writeMillion appends records to a folder as a grid would, with real variants and keys,
// until there are a million. The lines are put together by hand, as a million through an
// encoder take longer than what is measured.
func writeMillion(b testing.TB, dir string) {
	b.Helper()
	path := filepath.Join(dir, record.FileName)
	have, err := record.Load(path)
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	rn := have.Runs[0]
	r := families.New()
	id := families.NewIdentity(r, rn.Device.Kind)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	rnd := rand.New(rand.NewPCG(1, 1))
	var line []byte
	times := func(n int, us float64) {
		for i := range n {
			if i > 0 {
				line = append(line, ',')
			}
			line = strconv.AppendFloat(line, us*(1+0.01*rnd.ExpFloat64()), 'f', 3, 64)
		}
	}
	for n, m := 0, int64(1000); n < 1_000_000; m += 72 {
		for i, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
			for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
				p := kernels.Problem{Op: op, Pass: pass, M: m, N: 1024 << (m / 72 % 4), DType: kernels.BF16, Weight: kernels.BF16, Bias: i > 0}
				tasks, err := sweep.Grid(b.Context(), r, []kernels.Problem{p}, rn.Device, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				for j, v := range tasks[0].Variants {
					code, err := sweep.Code(r, id, p, v, rn.Device)
					if err != nil {
						b.Fatal(err)
					}
					us := 20 + 40*rnd.Float64()
					line = fmt.Appendf(line[:0], `{"schema":2,"kind":"record","run":%q,"key":%q,"time":%q,"problem":%q,"family":%q,"config":%q`,
						rn.ID, record.Key(p, v, rn.Device, code.String(), rn.Protocol), at.Format(time.RFC3339Nano), p, v.Family, v.Config)
					if j == 0 {
						line = append(line, `,"base":true`...)
					}
					line = fmt.Appendf(line, `,"status":"ok","source":%q,"launch":%q,"seed":42,"scratch_bytes":2162688,"samples_us":[`, code.Source, code.Launch)
					times(20, us)
					line = append(line, `],"stages":[{"stage":"k1","samples_us":[`...)
					times(10, 0.9*us)
					line = append(line, `]},{"stage":"k2","samples_us":[`...)
					times(10, 0.1*us)
					line = fmt.Appendf(line, `]}],"stages_by":"events","stream_us":18.25,"wall_ms":81.5,"check":{"repeats":3,"digest":548256689705654,"outputs":[{"name":"dx","elems":%d,"max_err":0.974,"rel_l2":0.00166},{"name":"dw","elems":%d,"max_err":0.92,"rel_l2":0.0017}],"resources":[{"stage":"k1","registers":113,"shared":24704,"blocks_per_sm":4,"threads":128,"ctas":528}],"busy":0.00145}}`, p.M*p.N, p.N)
					line = append(durable.Seal(line), '\n')
					if _, err := w.Write(line); err != nil {
						b.Fatal(err)
					}
					at = at.Add(80 * time.Millisecond)
					n++
				}
			}
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
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
