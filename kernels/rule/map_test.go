package rule

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
)

// scattered is a map with random configs in all cells.
func scattered(seed uint64) *Map {
	r := rand.New(rand.NewPCG(seed, 1))
	m := &Map{Device: devicetest.H200(), Tool: "test"}
	for _, c := range Classes()[:4] {
		for _, align := range Aligns(c.Bytes) {
			x := Blank(c, align, m.Device.SMs)
			for i := range x.Lines {
				cells, evidence := []byte(x.Lines[i].Cells), []byte(x.Lines[i].Evidence)
				for j := range cells {
					if nLo, nHi, mLo, mHi := x.Span(i, j, m.Device.SMs); mHi < mLo || nHi < nLo {
						continue
					}
					v := kernels.Variant{Family: "rms_fwd/cta_reg", Config: kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: 1 + r.IntN(20)})}
					cells[j], _ = x.Letter(v)
					evidence[j] = Measured
				}
				x.Lines[i].Cells, x.Lines[i].Evidence = string(cells), string(evidence)
			}
			m.Rasters = append(m.Rasters, *x.tidy())
		}
	}
	m.Sort()
	return m
}

func TestMapText(t *testing.T) {
	m := scattered(1)
	half, err := json.MarshalIndent(map[string]any{"device": m.Device, "map": m, "entries": []int{}}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("tuned.json", half)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("read %+v, wrote %+v", got, m)
	}
	if _, err := Parse("tuned.json", []byte(strings.Replace(string(half), "mmmm", "mmmn", 1))); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a changed map: %v", err)
	}
}

func TestFindAt(t *testing.T) {
	m := scattered(2)
	r := rand.New(rand.NewPCG(3, 1))
	for range 100000 {
		c := m.Rasters[r.IntN(len(m.Rasters))].Class
		p := c.Problem(1+r.Int64N(1<<r.IntN(21)), 1+r.Int64N(1<<r.IntN(17)))
		a := m.Find(p, &m.Device)
		if !Inside(p.M, p.N) {
			if a.Match != MatchOutside {
				t.Fatalf("%s: %+v", p, a)
			}
			continue
		}
		if a.Match != MatchCell {
			t.Fatalf("%s: %+v", p, a)
		}
		nLo, nHi, mLo, mHi := a.Raster.Span(a.Line, a.Cell, m.Device.SMs)
		if p.N < nLo || p.N > nHi || p.M < mLo || p.M > mHi || AlignOf(p.N, c.Bytes) != a.Raster.Align {
			t.Fatalf("%s is in the cell of columns %d to %d, rows %d to %d, %s", p, nLo, nHi, mLo, mHi, a.Raster.Title())
		}
	}
}

func TestLookupAllocates(t *testing.T) {
	m, d := scattered(4), devicetest.H200()
	p := m.Rasters[len(m.Rasters)-1].Class.Problem(4096, 8192)
	if n := testing.AllocsPerRun(100, func() { m.Find(p, &d) }); n != 0 {
		t.Errorf("a lookup allocates %v times", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	m, d := scattered(5), devicetest.H200()
	p := m.Rasters[len(m.Rasters)-1].Class.Problem(4097, 8191)
	b.ReportAllocs()
	for b.Loop() {
		m.Find(p, &d)
	}
}
