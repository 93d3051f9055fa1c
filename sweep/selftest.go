package sweep

import (
	"context"
	"fmt"
	"math"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// SelfTest compares a device's timer with what is known: kernels that do nothing or spin for a given
// time, the same read cold and warm, and a copy that normbench did not write. floor is the time of an
// empty launch in microseconds. A trial that fails is in trials; the error is a failure of the device.
func SelfTest(ctx context.Context, r *kernels.Registry,
	dev kernels.Device) (trials []record.Trial, floor float64, err error) {
	s := &selfTest{ctx: ctx, registry: r, dev: dev, info: dev.Info()}
	defer s.close()
	for _, trial := range []func() error{s.state, s.warmUp, s.rates, s.launches, s.checkColdReads, s.checkL2Eviction} {
		if err := trial(); err != nil {
			return nil, 0, err
		}
	}
	return s.trials, s.floor, nil
}

// Floor measures the median time of an empty launch, in microseconds: the part of every short time that
// the host and the driver take.
func Floor(ctx context.Context, r *kernels.Registry, dev kernels.Device) (float64, error) {
	s := &selfTest{ctx: ctx, registry: r, dev: dev, info: dev.Info()}
	defer s.close()
	us, err := s.time(s.problem(0), "rms_fwd/empty", s.launchSamples(), kernels.TimeOptions{})
	if err != nil {
		return 0, err
	}
	return stats.Median(us), nil
}

// A selfTest is the state of one SelfTest.
type selfTest struct {
	ctx      context.Context
	registry *kernels.Registry
	dev      kernels.Device
	info     kernels.DeviceInfo
	trials   []record.Trial
	floor    float64
	session  *Session                 // of the open problem; nil before the first
	checked  map[kernels.Variant]bool // what was right on it
}

// open makes a session for p, unless it is the current one's problem.
func (s *selfTest) open(p kernels.Problem) {
	if s.session == nil || s.session.Problem != p {
		s.close()
		s.session = &Session{Device: s.dev, Registry: s.registry, Problem: p, Seed: 1}
		s.checked = map[kernels.Variant]bool{}
	}
}

func (s *selfTest) close() {
	if s.session != nil {
		s.session.Close()
	}
}

// add adds a trial; found is a format for args.
func (s *selfTest) add(ok bool, name, wanted, found string, args ...any) {
	s.trials = append(s.trials,
		record.Trial{Name: name, Found: fmt.Sprintf(found, args...), Wanted: wanted, OK: ok})
}

// problem makes a forward whose x and y have about so many bytes each.
func (s *selfTest) problem(bytes int64) kernels.Problem {
	const cols = 4096
	return kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: max(bytes/(2*cols), 1),
		N: cols, DType: kernels.BF16, Weight: kernels.BF16}
}

// time takes samples of a family on a problem, in microseconds, and drops the first. With o.Stages they
// are times of the first launch, else of the whole plan. It checks the answer of a family that moves
// tensors before its first time.
func (s *selfTest) time(p kernels.Problem, family string, samples int,
	o kernels.TimeOptions) ([]float64, error) {
	f, err := s.registry.Lookup(family)
	if err != nil {
		return nil, err
	}
	s.open(p)
	v := kernels.Variant{Family: family, Config: f.Base(p, s.info)}
	if f.Stream && !s.checked[v] {
		c, err := s.session.Check(s.ctx, v, 1)
		if err != nil {
			return nil, err
		}
		if !c.OK() {
			return nil, fmt.Errorf("%s on %s: %s", family, p, c.Reason())
		}
		s.checked[v] = true
	}
	o.Samples = samples + 1
	t, err := s.session.time(s.ctx, v, o)
	if err != nil {
		return nil, err
	}
	seconds := t.Seconds
	if o.Stages && len(t.Stages) > 0 {
		seconds = t.Stages[0].Seconds
	}
	return record.Micros(seconds[1:]), nil
}

// coldOptions makes the options for cold samples.
func (s *selfTest) coldOptions() kernels.TimeOptions {
	return kernels.TimeOptions{Flush: ColdProtocol(s.info, 1).Flush}
}

// launchSamples returns how many samples are taken of kernels that do next to nothing. On a CPU each
// waits for a flush of milliseconds, and a quarter of them shows as much.
func (s *selfTest) launchSamples() int {
	if s.info.Kind == kernels.KindCPU {
		return 25
	}
	return 100
}

// largeProblem makes the problem on which rates are measured: 1 GiB moved on a GPU, less where its
// float64 answers would not fit. On a CPU these answers take longer than all else, so it has a quarter
// of the cache: it is read cold, behind a flush, and takes longer than most kernels of a first sweep.
func (s *selfTest) largeProblem() kernels.Problem {
	if s.info.Kind == kernels.KindCPU {
		return s.problem(s.info.CacheBytes / 4)
	}
	bytes := int64(512 << 20)
	if s.info.MemoryBytes > 0 {
		bytes = min(bytes, s.info.MemoryBytes/32)
	}
	return s.problem(bytes)
}

// state adds a trial that Confidential Computing is off, which no trial of a timer shows.
func (s *selfTest) state() error {
	sensor, ok := s.dev.(kernels.Sensor)
	if !ok || s.info.Kind != kernels.KindCUDA {
		return nil
	}
	r, err := sensor.Sense(s.ctx)
	if err != nil {
		return err
	}
	confidential := "off"
	switch {
	case r.Confidential:
		confidential = "on: CUDA events are unreliable"
	case r.MaxClockMHz == 0:
		confidential = "not known: no NVML"
	}
	s.add(!r.Confidential, "Confidential Computing", "off", "%s", confidential)
	return nil
}

