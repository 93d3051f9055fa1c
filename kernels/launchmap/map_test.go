package launchmap

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// scattered is a map with random configs in all cells.
func scattered(seed uint64) *Map {
	r := rand.New(rand.NewPCG(seed, 1))
	m := &Map{Device: devicetest.H200(), Tool: "test"}
	for _, c := range Classes()[:4] {
		for _, align := range Aligns(c.Bytes) {
			x := Blank(c, align, m.Device.SMs)
			for i := range x.Lines {
				for j := range x.Rows {
					v := kernels.Variant{Family: "rms_fwd/cta_reg", Config: kernels.NewConfig(
						kernels.Setting{Knob: kernels.Warps, Value: 1 + r.IntN(20)})}
					if box := x.Box(i, j, m.Device.SMs); !box.Empty() {
						x.Set(i, j, v, Measured)
					}
				}
			}
			m.Rasters = append(m.Rasters, *x.withUsedConfigs())
		}
	}
	m.Sort()
	return m
}

// parse reads the map of a table as its readers do.
func parse(text []byte) (*Map, error) {
	var t struct {
		Device kernels.DeviceInfo
		Map    *Map
	}
	if err := json.Unmarshal(text, &t); err != nil || t.Map == nil {
		return nil, err
	}
	t.Map.Device = t.Device
	return t.Map, t.Map.CheckValid()
}

// A map is read as it was written. One that was edited by hand has a checksum of before, where an
// earlier version wrote it: the edit counts.
func TestMapIsReadAsWritten(t *testing.T) {
	m := scattered(1)
	half, err := json.MarshalIndent(map[string]any{"device": m.Device, "map": m,
		"entries": []int{}}, "", "  ")
	assert.NoError(t, err)
	got, err := parse(half)
	assert.That(t, err == nil && reflect.DeepEqual(got, m), "%v; read %+v, wrote %+v", err, got, m)
	edited := strings.Replace(string(half), "mmmm", "mmmh", 1)
	edited = strings.Replace(edited, `"rasters"`, `"crc": "01234567", "rasters"`, 1)
	got, err = parse([]byte(edited))
	assert.That(t, err == nil && got.Rasters[0].Count(ByHand) == 1, "%v; %d cells by hand", err,
		got.Rasters[0].Count(ByHand))
}

// cellOf is the cell of a problem.
func cellOf(m *Map, p kernels.Problem) Answer {
	return m.Raster(ClassOf(p), AlignOf(p.N, p.DType.Size())).CellAt(p.M, p.N, m.Device.SMs)
}

// TestMergeKeepsTheBetterEvidence: of two maps each cell has the better-evidenced config, whatever their lines and
// bounds, and of two alike next's.
func TestMergeKeepsTheBetterEvidence(t *testing.T) {
	old, next := scattered(6), scattered(7)
	if m, err := Merge(old, old, nil); err != nil || !reflect.DeepEqual(m.Rasters, old.Rasters) {
		t.Errorf("a map merged with itself is another: %v", err)
	}
	r := rand.New(rand.NewPCG(8, 1))
	next.Rasters = next.Rasters[1:]
	for _, m := range []*Map{old, next} {
		for i := range m.Rasters {
			x := &m.Rasters[i]
			split := x.Lines[5]
			split.From += int64(1 + r.IntN(20))
			x.Lines = append(x.Lines[:6:6], append([]Band{split}, x.Lines[6:]...)...)
			for k := range x.Lines {
				e := []byte(x.Lines[k].Evidence)
				for j := range e {
					if e[j] != Nothing {
						e[j] = evidences[r.IntN(4)]
					}
				}
				x.Lines[k].Evidence = string(e)
			}
		}
	}
	better := func(yes bool) Preference {
		return func(Box, kernels.Variant, kernels.Variant) bool { return yes }
	}
	m, err := Merge(old, next, better(false))
	assert.Must(t, err == nil && m.CheckValid() == nil, "%v %v", err, m.CheckValid())
	for range 50000 {
		c := old.Rasters[r.IntN(len(old.Rasters))].Class
		p := c.Problem(1+r.Int64N(1<<r.IntN(21)), 64+r.Int64N(1<<r.IntN(17)))
		if !CoversShape(p.M, p.N) {
			continue
		}
		a, b, got := cellOf(old, p), cellOf(next, p), cellOf(m, p)
		want := a
		if b.Variant.Family != "" && (a.Variant.Family == "" ||
			evidenceRank(b.Evidence()) >= evidenceRank(a.Evidence())) {
			want = b
		}
		assert.Must(t, got.Variant == want.Variant && got.Evidence() == want.Evidence(),
			"%s: %v (%c) and %v (%c) make %v (%c)", p, a.Variant, a.Evidence(), b.Variant,
			b.Evidence(), got.Variant, got.Evidence())
	}
	p := next.Rasters[0].Class.Problem(64, 1028)
	if m, _ := Merge(old, next, better(true)); cellOf(m, p).Variant != cellOf(next, p).Variant {
		t.Error("a cell stays whose new config is better")
	}
	old = scattered(6)
	old.Runs = []RunSummary{{ID: "a"}}
	next.Runs = []RunSummary{{ID: "b"}, {ID: "a"}}
	if m, _ := Merge(old, next, better(false)); len(m.Rasters) != len(old.Rasters) ||
		!reflect.DeepEqual(m.Rasters[1:], next.Rasters) || len(m.Runs) != 2 {
		t.Error("a map that is filled from more than the old one has its classes not to itself")
	}
	other := *next
	other.Device.ID = "nvidia-h100"
	_, err = Merge(old, &other, nil)
	assert.That(t, err != nil, "maps of two devices merge")
}

