package families_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
)

// zones are the rules that were translated from tables in code, a fixture to compare others with.
var zones = sync.OnceValues(func() (*launchrule.Set, error) {
	return launchrule.Read("../../results/nvidia-h200/zones.json")
})

// drawn is the i-th of random problems: most of bf16, as picks.yaml's were, and a third of any options.
func drawn(i uint64) kernels.Problem {
	r := rand.New(rand.NewPCG(28, i))
	for {
		side := func(most float64) int64 { return int64(math.Pow(most, r.Float64())) }
		p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: side(1<<20 + 1), N: side(1<<16 + 1), DType: kernels.BF16, Weight: kernels.BF16}
		if r.IntN(2) == 0 {
			p.Op, p.Bias = kernels.LayerNorm, true
		}
		if r.IntN(2) == 0 {
			p.Pass = kernels.Bwd
		}
		switch k := int64(1) << r.IntN(7); r.IntN(3) {
		case 0:
			p.N = max(p.N/k*k, 1)
		case 1:
			p.N, p.M = 1<<r.IntN(17), max(p.M/k*k, 1)
		}
		if i%3 == 0 {
			types := kernels.DTypes()
			p.DType, p.Weight = types[r.IntN(len(types))], types[r.IntN(len(types))]
			p.ZeroCentered, p.Residual, p.Bias = r.IntN(3) == 0, r.IntN(4) == 0, r.IntN(2) == 0
			p.FP8 = p.Pass == kernels.Fwd && r.IntN(2) == 0
			p.Transpose = p.FP8 && r.IntN(4) > 0
			p.Accumulate = p.Pass == kernels.Bwd && r.IntN(3) == 0
			if p.Transpose && r.IntN(2) == 0 {
				p.M, p.N, p.Residual = (p.M+15)/16*16, (p.N+255)/256*256, false
			}
			if r.IntN(6) == 0 {
				p.NoWeight, p.Bias, p.ZeroCentered, p.Accumulate, p.Weight = true, false, false, false, p.DType
			}
		}
		if p.M*p.N <= 64<<20 && p.Validate() == nil {
			return p
		}
	}
}

// TestZones: the rules translated from the tables of their day pick what those picked, on a GPU and on a cpu.
// picks.txt has a hash of each 100 picks, which the tables' code wrote (commit c2cf7d6). million.txt has one of each
// 20,000 of 1.6 million problems, which takes 7 min of two cores. Where the tables left few rows to the
// analytic base, that base has learned better since. Those picks are left out, and else the hashes are the tables'.
func TestZones(t *testing.T) {
	each, file := 100, "testdata/picks.txt"
	if os.Getenv("NORMBENCH_TEST_ZONES") != "" {
		each, file = 20000, "testdata/million.txt"
	}
	s, err := zones()
	if err != nil {
		t.Fatal(err)
	}
	r := families.With(s)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hashes := strings.Fields(string(want))
	if testing.Short() {
		hashes = hashes[:20]
	}
	real := devicetest.H200()
	real.Clusters = [4]int{66, 30, 15, 7}
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			for chunk := part; chunk < len(hashes); chunk += 2 {
				h := fnv.New64a()
				for i := chunk * each; i < (chunk+1)*each; i++ {
					p := drawn(uint64(i))
					for _, d := range []kernels.DeviceInfo{real, devicetest.H200(), devicetest.CPU()} {
						v, err := r.Base(p, d)
						if _, design, _ := strings.Cut(v.Family, "/"); design == "few_rows" && families.Explain(r, s, p, d)[0].Answer.Index < 0 {
							continue
						}
						fmt.Fprintln(h, v, err)
					}
				}
				if got := fmt.Sprintf("%016x", h.Sum64()); got != hashes[chunk] {
					t.Errorf("problems %d to %d: other picks than the tables'", chunk*each, (chunk+1)*each-1)
				}
			}
		})
	}
	wg.Wait()
}

// TestScaled: rules that were written out for another device answer there as they do by the ladder.
func TestScaled(t *testing.T) {
	s, err := zones()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range launchrule.KnownDevices() {
		if launchrule.Ladder([]*launchrule.Set{s}, &k.DeviceInfo).Set == nil {
			continue
		}
		own := s.Scaled(k.DeviceInfo)
		if step := launchrule.Ladder([]*launchrule.Set{own}, &k.DeviceInfo); step.Near != launchrule.Own || own.CheckValid() != nil {
			t.Errorf("%s: %s, %v", k.Key, step, own.CheckValid())
		}
		ladder, file := families.With(s), families.With(own)
		for _, p := range append(own.Random(3, 2000), s.Random(3, 2000)...) {
			want, _ := ladder.Base(p, k.DeviceInfo)
			if got, _ := file.Base(p, k.DeviceInfo); got != want {
				t.Errorf("%s: %s: got %s, want %s", k.Key, p, got, want)
			}
		}
	}
}

// The steps of the ladder, by the devices that are known without a card.
func TestSteps(t *testing.T) {
	var got []string
	for _, k := range launchrule.KnownDevices() {
		if err := kernels.CheckID(k.ID); err != nil || k.Source == "" || k.SMs < 1 || k.SharedPerBlock < 48<<10 {
			t.Errorf("%s: %v, %+v", k.Key, err, k)
		}
		got = append(got, fmt.Sprint(k.Key, " ", families.Step(k.DeviceInfo).Near))
		// Whatever the step, there is something to run.
		r := families.New()
		for i := range uint64(300) {
			p := drawn(i)
			v, err := r.Base(p, k.DeviceInfo)
			if err == nil {
				_, _, _, err = r.Resolve(p, v, k.DeviceInfo)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", k.Key, p, err)
			}
		}
	}
	want := fmt.Sprint([]string{"h200 3", "h100 2", "a100 0", "b200 1", "l40s 0", "rtx5090 1"})
	if fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// BenchmarkLookup is one answer of the rules: less than 5 us, and no allocation.
func BenchmarkLookup(b *testing.B) {
	s, err := zones()
	if err != nil {
		b.Fatal(err)
	}
	var ps []kernels.Problem
	for i := range uint64(1000) {
		ps = append(ps, drawn(i))
	}
	d := devicetest.H200()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		at := launchrule.At(ps[i%len(ps)], d)
		s.Choose(&at, nil)
		i++
	}
}

// TestLookupAllocates nothing.
func TestLookupAllocates(t *testing.T) {
	s, err := zones()
	if err != nil {
		t.Fatal(err)
	}
	d, i := devicetest.H200(), uint64(0)
	if n := testing.AllocsPerRun(500, func() {
		at := launchrule.At(problems[i%100], d)
		s.Choose(&at, nil)
		s.Own(&at, "rms_bwd/smem_pipe")
		i++
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

var problems = func() (ps []kernels.Problem) {
	for i := range uint64(100) {
		ps = append(ps, drawn(i))
	}
	return ps
}()

// BenchmarkDefault is what a default costs, the families' refusals included.
func BenchmarkDefault(b *testing.B) {
	r, d := families.New(), devicetest.H200()
	i := 0
	for b.Loop() {
		r.Base(drawn(uint64(i%1000)), d)
		i++
	}
}
