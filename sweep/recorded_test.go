package sweep

import (
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/replay"
)

// A replay's task has what the file holds, also what today's space refuses, and a base with times.
func TestReplaysTaskHasWhatTheFileHolds(t *testing.T) {
	r := families.New()
	p := devicetest.Problem(t, "rmsnorm/bwd/8192x4096/bf16")
	odd := kernels.Variant{Family: "rms_bwd/smem_pipe",
		Config: kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: 3})}
	other := odd
	other.Config = kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: 4})
	gone := kernels.Variant{Family: "rms_bwd/gone"}
	info := kernels.DeviceInfo{ID: "gpu", Kind: kernels.KindCUDA, Name: "GPU", Arch: "sm_90",
		SMs: 132}
	d, err := replay.New(info, "file", 1, []*record.Record{
		{Problem: p, Family: odd.Family, Config: odd.Config, Status: kernels.StatusOK,
			SamplesUS: []float64{5}},
		{Problem: p, Family: other.Family, Config: other.Config, Status: kernels.StatusWrong,
			Reason: "it is"},
		{Problem: p, Family: gone.Family, Status: kernels.StatusOK, SamplesUS: []float64{3}},
	})
	assert.NoError(t, err)
	today := kernels.Variant{Family: "rms_bwd/two_pass"}
	tasks := []Task{{Problem: p, Base: today, Variants: []kernels.Variant{today}}}
	assert.Equal(t, UseRecorded(r, tasks, d), 1,
		"left out, want the one of a family that is gone")
	assert.That(t, tasks[0].Base == odd &&
		slices.Equal(tasks[0].Variants, []kernels.Variant{odd, other}), "base %s of %v",
		tasks[0].Base, tasks[0].Variants)
	tasks = []Task{{Problem: p, Base: today, BaseOf: today.Family, Variants: []kernels.Variant{today}}}
	UseRecorded(r, tasks, d)
	assert.Equal(t, tasks[0].Base, today, "base", "of another family than the one against itself")
}
