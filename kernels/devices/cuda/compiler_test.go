package cuda

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families"
)

// A slowCache compiles one unit for each value that comes over turn, and keeps the order.
type slowCache struct {
	turn  chan struct{}
	mu    sync.Mutex
	order []string
}

func (c *slowCache) Compile(src nvrtc.Source, opt nvrtc.CompileOptions) (*nvrtc.Binary, error) {
	name := opt.Defines[0].Value
	c.mu.Lock()
	c.order = append(c.order, name)
	c.mu.Unlock()
	<-c.turn
	return &nvrtc.Binary{Cubin: []byte(name)}, nil
}

// begun waits until n units have been begun, and returns them.
func (c *slowCache) begun(t *testing.T, n int) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		order := slices.Clone(c.order)
		c.mu.Unlock()
		if len(order) >= n || time.Now().After(end) {
			return strings.Join(order, " ")
		}
	}
}

func launch(n int64) *kernels.Launch {
	return &kernels.Launch{Stage: "k1", Source: "reduce.cu", Entry: "k",
		Defines: []kernels.Define{{Name: "N", Value: n}}}
}

func plans(ns ...int64) (list []kernels.Plan) {
	for _, n := range ns {
		list = append(list, kernels.Plan{Launches: []kernels.Launch{*launch(n)}})
	}
	return list
}

// What is asked for goes ahead of what is announced, the newest announcement ahead of
// older ones, and what a problem's new announcement leaves out is dropped.
func TestAskedGoesAheadOfAnnounced(t *testing.T) {
	cache := &slowCache{turn: make(chan struct{})}
	c := newCompileQueue(families.New(), cache.Compile, 1)
	defer c.close()
	a, b := kernels.Problem{M: 1, N: 1}, kernels.Problem{M: 2, N: 2}
	c.announce(a, plans(1, 2, 3, 4))
	cache.begun(t, 1)
	c.announce(b, plans(20, 3, 30, 40)) // first of all: the newest
	c.announce(a, plans(5, 2, 1))       // 4 is dropped; 3 is b's too
	c.announce(b, plans(40, 20))        // 3 and 30 are dropped
	got := make(chan string)
	go func() {
		b, err := c.binary(launch(2))
		assert.That(t, err == nil, "%v", err)
		got <- string(b.Cubin)
	}()
	for asked := false; !asked; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		asked = len(c.asked) == 1
		c.mu.Unlock()
	}
	cache.turn <- struct{}{}
	cache.turn <- struct{}{}
	assert.Equal(t, <-got, "2", "the binary")
	for range 3 {
		cache.turn <- struct{}{}
	}
	assert.Equal(t, cache.begun(t, 5), "1 2 40 20 5", "compiled")
	// What was dropped is compiled when it is asked for.
	go func() { cache.turn <- struct{}{} }()
	if b, err := c.binary(launch(4)); err != nil || string(b.Cubin) != "4" {
		t.Errorf("%+v, %v", b, err)
	}
}

// Each unit is compiled once, by however many goroutines, and all of them end.
func TestEachUnitIsCompiledOnce(t *testing.T) {
	cache := &slowCache{turn: make(chan struct{})}
	close(cache.turn)
	c := newCompileQueue(families.New(), cache.Compile, 4)
	for i := range int64(40) {
		c.announce(kernels.Problem{M: i % 3}, plans(i, i+1, i+2))
	}
	for i := range int64(42) {
		b, err := c.binary(launch(i))
		assert.Must(t, err == nil && string(b.Cubin) == fmt.Sprint(i), "%d: %+v, %v", i, b, err)
	}
	slices.Sort(cache.order)
	n := len(slices.Compact(slices.Clone(cache.order)))
	assert.That(t, n == 42 && len(cache.order) == 42,
		"compiled %d units %d times", n, len(cache.order))
	c.close()
}

// A driver reads as many arguments as the kernel has parameters: a launch with others is refused, also one of an
// extern "C" kernel of another checkout.
func TestArgumentsAreTheKernelsParameters(t *testing.T) {
	b := &nvrtc.Binary{Cubin: []byte(".visible .entry k(\n\t.param .u64 x,\n\t.param .u32 n\n)\n{ ret; }\n")}
	l := &kernels.Launch{Source: families.Baseline + "k.cu", Entry: "k", Args: kernels.Buffers("x")}
	assert.Error(t, CheckArgs(b, l), "baseline:k.cu: k takes 2 parameters of [8 4] bytes, and is given 1 of [8]")
	l.Args = append(l.Args, kernels.Arg{Kind: kernels.ArgInt32, Name: "n", Int: 1})
	assert.NoError(t, CheckArgs(b, l))
}
