package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// timed is a cell of which only a time is known.
func timed(us float64) Measurement {
	return Measurement{Outcome: record.Outcome{Status: kernels.StatusOK, Summary: stats.Summary{Median: us}}}
}

func coldRun(id, device string) *record.Run {
	return &record.Run{ID: id, Device: kernels.DeviceInfo{ID: device},
		Protocol: record.Protocol{Name: "cold"}}
}

func ok(us float64) Measurement {
	c := timed(us)
	c.Variant = kernels.Variant{Family: "rms_bwd/reg_persist",
		Config: kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: 8})}
	c.Lo, c.Hi, c.StreamUS = us*0.999, us*1.001, 50
	return c
}

func failed(s kernels.Status, reason string) Measurement {
	return Measurement{Outcome: record.Outcome{Variant: ok(0).Variant, Status: s, Reason: reason}}
}

func wide(c Measurement) Measurement {
	c.Lo, c.Hi = c.Median*0.8, c.Median*1.2
	return c
}

func sample(t testing.TB) *Comparison {
	base := Side{Label: "base", Cells: map[kernels.Problem]Measurement{}}
	tuned := Side{Label: "results/nvidia-h200/tuned.json", Cells: map[kernels.Problem]Measurement{}}
	for _, x := range []struct {
		problem     string
		base, tuned Measurement // without a status where there is none
	}{
		{"rmsnorm/bwd/4096x8192/bf16", ok(64.125), ok(52.1)},
		{"rmsnorm/bwd/256x65536/bf16", ok(41.5), ok(41.7)},
		{"rmsnorm/bwd/8192x1024/bf16", ok(18.25), ok(20.5)},
		{"rmsnorm/bwd/16384x1024/bf16", ok(30), failed(kernels.StatusTimeout, "no answer in 30s")},
		{"rmsnorm/bwd/576000x384/fp16", ok(1834.7), ok(912.4)},
		{"rmsnorm/fwd/4096x8192/bf16-wfp32", ok(40.75), ok(39)},
		{"rmsnorm/bwd/2048x16384/bf16", Measurement{}, ok(60)},
		{"rmsnorm/bwd/1024x32768/bf16", Measurement{}, failed(kernels.StatusResource,
			"needs 300 KiB of shared memory | 227 KiB are there")},
		{"layernorm/bwd/1x8192/fp32+bias", wide(ok(4.2)), wide(ok(3.9))},
		{"layernorm/bwd/29x17389/fp32+bias", failed(kernels.StatusWrong,
			"dx is wrong in 3 of 504281 elements,\nfirst at 7: got NaN, want 1.5"), ok(11)},
		{"layernorm/bwd/71x3571/fp32+bias", ok(6), Measurement{}},
		{"layernorm/fwd/173x409/fp32+bias+zc", ok(3), Measurement{}},
	} {
		p := devicetest.Problem(t, x.problem)
		x.base.Bytes, x.tuned.Bytes = p.Bytes(), p.Bytes()
		base.Cells[p], tuned.Cells[p] = x.base, x.tuned
	}
	none := func(_ kernels.Problem, c Measurement) bool { return c.Status == "" }
	maps.DeleteFunc(base.Cells, none)
	maps.DeleteFunc(tuned.Cells, none)
	return Compare(base, tuned)
}

// golden holds what is rendered in each format to a file. A write error is one of the rendering.
func golden(t *testing.T, name string, render func(w io.Writer, format string) error) {
	t.Helper()
	for _, f := range Formats() {
		var b bytes.Buffer
		assert.NoError(t, render(&b, f))
		assert.Golden(t, filepath.Join("testdata", name+"."+f), b.String())
		assert.That(t, f != FormatJSON || json.Valid(b.Bytes()), "not JSON")
		_, err := csv.NewReader(&b).ReadAll()
		assert.That(t, f != FormatCSV || err == nil, "%v", err)
		assert.That(t, render(brokenWriter{}, f) != nil, "%s: a write error was lost", f)
	}
}

func TestRenderWritesEveryFormat(t *testing.T) {
	c := sample(t)
	golden(t, "compare", func(w io.Writer, f string) error { return Render(w, c, f) })
}

func TestRenderTableEscapesItsCells(t *testing.T) {
	tab := &Table{
		Title:  "Kernels",
		Header: []string{"family", "time us", "note"},
		Align:  []Align{Left, Right},
		Rows: [][]string{
			{"rms_fwd/naive", "12.5", "a | b,\n\"c\" <d>"},
			{"µ-family", "1e3"},
			{"", "failed", "x", "too many"},
		},
		Notes: []string{"one note", "another ~"},
	}
	golden(t, "table", func(w io.Writer, f string) error { return RenderTable(w, tab, f) })
	golden(t, "empty", func(w io.Writer, f string) error {
		return RenderTable(w, &Table{Header: []string{"a", "b"}}, f)
	})
}

// A column has one function for people and machines: a text with a unit, and a value in full under
// a name that stays. What is not known is empty.
func TestAColumnHasTextForPeopleAndAValue(t *testing.T) {
	tab := NewTable("T", []float64{1.23456, 0}, []Column[float64]{
		{Head: "time", Name: "us", Value: func(v float64) any { return NonZero(v) },
			Text: func(v float64) string { return Micros(v) + "!" }, Means: "of day"},
		{Name: "name", Value: func(float64) any { return "x" }},
		{Head: "half", Value: func(v float64) any { return v / 2 }},
		{Head: "NaN", Name: "nan", Value: func(float64) any { return math.NaN() }}})
	tab.Notes = []string{"note"}
	golden(t, "columns", func(w io.Writer, f string) error { return RenderTable(w, tab, f) })
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// One sample has neither a spread nor an interval, and no word of one.
func TestOneSampleHasNoSpread(t *testing.T) {
	for samples, want := range map[int]bool{1: false, 12: true} {
		run := &record.Run{Protocol: record.Protocol{Name: "cold", Samples: samples}}
		r := &record.Record{Problem: kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 8, N: 64,
			DType: kernels.BF16, Weight: kernels.BF16}, Family: "rms_fwd/cta_reg", Status: kernels.StatusOK}
		for i := range samples {
			r.SamplesUS = append(r.SamplesUS, 10+float64(i))
		}
		var text, data strings.Builder
		table := BenchTable([]*record.Record{r}, run)
		assert.NoError(t, RenderTable(&text, table, FormatText))
		assert.NoError(t, RenderTable(&data, table, FormatJSON))
		assert.Equal(t, strings.Contains(text.String(), "95% interval"), want, samples, "samples:", text.String())
		assert.Equal(t, !strings.Contains(data.String(), `"spread_percent": null`), want, samples, "samples")
	}
}

// A number that stands for infinity says so.
func TestInfinityIsSaid(t *testing.T) {
	table := NewTable("", []float64{math.MaxFloat32, 3.4e38, -3.4e38, 2.5}, []Column[float64]{
		{Head: "error/tol", Format: "%.2f", Value: func(x float64) any { return x }}})
	assert.Equal(t, fmt.Sprint(table.Rows), "[[inf] [inf] [-inf] [2.50]]")
}
