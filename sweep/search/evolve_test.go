package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"normbench/kernels"
)

// cube is a free space of about n configs of eight knobs, with invalid ones.
func cube(n int) (*Space, func(int) float64) {
	sizes := []int{2, 2, 3, 3, 4, 4, 5}
	product := 1
	for _, k := range sizes {
		product *= k
	}
	sizes = append(sizes, n/product)
	s := &Space{Full: 1, Keep: []int{0}, SMs: 1}
	for k, size := range sizes {
		a := Axis{Name: fmt.Sprint(k), Size: size}
		for v := range size {
			a.Values = append(a.Values, float64(v))
		}
		s.Axes = append(s.Axes, a)
	}
	for i := range product * (n / product) {
		p := make([]int, len(sizes))
		for k, rest := 0, i; k < len(sizes); k++ {
			p[k], rest = rest%sizes[k], rest/sizes[k]
		}
		s.At = append(s.At, p)
		s.Variants = append(s.Variants, kernels.Variant{Family: fmt.Sprint(i)})
	}
	return s, func(v int) float64 {
		t := 1.0
		for k, x := range s.At[v] {
			d := float64(x)/float64(max(sizes[k]-1, 1)) - 0.6
			t += d * d * float64(k+1)
		}
		return t * math.Exp(0.1*rand.New(rand.NewPCG(uint64(v), 1)).NormFloat64())
	}
}

// BenchmarkPropose is what auto costs per config that it proposes, up to 500
// observations of 20,000 configs, of which few or half are invalid. A test cannot hold the
// 2 ms: another machine has another clock.
func BenchmarkPropose(b *testing.B) {
	b.Run("few-invalid", func(b *testing.B) { propose(b, func(v int) bool { return v%13 == 5 }) })
	b.Run("half-invalid", func(b *testing.B) { propose(b, func(v int) bool { return v/144%4 >= 2 }) })
}

func propose(b *testing.B, invalid func(int) bool) {
	s, timed := cube(20160)
	s.Limit = 500
	before := cpuTime(b)
	for b.Loop() {
		strategy, err := New(Auto, s)
		if err != nil {
			b.Fatal(err)
		}
		board := NewBoard(s, 0, 0)
		for board.Measured() < s.Limit {
			for _, x := range strategy.Ask(board) {
				if invalid(x.Variant) {
					board.fail(x.Variant)
				} else {
					board.tell(x.Variant, 0, []float64{timed(x.Variant)})
				}
			}
		}
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()*1e3/float64(b.N*s.Limit), "CPU-ms/config")
}

// cpuTime is what the process has used of all cores.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The table is the formula.
func TestMatern(t *testing.T) {
	for r := 0.0; r < 12; r += 0.000937 {
		x := r * math.Sqrt(5)
		if want := (1 + x + x*x/3) * math.Exp(-x); math.Abs(matern52(r)-want) > 3e-7 {
			t.Fatalf("%g at %g, want %g", matern52(r), r, want)
		}
	}
}

// A population never asks for a variant twice, and ends where all are tried.
func TestEvolveUnique(t *testing.T) {
	s, time := cube(2880)
	s.Variants, s.At = s.Variants[:90], s.At[:90]
	s.Limit = len(s.Variants)
	strategy := newEvolve(s, rand.New(rand.NewPCG(1, 1)))
	board := NewBoard(s, 0, 0)
	for round := 0; ; round++ {
		visits := strategy.Ask(board)
		if len(visits) == 0 {
			break
		}
		for _, x := range visits {
			if board.Seen(x.Variant) {
				t.Fatalf("%d is asked for twice", x.Variant)
			}
			if x.Variant%3 == 1 {
				board.fail(x.Variant)
			} else {
				board.tell(x.Variant, round, []float64{time(x.Variant)})
			}
		}
	}
	if board.Measured() != 90 {
		t.Errorf("it ended after %d of 90", board.Measured())
	}
}
