package kernels_test

import (
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

func TestReadingUnfit(t *testing.T) {
	for _, tt := range []struct {
		r        kernels.Reading
		minClock float64
		want     string
	}{
		{kernels.Reading{}, 0.75, ""},
		{kernels.Reading{ClockMHz: 1485, MaxClockMHz: 1980}, 0.75, ""}, // exactly at the bound
		{kernels.Reading{ClockMHz: 1200, MaxClockMHz: 1980}, 0.75, "the clock is 1200 MHz of 1980"},
		{kernels.Reading{ClockMHz: 1200}, 0.75, ""},
		{kernels.Reading{ClockMHz: 1200, MaxClockMHz: 1980}, 0, ""},
		{kernels.Reading{Throttle: []string{"sw power cap", "hw slowdown"}}, 0,
			"throttled: sw power cap"},
		{kernels.Reading{Others: []string{"process 7"}, Throttle: []string{"hw slowdown"}}, 0,
			"the GPU is shared with process 7"},
		{kernels.Reading{Confidential: true, Sliced: true}, 0,
			"Confidential Computing is on: CUDA events are unreliable"},
		{kernels.Reading{ECC: true, Sliced: true}, 0, "the GPU is sliced (MIG)"},
		{kernels.Reading{Sliced: true, Others: []string{"process 7"}}, 0,
			"the GPU is sliced (MIG)"},
	} {
		assert.Equal(t, tt.r.Unfit(tt.minClock), tt.want, tt.r, "at", tt.minClock)
	}
}

// What clears amax takes nothing: the main launch of a check is its first of a kernel.
func TestCheckMain(t *testing.T) {
	c := &kernels.Check{Resources: []kernels.Resource{{Stage: "zero", Registers: 1}, {Stage: "k1"},
		{Stage: "transpose"}}}
	got := c.Main()
	assert.That(t, got != nil && got.Stage == "k1", "main is %+v", got)
	c.Resources = c.Resources[1:]
	assert.That(t, c.Main().Stage == "k1" && (&kernels.Check{}).Main() == nil &&
		(*kernels.Check)(nil).Main() == nil, "main of k1 and transpose, or of nothing")
}

// What is wrong with a device's ID testdata/texts.txt has.
func TestDeviceInfoValidate(t *testing.T) {
	assert.NoError(t, (&kernels.DeviceInfo{ID: "a", SMs: 1}).Validate())
	for _, d := range []kernels.DeviceInfo{{}, {ID: "a", SMs: -1}, {ID: "a", CacheBytes: -1},
		{ID: "a", PeakRate: -1}} {
		assert.That(t, d.Validate() != nil, "%+v", d)
	}
}