// FuzzParse: whatever the text, it is refused, or a map that is written and read as it was.
func FuzzParse(f *testing.F) {
	text, err := json.Marshal(map[string]any{"device": devicetest.H200(), "map": scattered(9)})
	assert.NoError(f, err)
	f.Add(text)
	f.Add([]byte(
		`{"device": {"id": "x", "sms": 132}, "map": {"rasters": [{"class": "rmsnorm/fwd/2-byte", "align": 16, "rows": "1 2/SM 1048576", "legend": ["  family w", "a rms_fwd/cta_reg 4"], "lines": ["64 a.a m.m"]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parse(text)
		if err != nil || m == nil {
			return
		}
		again, err := json.Marshal(map[string]any{"device": m.Device, "map": m})
		assert.NoError(t, err)
		n, err := parse(again)
		assert.Must(t, err == nil && len(n.Rasters) == len(m.Rasters), "%v: %s", err, again)
		cellOf(m, Classes()[0].Problem(4096, 4096))
	})
}

// A kernel without a bias that serves wide rows alone is accepted where the rows are wide.
func TestFamilyOfWideRowsWithoutABiasIsAcceptedThere(t *testing.T) {
	wide := &kernels.Family{Name: "wide", Op: kernels.RMSNorm, Pass: kernels.Fwd,
		Serves: func(p kernels.Problem) error {
			if p.N < 1024 || p.Bias {
				return errors.New("wide rows without a bias only")
			}
			return nil
		},
		Refuse: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil }}
	reg := &kernels.Registry{Families: []*kernels.Family{wide}}
	c, err := ParseClass("rmsnorm/fwd/2-byte")
	assert.NoError(t, err)
	for lo, want := range map[int64]bool{1024: true, 512: false} {
		b := Box{c, 16, lo, 2 * lo, 1, 8, false}
		assert.That(t, b.Accepts(reg, kernels.DeviceInfo{}, kernels.Variant{Family: "wide"}) == want, "columns from %d: not %v", lo, want)
	}
}

// A map with one config for a line says so in its file, as long as it holds: joined or merged with another it is one of
// several, and a file that claims it of several configs is refused.
func TestBatchInvariantRasterHasOneConfigForALine(t *testing.T) {
	one, several := scattered(3), scattered(4)
	for i := range one.Rasters {
		r := &one.Rasters[i]
		for line := range r.Lines {
			v, _ := r.Pick(line, 0)
			for cell := range r.Rows {
				r.Set(line, cell, v, Measured)
			}
		}
		r.BatchInvariant = 1.04
	}
	text, err := json.Marshal(one)
	assert.That(t, err == nil && strings.Contains(string(text), `"batch_invariant":1.04`), "%v", err)
	assert.NoError(t, one.CheckValid())
	merged, err := Merge(one, several, func(Box, kernels.Variant, kernels.Variant) bool { return false })
	assert.That(t, err == nil && merged.CheckValid() == nil && merged.Rasters[0].BatchInvariant == 0, "merged: %v, %v", err, merged.CheckValid())
	merged, err = Merge(several, one, func(Box, kernels.Variant, kernels.Variant) bool { return true })
	assert.That(t, err == nil && merged.CheckValid() == nil && merged.Rasters[0].BatchInvariant == 1.04, "preferred: %v, %v", err,
		merged.CheckValid())
	several.Rasters[0].BatchInvariant = 1.04
	err = several.CheckValid()
	assert.That(t, err != nil && strings.Contains(err.Error(), "several configs"), "several configs pass: %v", err)
}
