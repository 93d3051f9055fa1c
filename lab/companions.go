package lab

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/nvrtc"
	"normbench/kernels/worker"
)

// defaultAtOnce is how many problems a sweep has open on a GPU: enough for the compilers of this
// many cores to have work while one problem is measured. A single search keeps some five cores
// busy.
func defaultAtOnce(cores int) int { return min(1+cores/4, 4) }

// companions starts more workers for the GPUs that this host's workers drive. sweep.Run takes turns
// with them on the rest of ps. If one
// does not start, as on a GPU in exclusive mode, the sweep goes on with the others.
func (l *Lab) companions(m *Config, devices []kernels.Device, ps []kernels.Problem,
	left int) ([]kernels.Device, error) {
	info := devices[0].Info()
	own := info.Kind == kernels.KindCUDA && info.UUID != "" && len(m.Workers) == 0
	if _, ok := devices[0].(*worker.Client); !ok || !own {
		return nil, nil
	}
	most := int64(1) // bytes of a problem
	for _, p := range ps {
		most = max(most, p.Footprint())
	}
	n := min(defaultAtOnce(runtime.NumCPU()), (left+len(devices)-1)/len(devices), int(info.MemoryBytes/2/most))
	if n < 2 {
		return nil, nil
	}
	// More compilers than cores: those of the worker that measures, and of one that decides, are
	// idle. On 16 cores 40 of them keep 72% of the core time busy. Workers of several GPUs share the
	// cores.
	all, err := nvrtc.Compilers()
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	each := (all + 2*len(devices) - 1) / (2 * len(devices))
	more, errs := make([]kernels.Device, len(devices)*(n-1)), make([]error, len(devices)*(n-1))
	for i := range more {
		wg.Go(func() {
			d, err := devices[i%len(devices)].(*worker.Client).Another(l.Ctx,
				fmt.Sprintf("%s=%d", nvrtc.CompilersVariable, each))
			if errs[i] = err; err == nil {
				more[i] = d
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && l.Ctx.Err() == nil {
			l.Notef("fewer problems at once: %s", console.OneLine(err.Error()))
			break
		}
	}
	return slices.DeleteFunc(more, func(d kernels.Device) bool { return d == nil }), nil
}
