package sweep

import (
	"cmp"
	"fmt"

	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep/record"
)

// overPeak is by how much a driver's figure of the memory's rate may exceed the public one, and
// beyondCards how often the rate of the fastest known card may be exceeded by one that is not
// known.
const (
	overPeak    = 1.05
	beyondCards = 4
)

// overStream is how much faster than the run's own stream a memory of unknown rate may be.
const overStream = 2

// peakOf is the most bytes per second that the memory of a device moves, 0 where that is not known;
// why says that no card moves as many as this one says.
func peakOf(d kernels.DeviceInfo) (rate float64, why string) {
	rate = float64(d.PeakRate)
	limit := 0.0
	if d.Kind != kernels.KindCUDA { // no cpu outruns the fastest card, whatever it says
		for _, k := range launchmap.KnownDevices() {
			limit = max(limit, beyondCards*float64(k.PeakRate))
		}
		return min(cmp.Or(rate, limit), limit), ""
	}
	for _, k := range launchmap.KnownDevices() {
		if k.ID == d.ID {
			rate, limit = max(rate, float64(k.PeakRate)), overPeak*float64(k.PeakRate)
			break
		}
		limit = max(limit, beyondCards*float64(k.PeakRate))
	}
	if rate > limit {
		why = fmt.Sprintf("the device says that its memory moves %.0f GB/s, and no such card moves "+
			"more than %.0f", rate/1e9, limit/1e9)
	}
	return rate, why
}

// leastUS is a time in microseconds that no run of anything stays below: two readings of a clock.
const leastUS = 0.01

// Impossible says why a time of a problem, in microseconds, cannot be true, or is "": it is shorter
// than leastUS or an empty launch, of emptyUS, or the memory would have moved more than it can. Cold inputs
// come from the memory; of the outputs as much may stay in the cache as it holds. The rate of a
// memory that is not known is held to the run's own stream, of streamUS. Both are 0 where they are
// not known.
func Impossible(p kernels.Problem, d kernels.DeviceInfo, pr record.Protocol, emptyUS, streamUS,
	us float64) string {
	peak, why := peakOf(d)
	switch {
	case why != "":
		return why
	case us < leastUS:
		return fmt.Sprintf("it takes %.3f us, and nothing takes less than %.3f: miscounted", us, leastUS)
	case us < emptyUS:
		return fmt.Sprintf("it takes %.3f us, and an empty launch %.3f: miscounted", us, emptyUS)
	case !pr.Cold:
		return ""
	case peak == 0 && streamUS > 0 && d.Kind == kernels.KindCUDA:
		peak = overStream * float64(p.Bytes()) / streamUS * 1e6
	}
	moved := map[kernels.Role]int64{}
	for _, t := range p.Tensors() {
		moved[t.Role] += t.Bytes()
	}
	read, written := moved[kernels.Input], max(moved[kernels.Output]-d.CacheBytes, 0)
	if rate := float64(read+written) / us * 1e6; peak > 0 && rate > peak {
		return fmt.Sprintf("it would have moved %.0f GB/s, and the memory's peak is %.0f: warm, or "+
			"miscounted", rate/1e9, peak/1e9)
	}
	return ""
}
