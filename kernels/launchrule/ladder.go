package launchrule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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

// Ladder finds the rules for a device among sets, of which some may be nil. On another device than their own rules are scaled: their bounds are in SMs and
// L2s, elements of x count by the L2, and what its space refuses, the shared memory's part, falls to the next step.
func Ladder(sets []*Set, d *kernels.DeviceInfo) (best Step) {
	for _, s := range sets {
		if s == nil {
			continue
		}
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
		at.elems = max(1, int64(float64(at.elems)*float64(own)/float64(d.CacheBytes)))
	}
	return at
}

// Scaled is the set as rules of d that answer there as s does: elements count by the L2, all other bounds are
// relative already. Lists and evidence of another device name it.
func (s *Set) Scaled(d kernels.DeviceInfo) *Set {
	out := *s
	out.Device = d
	if d.ID == s.Device.ID && d.CacheBytes == s.Device.CacheBytes {
		return &out
	}
	// At rounds down what it compares: a bound is the largest number that it takes for the bound or less.
	elems := func(bound int64) int64 {
		own, now := float64(s.Device.CacheBytes), float64(d.CacheBytes)
		if bound == 0 || own <= 0 || now <= 0 || own == now {
			return bound
		}
		n := int64(min(math.Ceil(float64(bound+1)*now/own), 1<<50))
		for n > 1 && int64(float64(n)*own/now) > bound {
			n--
		}
		return n
	}
	out.Lists = slices.Clone(s.Lists)
	for i := range out.Lists {
		l := &out.Lists[i]
		if d.ID != s.Device.ID && !strings.Contains(l.Origin, " of ") {
			l.Origin = cmp.Or(l.Origin, "rules") + " of " + s.Device.ID
		}
		l.Rules = slices.Clone(l.Rules)
		for k := range l.Rules {
			r := &l.Rules[k]
			r.ElemsOver, r.ElemsMax = elems(r.ElemsOver), elems(r.ElemsMax)
			if e := &r.Evidence; e.Problems > 0 {
				if e.Device = cmp.Or(e.Device, s.Device.ID); e.Device == d.ID {
					e.Device = ""
				}
			}
		}
	}
	return &out
}
