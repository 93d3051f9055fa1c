package lab

import (
	"runtime"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/devices/worker"
)

// companions starts more workers for the GPUs that this host's workers drive. sweep.Run takes turns
// with them on the rest of ps. If one does not start, as on a GPU in exclusive mode, the sweep goes on
// with the others.
func (l *Lab) companions(m *OpenOptions, devices []kernels.Device, ps []kernels.Problem,
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
	// As many problems are open on a GPU as give all cores' compilers work while one is measured. A
	// single search keeps some five cores busy.
	n := min(1+runtime.NumCPU()/4, 4, (left+len(devices)-1)/len(devices), int(info.MemoryBytes/2/most))
	if n < 2 {
		return nil, nil
	}
	// More compilers than cores: those of the worker that measures, and of one that decides, are
	// idle. On 16 cores 40 of them keep 72% of the core time busy. Workers of several GPUs share the
	// cores.
	share, err := local.ShareCompilers(2 * len(devices))
	if err != nil {
		return nil, err
	}
	more, err := startAll(len(devices)*(n-1), func(i int) (*worker.Client, error) {
		return devices[i%len(devices)].(*worker.Client).StartAnother(l.Ctx, share)
	})
	if err != nil && l.Ctx.Err() == nil {
		l.Notef("fewer problems at once: %s", console.OneLine(err.Error()))
	}
	return more, nil
}
