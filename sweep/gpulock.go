package sweep

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"normbench/kernels"
)

// A gpuLock lets one device loop at a time onto a GPU that several drive, each through a process of its
// own. While one measures, the others compile and decide: times are taken with nothing else on the GPU.
type gpuLock struct {
	uuid string // of the GPU
	turn *semaphore.Weighted
	busy time.Duration // of the GPU, for what was kept

	mu    sync.Mutex
	loops []*deviceLoop
}

// addLoop adds the loop of a device to the run. Loops of one GPU have the same lock. A device that does not
// say which GPU it is has a lock of its own.
func (r *runState) addLoop(d kernels.Device, out chan<- batch) *deviceLoop {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loops++
	v := &deviceLoop{run: r, dev: d, out: out, ledger: newLedger(r.toCome)}
	uuid := d.Info().UUID
	i := slices.IndexFunc(r.gpus, func(g *gpuLock) bool { return uuid != "" && g.uuid == uuid })
	if i < 0 {
		i, r.gpus = len(r.gpus), append(r.gpus, &gpuLock{uuid: uuid, turn: semaphore.NewWeighted(1)})
	}
	v.gpu = r.gpus[i]
	v.gpu.mu.Lock()
	defer v.gpu.mu.Unlock()
	v.gpu.loops = append(v.gpu.loops, v)
	return v
}

// sharers returns the loops that take turns on the GPU.
func (g *gpuLock) sharers() []*deviceLoop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.loops)
}

// takeTurn waits for the loop's turn on the GPU and runs what. The device then counts the processes of
// the other loops as no strangers.
func (v *deviceLoop) takeTurn(ctx context.Context, what func() error) error {
	g, start := v.gpu, time.Now()
	if err := g.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer g.turn.Release(1)
	v.waited += time.Since(start)
	if n, ok := v.dev.(kernels.ProcessIgnorer); ok && v.shares() {
		var pids []int
		for _, o := range g.sharers() {
			if p, ok := o.dev.(interface{ PID() int }); ok && o != v && p.PID() != 0 {
				pids = append(pids, p.PID())
			}
		}
		n.IgnoreProcesses(pids...)
	}
	return what()
}

// shares says whether several loops take turns on the GPU.
func (v *deviceLoop) shares() bool { return len(v.gpu.sharers()) > 1 }

// unprepared is the number of deaths while compiling after which a device is not asked to compile ahead
// any more: a check compiles too.
const unprepared = 8

// prepare compiles a variant before the loop's turn on the GPU. It counts the deaths of the device in
// this.
func (v *deviceLoop) prepare(ctx context.Context, p kernels.Problem, variant kernels.Variant) error {
	d, ok := v.dev.(kernels.Preparer)
	if !ok || v.diedPreparing == unprepared {
		return nil
	}
	err := d.Prepare(ctx, p, variant)
	if f := FailureOf(err); f != nil && f.Broken {
		v.diedPreparing++
	}
	return err
}
