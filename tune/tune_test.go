package tune

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

var sameConfig = cmp.Comparer(func(a, b kernels.Config) bool { return a == b })

// entry makes one of the measurements; us 0 is a failure.
func entry(t testing.TB, p, variant string, us float64) record.Outcome {
	t.Helper()
	variant, base := strings.CutSuffix(variant, " base")
	v := devicetest.Variant(t, variant)
	e := record.Outcome{Problem: devicetest.Problem(t, p), Variant: v, Base: base, Source: "abc",
		Status: kernels.StatusOK, StreamUS: 50,
		Summary: stats.Summary{N: 30, Median: us, Lo: us - 0.5, Hi: us + 0.5}}
	if us == 0 {
		e.Status, e.Reason, e.Summary = kernels.StatusWrong, "dx is wrong", stats.Summary{}
	}
	return e
}

const (
	p1 = "rmsnorm/bwd/4096x8192/bf16"
	p2 = "rmsnorm/fwd/4096x8192/bf16"
	p3 = "rmsnorm/bwd/256x65536/bf16"
)

func measured(t testing.TB) []record.Outcome {
	return []record.Outcome{
		entry(t, p1, "stream@", 50),
		entry(t, p1, "f@w8 base", 100),
		entry(t, p1, "f@w4", 80),
		entry(t, p1, "g@w4", 90),
		entry(t, p1, "g@w8", 0),
		entry(t, p2, "f@w4", 99.5),
		entry(t, p2, "f@w8 base", 100),
		entry(t, p3, "f@w8 base", 0),
		entry(t, "rmsnorm/bwd/1x8/bf16", "f@w8 base", 0),
		entry(t, p3, "f@w4", 70),
	}
}

// What is picked of variants and their times, 0 for a failure, with its speedup, the runner-up and
// the margin: testdata/picks.txt.
func TestPickTakesTheFastestWithItsMargin(t *testing.T) {
	assert.Lines(t, "testdata/picks.txt", func(input string) string {
		var in []record.Outcome
		for variant, us := range assert.Value[map[string]float64](t, input) {
			in = append(in, entry(t, p1, variant, us))
		}
		var got []string
		for _, e := range Pick(in) {
			v := e.Variant()
			got = append(got, v.String(), num(e.Speedup))
			if r := e.RunnerUp; r != nil {
				got = append(got, kernels.Variant{Family: r.Family, Config: r.Config}.String(),
					num(r.MarginPercent))
			}
		}
		return strings.Join(got, " ")
	})
}

func num(f float64) string {
	b, _ := kernels.Number(f).MarshalJSON()
	return string(b)
}

func table(t testing.TB) *TunedTable {
	return &TunedTable{
		Schema: Schema, Tool: "v1.0.0", Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Device: kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200",
			Arch: "sm_90", SMs: 132},
		Protocol: record.Protocol{Name: "cold", Samples: 30, Cold: true},
		Entries:  Pick(measured(t)),
	}
}

func TestTableIsReadAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	want := table(t)
	for range 2 { // the second replaces the first
		assert.NoError(t, want.Write(durable.Place{Name: path}))
	}
	st, err := os.Stat(path)
	assert.That(t, err == nil && st.Mode().Perm() == 0o644, "mode %v, %v", st.Mode(), err)
	assert.Golden(t, "testdata/tuned.json", string(assert.File(t, path)))
	got, err := Read(path)
	diff := cmp.Diff(want, got, sameConfig)
	assert.That(t, diff == "" && err == nil, "%v %v", diff, err)
	e, m := got.Lookup(devicetest.Problem(t, p1))
	assert.That(t, m && e.Config.String() == "w4" &&
		e.Variants == (Counts{Measured: 4, OK: 3, Failed: 1}), "lookup: %+v %v", e, m)
	e, m = got.Lookup(devicetest.Problem(t, "rmsnorm/bwd/1x8/bf16"))
	assert.That(t, !m && e.Family == "", "lookup of nothing: %+v %v", e, m)
	gone := filepath.Join(t.TempDir(), "no", "such", FileName)
	_, err = Read(gone)
	for _, err := range []error{err, want.Write(durable.Place{Name: gone})} {
		assert.Error(t, err, "tuned table "+gone+": no such file or directory")
		assert.That(t, hint.Of(err) != "", "no hint")
	}
}

