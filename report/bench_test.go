package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
)

// benched are records of the stream and of a backward of two stages.
func benched(t *testing.T) []*record.Record {
	p := devicetest.Problem(t, "rmsnorm/bwd/8192x4096/bf16")
	us := func(middle float64) (list []float64) {
		for i := range 20 {
			list = append(list, middle+float64(i%5)/10)
		}
		return list
	}
	of := func(variant string, middle float64) *record.Record {
		v := devicetest.Variant(t, variant)
		return &record.Record{Problem: p, Family: v.Family, Config: v.Config, Status: kernels.StatusOK,
			Bytes: p.Bytes(), SamplesUS: us(middle), StreamUS: 51.2}
	}
	r := of("rms_bwd/reg_persist@br2.w8.v0.st2.k1.p0.ho1.ro0.so0.pt0.rc0.rr0.rw0.er0.lb0.ch0", 66.1)
	r.Stages = []record.Stage{{Stage: "k1", SamplesUS: us(62.2)}, {Stage: "k2", SamplesUS: us(3.9)}}
	r.StagesBy = kernels.ByExposed
	r.Check = &kernels.Check{Resources: []kernels.Resource{
		{Stage: "k1", Registers: 128, Shared: 49152, Occupancy: 2, Threads: 256, CTAs: 132},
		{Stage: "k2", Registers: 40, Occupancy: 8, Threads: 256, CTAs: 1100}}}
	return []*record.Record{of("stream@w8.k0.u1.ch2", 51), r}
}

// bench shows the time of each stage on 100 columns.
func TestBenchShowsStages(t *testing.T) {
	text := shown(t, BenchTable(benched(t), &record.Run{Protocol: record.Protocol{Name: "cold", Samples: 20}}), Layout{Width: 100})
	for _, want := range []string{"stages us", "k1 62.4 (94%), exposed", "k2 4.1 (6%)"} {
		assert.That(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
}

// Ten lines say why a problem takes its time: testdata/measured.txt, on a GPU, one that is faster than the
// stream, and on a CPU, where nothing of a GPU is said.
func TestTenLinesSayWhyAProblemTakesItsTime(t *testing.T) {
	r, all := benched(t)[1], ""
	run := &record.Run{Protocol: record.Protocol{Name: "cold", Samples: 20}, Device: devicetest.H200(), FloorUS: 2.31}
	run.Device.PeakRate = 4_800e9
	plan := kernels.Plan{Launches: []kernels.Launch{{Stage: "k1"}, {Stage: "k2"}}}
	show := func() {
		text := shown(t, MeasuredTable(r, run, plan, "cell: measured there"), Layout{Width: 110})
		assert.That(t, strings.Count(text, "\n") <= 11, "%d lines", strings.Count(text, "\n"))
		all += text + "\n"
	}
	show()
	r.Check.Resources[0].CTAs = 5000
	plan.Launches[0].Cluster = 4
	r.StreamUS = 70
	show()
	plan.Launches, r.Stages, r.Check, r.StagesBy, r.StreamUS = plan.Launches[:1], nil, &kernels.Check{}, "", 51.2
	run.Device, run.FloorUS = kernels.DeviceInfo{ID: "cpu-x", Kind: kernels.KindCPU, Name: "X", SMs: 2}, 0
	show()
	var b bytes.Buffer
	assert.NoError(t, RenderTable(&Screen{Writer: &b}, MeasuredTable(r, run, plan, "base"), FormatJSON))
	var got struct{ Rows []map[string]any }
	assert.NoError(t, json.Unmarshal(b.Bytes(), &got))
	assert.Must(t, got.Rows[0]["floor_us"] == nil && got.Rows[0]["peak_percent"] == nil && got.Rows[0]["us"] != nil,
		"%v", got.Rows)
	assert.Golden(t, "testdata/measured.txt", all)
}
