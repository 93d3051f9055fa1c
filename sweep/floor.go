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
	// overPeak bounds a driver's figure of the memory's rate as a multiple of the public one.
	// beyondCards bounds the rate of a card that is not known, as a multiple of the fastest known
	// card's.
	overPeak    = 1.05
	beyondCards = 4
)

// overStream bounds the rate of a memory of unknown rate, as a multiple of the run's own stream.
const overStream = 2

// memoryPeak returns the most bytes per second that the memory of a device can move, 0 where that is not
// known. why is not "" where the device claims a rate that no card has.
func memoryPeak(d kernels.DeviceInfo) (rate float64, why string) {
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

// leastUS is the shortest time in microseconds that anything takes: two readings of a clock.
const leastUS = 0.01

// Impossible says why a time of us microseconds for a problem cannot be true, or returns "". It cannot
// be true if it is shorter than leastUS or an empty launch (emptyUS), or if the memory would have moved
// more than it can.
//
// Cold inputs come from the memory; outputs may stay in the cache as far as they fit. Where the memory's
// rate is not known, the bound is twice the rate of the run's own stream (streamUS). emptyUS and
// streamUS are microseconds, 0 where not known.
func Impossible(p kernels.Problem, d kernels.DeviceInfo, pr record.Protocol, emptyUS, streamUS,
	us float64) string {
	peak, why := memoryPeak(d)
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
