package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/stats"
)

func (e *env) selftestCommand() *cli.Command {
	return &cli.Command{
		Name:        "selftest",
		Usage:       "test the ruler on this device: timer step, floor, cold against warm, stream against copy",
		Description: "Exits 4 where a check fails: numbers from this machine would mislead.",
		Flags:       join(deviceFlags, []cli.Flag{formatFlag}),
		Action:      e.selftest,
	}
}

// A trial is one check of the ruler.
type trial struct {
	name, found, wanted string
	ok                  bool
}

func (e *env) selftest(c *cli.Context) error {
	if err := noOperands(c); err != nil {
		return err
	}
	if err := report.CheckFormat(c.String("format")); err != nil {
		return err
	}
	devices, err := e.devices(c)
	if err != nil {
		return err
	}
	defer closeAll(devices)
	info := devices[0].Info()
	trials, err := e.trials(devices[0])
	if err != nil {
		return err
	}
	t := newTable("selftest of "+info.Name, "check", "found", "wanted", "verdict")
	failed := 0
	for _, x := range trials {
		verdict := "ok"
		if !x.ok {
			verdict = "UNFIT"
			failed++
		}
		t.Rows = append(t.Rows, []string{x.name, x.found, x.wanted, verdict})
	}
	if err := report.RenderTable(e.stdout, t, c.String("format")); err != nil {
		return err
	}
	if failed > 0 {
		return &coded{exitUnfit, fmt.Errorf("%d of %d checks failed: do not trust times from this machine", failed, len(trials))}
	}
	return nil
}

func (e *env) trials(dev kernels.Device) ([]trial, error) {
	info := dev.Info()
	problem := func(bytes int64, pass kernels.Pass) kernels.Problem {
		const cols = 4096
		return kernels.Problem{Op: kernels.RMSNorm, Pass: pass, M: max(bytes/(2*cols), 1), N: cols, DType: kernels.BF16, Weight: kernels.BF16}
	}
	// time takes samples of a family on a problem, in microseconds.
	time := func(p kernels.Problem, family string, samples int, flush int64) ([]float64, error) {
		b, err := dev.Open(e.ctx, p, 1)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		v := kernels.Variant{Family: family}
		check, err := b.Check(e.ctx, v, 1)
		if err != nil {
			return nil, err
		}
		if !check.OK() {
			return nil, fmt.Errorf("%s on %s: %s", family, p, check.Reason())
		}
		t, err := b.Time(e.ctx, v, kernels.TimeOptions{Samples: samples + 1, Flush: flush})
		if err != nil {
			return nil, err
		}
		us := t.Seconds[1:]
		for i := range us {
			us[i] *= 1e6
		}
		return us, nil
	}
	flush := sweep.ColdProtocol(info, 1).Flush
	var trials []trial

	// The floor: a row of nothing much. Its samples also show the timer's step.
	floor, err := time(problem(0, kernels.Fwd), "rms_fwd/stream", 200, 0)
	if err != nil {
		return nil, err
	}
	f := stats.Median(floor)
	trials = append(trials, trial{"floor: the smallest launch", fmt.Sprintf("%.2f us", f), "below 100 us", f < 100})
	step := timerStep(floor)
	trials = append(trials, trial{"timer step", fmt.Sprintf("%.3f us", step), "at most 1 us", step <= 1})

	// Cold is cold: what fits in a quarter of the cache is read faster when it is
	// left there.
	small := problem(info.CacheBytes/8, kernels.Fwd)
	cold, err := time(small, "rms_fwd/stream", 30, flush)
	if err != nil {
		return nil, err
	}
	warm, err := time(small, "rms_fwd/stream", 30, 0)
	if err != nil {
		return nil, err
	}
	ratio := stats.Median(cold) / stats.Median(warm)
	trials = append(trials, trial{"cold over warm, " + kernels.FormatBytes(small.Bytes()) + " of tensors", fmt.Sprintf("%.2fx", ratio), "above 1.10x", ratio > 1.1})

	// The stream is as fast as a copy that normbench did not write.
	size := int64(512 << 20) // each of x and y: 1 GiB moved
	if info.Kind == kernels.KindCPU {
		size = 4 * info.CacheBytes
	}
	large := problem(size, kernels.Fwd)
	var rates [2]float64
	for i, family := range []string{"rms_fwd/stream", "rms_fwd/copy"} {
		us, err := time(large, family, 20, flush)
		if err != nil {
			return nil, err
		}
		rates[i] = float64(2*large.M*large.N*2) / stats.Median(us) / 1e3
	}
	what := kernels.FormatBytes(2*size) + " moved"
	trials = append(trials,
		trial{"stream, " + what, fmt.Sprintf("%.0f GB/s", rates[0]), "at least 95% of the copy", rates[0] >= 0.95*rates[1]},
		trial{"copy by the driver or runtime", fmt.Sprintf("%.0f GB/s", rates[1]), "above 0", rates[1] > 0})

	// The stream of a backward reads two tensors and writes one.
	back, err := time(large, "rms_fwd/stream", 20, flush)
	if err != nil {
		return nil, err
	}
	spread := stats.Spread(back)
	trials = append(trials, trial{"noise: spread of 20 samples of the stream", fmt.Sprintf("%.1f%%", 100*spread), "at most 10%", spread <= 0.1})
	return trials, nil
}

// timerStep is the smallest difference between samples, in their unit: what the
// clock cannot tell apart.
func timerStep(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	step := math.Inf(1)
	for i := 1; i < len(s); i++ {
		if d := s[i] - s[i-1]; d > 1e-6 {
			step = min(step, d)
		}
	}
	if math.IsInf(step, 1) {
		return 0
	}
	return step
}
