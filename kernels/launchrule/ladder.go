package launchrule

import (
	"fmt"
	"strconv"
	"strings"

	"normbench/kernels"
)

// A Step says which rules answer for a device, and how near they are. The zero Step is the analytic base.
type Step struct {
	Set  *Set
	Near Nearness
}

// A Nearness is what rules have in common with a device.
type Nearness int

// The steps of the ladder, the first that there is answers.
const (
	Analytic Nearness = iota // no rules: the analytic base
	Older                    // rules of an older architecture that has what this one has
	SameArch                 // rules of another device of the architecture
	Own                      // rules of the device
)

// Ladder finds the rules for a device. On another device than their own rules are scaled: their bounds are in SMs and
// L2s, elements of x count by the L2, and what its space refuses, the shared memory's part, falls to the next step.
func Ladder(sets []*Set, d *kernels.DeviceInfo) (best Step) {
	for _, s := range sets {
		near := Analytic
		have, want := archOf(s.Device.Arch), archOf(d.Arch)
		switch {
		case s.Device.Kind != d.Kind:
		case s.Device.ID == d.ID && s.Device.SMs == d.SMs:
			near = Own
		case s.Device.Arch == d.Arch && have > 0:
			near = SameArch
		case 0 < have && have < want && (have >= 90) == (want >= 90): // clusters and bulk copies came with sm_90
			near = Older
		}
		if near > best.Near || near == best.Near && near > Analytic && apart(s, d) < apart(best.Set, d) {
			best = Step{s, near}
		}
	}
	return best
}

// apart is how far a set's device is from d: newer architectures first, then by SMs.
func apart(s *Set, d *kernels.DeviceInfo) int {
	sms := s.Device.SMs - d.SMs
	return 1000*(archOf(d.Arch)-archOf(s.Device.Arch)) + max(sms, -sms)
}

// archOf is 90 of sm_90; 0 where there is none.
func archOf(arch string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return n
}

// String says it in words, for d.
func (s Step) String() string {
	if s.Set == nil {
		return "the analytic base"
	}
	of := s.Set.Device
	switch s.Near {
	case SameArch:
		return fmt.Sprintf("rules of %s, scaled from its %d SMs and %s of L2", of.ID, of.SMs, kernels.FormatBytes(of.CacheBytes))
	case Older:
		return fmt.Sprintf("rules of %s, an older architecture (%s), as far as this one accepts them", of.ID, of.Arch)
	}
	return "rules of " + of.ID
}

// At is a problem on a device that the rules answer for, scaled where it is another than their own.
func (s *Set) At(p kernels.Problem, d kernels.DeviceInfo) Place {
	at := At(p, d)
	if own := s.Device.CacheBytes; own > 0 && d.CacheBytes > 0 && own != d.CacheBytes {
		at.elems = int64(float64(at.elems) * float64(own) / float64(d.CacheBytes))
	}
	return at
}