// What is no tuned table is refused in the words of testdata/invalid.txt, read or written.
func TestWhatIsNoTableIsRefused(t *testing.T) {
	var got strings.Builder
	for _, edit := range []func(t *TunedTable, e *Entry){
		func(t *TunedTable, _ *Entry) { t.Schema = 3 },
		func(t *TunedTable, _ *Entry) { t.Schema = 0 },
		func(t *TunedTable, _ *Entry) { t.Device.ID = "" },
		func(t *TunedTable, _ *Entry) { t.Created = time.Time{} },
		func(t *TunedTable, e *Entry) { t.Entries[1] = *e },
		func(t *TunedTable, e *Entry) { *e, t.Entries[1] = t.Entries[1], *e },
		func(_ *TunedTable, e *Entry) { e.Family = "" },
		func(_ *TunedTable, e *Entry) { e.MedianUS = math.NaN() },
		func(_ *TunedTable, e *Entry) { e.CIUS = []float64{1, 2} },
		func(_ *TunedTable, e *Entry) { e.Base.MedianUS = 0 },
		func(_ *TunedTable, e *Entry) { e.RunnerUp.MedianUS = 0 },
		func(_ *TunedTable, e *Entry) { e.StreamUS = math.Inf(1) },
	} {
		tab := table(t)
		edit(tab, &tab.Entries[0])
		err := tab.CheckValid()
		fmt.Fprintln(&got, assert.Refusal(t, err))
		assert.That(t, tab.Write(durable.Place{Root: t.TempDir(), Name: "x"}) != nil,
			"%v, and it was written", err)
	}
	for _, text := range []string{"", "{\n\"schema\":1,\n}", "{}", `{"schema":7,"entries":"x"}`,
		"{\"schema\":1,\n\"entries\":\"x\"}", `{"schema":1,"entries":[{"problem":"x"}]}`} {
		_, err := parse("f", []byte(text))
		fmt.Fprintf(&got, "%q: %s\n", text, assert.Refusal(t, err))
	}
	assert.Golden(t, "testdata/invalid.txt", got.String())
}

func FuzzParse(f *testing.F) {
	text := assert.File(f, filepath.Join("testdata", "tuned.json"))
	f.Add(text)
	for from, to := range map[string]string{ // what was once taken
		`"id": "`:       `"id": "../../`,
		`"entries": [`:  `"entries": null, "was": [`,
		`"family":"`:    "\"family\":\"\\u001b[2J",
		`"median_us":`:  `"median_us":1e999,"median_us":`,
		`"schema": `:    `"schema": 1, "schema": `,
		`"tool"`:        `"crc": "00000000", "tool"`,
		`{`:             "\xef\xbb\xbf{",
		`"config":"`:    `"config":"@`,
		`"protocol": {`: `"protocol": ` + strings.Repeat(`{"a":`, 2000) + `{`,
	} {
		assert.That(f, bytes.Contains(text, []byte(from)), "no %s to change", from)
		f.Add(bytes.Replace(text, []byte(from), []byte(to), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tab, err := parse("f", data)
		if err != nil {
			assert.Must(t, strings.HasPrefix(err.Error(), "f:") &&
				!strings.Contains(err.Error(), "\n"), "error %q", err)
			return
		}
		path := filepath.Join(t.TempDir(), "t.json")
		assert.NoError(t, tab.Write(durable.Place{Name: path}))
		again, err := Read(path)
		diff := cmp.Diff(tab, again, sameConfig, cmpopts.EquateEmpty())
		assert.Must(t, err == nil && diff == "", "%v %v", diff, err)
	})
}

// A table names the runs that its entries are of, also those of a table that it goes on with.
func TestTableNamesTheRunsOfItsEntries(t *testing.T) {
	var runs []*record.Run
	of := func(problems ...string) *TunedTable {
		tab := table(t)
		tab.Entries = nil
		for _, p := range problems {
			e := entry(t, p, "f@w8 base", 5)
			e.Run = &record.Run{ID: fmt.Sprint(len(runs)), Time: time.Unix(int64(len(runs)), 0),
				Command: []string{"normbench", "sweep"},
				Device:  kernels.DeviceInfo{UUID: fmt.Sprint("GPU-", len(runs))}}
			runs, tab.Entries = append(runs, e.Run), append(tab.Entries, Pick([]record.Outcome{e})...)
		}
		tab.addRuns(runs...)
		return tab
	}
	old := of(p1, p3)
	merged, _ := merge(old, of(p3), asOf(old))
	assert.That(t, len(merged.Runs) == 2 && merged.Runs[0].ID == "0" &&
		merged.Runs[1].UUID == "GPU-2" && merged.Runs[1].Command[1] == "sweep", "%v", merged.Runs)
}