func (s *selfTest) warmUp() error {
	return WarmUp(func() ([]float64, error) {
		return s.time(s.largeProblem(), "rms_fwd/stream", 10, s.coldOptions())
	})
}

// launches adds trials of kernels whose time is known: an empty launch, a spin, and pairs of launches,
// between which the host must leave no gap.
func (s *selfTest) launches() error {
	smallest := s.problem(0)
	median := map[string]float64{}
	var step float64
	type launch struct {
		name, family string
		flush        int64
	}
	list := []launch{{"empty", "rms_fwd/empty", 0}, {"spin", "rms_fwd/spin", 0}}
	queued := s.info.Kind == kernels.KindCUDA // a cpu's launch is a call, and no host is ahead of it
	if queued {
		list = append(list, launch{"pair", "rms_fwd/pair", s.coldOptions().Flush},
			// With four times the flush ahead of it the host has four times the time.
			launch{"pair behind a long queue", "rms_fwd/pair", 4 * s.coldOptions().Flush})
	}
	for _, x := range list {
		us, err := s.time(smallest, x.family, s.launchSamples(), kernels.TimeOptions{Flush: x.flush})
		if err != nil {
			return err
		}
		median[x.name] = stats.Median(us)
		if x.name == "empty" {
			step = stats.TimerStep(us)
		}
	}
	s.floor = median["empty"]
	floor, spin := median["empty"], float64(families.SpinTime.Nanoseconds())/1e3
	s.add(floor < 100, "floor: an empty launch", "below 100 us", "%.2f us", floor)
	s.add(step <= 1, "timer step", "at most 1 us", "%.3f us", step)
	read := median["spin"] - floor
	s.add(math.Abs(read-spin) <= 0.02*spin, fmt.Sprintf("spin kernel of %.0f us", spin), "within 2%",
		"%.1f us", read)
	if !queued {
		return nil
	}
	gap := median["pair"] - median["pair behind a long queue"]
	s.add(gap < math.Max(0.5, 0.1*median["pair"]), "host-made gap, two launches of an empty kernel",
		"below 0.5 us or 10%", "%.2f us of %.2f", max(gap, 0), median["pair"])
	return nil
}

// checkColdReads adds a trial that cold samples are cold: tensors that fit into a part of the cache are
// read faster when they are left there.
func (s *selfTest) checkColdReads() error {
	small := s.problem(s.info.CacheBytes / 8)
	var times [2]float64
	for i, o := range []kernels.TimeOptions{{}, s.coldOptions()} {
		us, err := s.time(small, "rms_fwd/stream", 30, o)
		if err != nil {
			return err
		}
		times[i] = stats.Median(us)
	}
	size := kernels.FormatBytes(small.Bytes())
	ratio := times[1] / times[0]
	s.add(ratio > 1.1, "cold over warm, "+size+" of tensors", "above 1.10x", "%.2fx", ratio)
	return nil
}

// checkL2Eviction adds a trial that the flush evicts lines that a kernel asked the L2 to keep. One kernel
// is timed in turns where the L2 may keep its tensor and where it may not: behind the flush, and as a
// control behind a plain read of as many bytes, which kept lines survive. Where they do not, as below
// sm_80 or on a slice of a GPU, nothing is kept from any flush.
func (s *selfTest) checkL2Eviction() error {
	if s.info.Kind != kernels.KindCUDA {
		return nil
	}
	small := s.problem(s.info.CacheBytes / 6) // the driver's default allows 3/16
	// kept over not kept: behind a plain reading, behind the flush
	var ratio [2]float64
	for i, flush := range []int64{0, s.coldOptions().Flush} {
		times := map[bool][]float64{}
		for _, persist := range []bool{true, false, false, true} {
			us, err := s.time(small, "rms_fwd/kept", 30,
				kernels.TimeOptions{Flush: flush, Stages: true, Persist: persist})
			if err != nil {
				return err
			}
			times[persist] = append(times[persist], us...)
		}
		ratio[i] = stats.Median(times[true]) / stats.Median(times[false])
	}
	found := fmt.Sprintf("%.2fx; %.2fx", ratio[1], ratio[0])
	if ratio[0] > 0.95 {
		found += ": none kept"
	}
	s.add(ratio[1] >= 0.95, "L2 lines kept over not kept, flush; plain reads",
		"flush at least 0.95x", "%s", found)
	return nil
}

// rates adds trials of the stream's rate against a copy by the driver (on a CPU by the Go runtime),
// against the memory's peak, and of its noise.
func (s *selfTest) rates() error {
	p := s.largeProblem()
	moved := 2 * p.M * p.N * p.DType.Size()
	var rate, spread [2]float64
	for i, family := range []string{"rms_fwd/stream", "rms_fwd/copy"} {
		us, err := s.time(p, family, 20, s.coldOptions())
		if err != nil {
			return err
		}
		rate[i], spread[i] = float64(moved)/stats.Median(us)/1e3, stats.Spread(us)
	}
	s.add(rate[0] >= 0.95*rate[1], "stream, "+kernels.FormatBytes(moved)+" moved",
		"at least 95% of the copy", "%.0f GB/s", rate[0])
	s.add(s.info.PeakRate == 0 || rate[0]*1e9 <= float64(s.info.PeakRate),
		"copy by the driver or runtime; memory's peak", "stream below the peak", "%.0f GB/s; %.0f",
		rate[1], float64(s.info.PeakRate)/1e9)
	s.add(spread[0] <= 0.1, "noise: spread of 20 samples of the stream", "at most 10%", "%.1f%%",
		100*spread[0])
	return nil
}
